// The sessions in a topic of Kafka.

import { randomBytes } from 'node:crypto'
import type { IPublishPacket } from 'mqtt-packet'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openOutage } from '../../../../config/outage.ts'
import { openCompactedTopic } from '../../../../pipeline/kafka/compacted-topic.ts'
import { openKafkaLog } from '../../../../pipeline/kafka/log.ts'
import type { SessionKey } from '../../../../pipeline/mqtt/sessions/records.ts'
import { recordName } from '../../../../pipeline/mqtt/sessions/records.ts'
import {
  openSessions as openStore,
  type SessionStore,
  type SessionsParts,
  SessionsUnavailableError,
} from '../../../../pipeline/mqtt/sessions/store.ts'
import { keptSession, sessionConformance, someClient } from '../../../conformance/sessions.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { channel } from '../../ingest/site.ts'
import { impatient, logSettings, readTopic, silent } from '../../kafka/stored-messages.ts'
import { openFakeTopic } from '../../live/fake-topic.ts'
import { outgoing } from '../../message.ts'
import type { Client } from '../client.ts'
import { type MqttSite, openSite, ping } from '../site.ts'

const untold = (): void => expect.unreachable('told that another took the session')

function openSessions(brokers: readonly string[], topic: string, more: Partial<SessionsParts> = {}): SessionStore {
  const outage = openOutage({ logger: silent, dependency: 'log', name: 'Kafka' })()
  const log = logSettings(brokers, topic, { connectTimeoutMs: 1_000, ...impatient })
  return openStore({ openTopic: use => openCompactedTopic({ ...use, log, outage, logger: silent }), ...more })
}

const sessionsTopic = (topic: string): string => `${topic}.mqtt-sessions`
const newTopic = (): string => `test-${randomBytes(6).toString('hex')}`

describeWithOwnKafka('on Kafka', kafka => {
  sessionConformance(
    'a topic of sessions',
    () => {
      const topic = newTopic()
      let nowMs = Date.now()
      return {
        open: () => openSessions(kafka.proxied, topic, { clock: () => nowMs }),
        pass: ms => void (nowMs += ms),
        break() {
          // First, so that no client can reconnect.
          kafka.proxy.refuse()
          kafka.proxy.cut()
        },
        mend: () => kafka.proxy.heal(),
      }
    },
    true,
  )

  describe('a group of subscribers', () => {
    const messages = `channels/${channel}/messages`

    /** Instances of one log, with stores of their own. */
    async function openSites(): Promise<[MqttSite, MqttSite]> {
      const [topic, log] = [newTopic(), openFakeTopic(2)]
      const open = (): Promise<MqttSite> => {
        const sessions = openSessions(kafka.brokers, topic)
        onTestFinished(() => sessions.close())
        return openSite({ sessions, topic: log })
      }
      return [await open(), await open()]
    }

    async function join(site: MqttSite, clientId: string): Promise<Client> {
      const client = await site.connect(5, { clientId })
      client.send({ cmd: 'subscribe', messageId: 7, subscriptions: [{ topic: `$share/g/${messages}`, qos: 1 }] })
      expect(await client.next()).toMatchObject({ granted: [1] })
      return client
    }

    async function next(client: Client): Promise<string> {
      const packet = (await client.next()) as IPublishPacket
      client.send({ cmd: 'puback', messageId: packet.messageId! })
      return packet.payload.toString()
    }

    /** What groups do each second, until nothing more of it is under way. */
    async function tick({ timers }: MqttSite): Promise<void> {
      const own = timers.filter(({ waitMs, isStopped }) => waitMs === 1_000 && !isStopped)
      const restarts = own.map(timer => timer.restarts)
      for (const timer of own) timer.fire()
      await vi.waitFor(() => expect(own.every(({ restarts: now }, at) => now > restarts[at]!)).toBe(true), { timeout: 10_000 })
    }

    test.each<[how: string, end: (site: MqttSite, client: Client) => Promise<unknown>]>([
      ['has no more members', async (_site, client) => client.send({ cmd: 'disconnect' })],
      [
        'does not save it any more',
        async () => {
          const elapsed = performance.now.bind(performance)
          vi.spyOn(performance, 'now').mockImplementation(() => elapsed() + 15_000)
          onTestFinished(() => void vi.restoreAllMocks())
        },
      ],
    ])(
      'is one of one instance, until that %s',
      async (_how, end) => {
        const [first, second] = await openSites()
        const one = await join(first, 'one')
        const two = await join(second, 'two')
        for (const payload of ['a', 'b']) {
          first.topic.appendPayload(0, channel, payload)
          expect(await next(one)).toBe(payload)
        }
        await ping(one)
        await tick(first)
        await tick(second)
        await ping(two)
        first.topic.appendPayload(0, channel, 'c')
        await one.next()
        await end(first, one)
        first.topic.appendPayload(0, channel, 'd')
        await vi.waitFor(
          async () => {
            await tick(second)
            expect(await second.registry.metrics()).toMatch(/sent_events_total\{component_id="mqtt".*\} [1-9]/)
          },
          { timeout: 20_000 },
        )
        expect([await next(two), await next(two)]).toEqual(['c', 'd'])
      },
      40_000,
    )
  })

  describe('a topic of sessions', () => {
    /** Opened for this test, with a store and what its topic has. */
    function opened(more: Partial<SessionsParts> = {}): {
      topic: string
      store: SessionStore
      records: () => Promise<[string, unknown][]>
    } {
      const topic = newTopic()
      const store = openSessions(kafka.brokers, topic, more)
      onTestFinished(() => store.close())
      return {
        topic,
        store,
        records: async () =>
          (await readTopic(kafka.brokers, sessionsTopic(topic))).map(({ key, value }) => [
            key!.toString(),
            value === null ? null : (JSON.parse(value.toString()) as unknown),
          ]),
      }
    }

    /** Writes records as another instance does. The topic must exist. */
    async function openWriter(topic: string): Promise<(key: SessionKey, payload: string) => Promise<unknown>> {
      const log = await openKafkaLog(logSettings(kafka.brokers, sessionsTopic(topic), { partitions: 1 }), silent)
      onTestFinished(() => log.close())
      return (key, payload) => log.append([outgoing({ key: Buffer.from(recordName(key)), payload: Buffer.from(payload) })])
    }

    test('is created, compacted, with one partition', async () => {
      const { topic, store } = opened()
      await store.take(someClient(), untold)
      const about = await kafka.tool('TopicCommand', [
        '--describe',
        '--topic',
        sessionsTopic(topic),
        '--bootstrap-server',
        kafka.brokers[0]!,
      ])
      expect(about).toMatch(/PartitionCount: 1\b.*cleanup\.policy=compact/)
    })

    test('with several partitions is unavailable', async () => {
      const topic = newTopic()
      await kafka.createTopic({ name: sessionsTopic(topic), partitions: 2 })
      const store = openSessions(kafka.brokers, topic)
      onTestFinished(() => store.close())
      const taking = store.take(someClient(), untold)
      await expect(taking).rejects.toBeInstanceOf(SessionsUnavailableError)
      await expect(taking).rejects.toThrow(/has 2 partitions, but needs 1/)
    })

    test('has no more of sessions that expired a while ago, unless one is held', async () => {
      let nowMs = Date.now()
      const { store, records } = opened({ clock: () => nowMs, sweepMs: 100 })
      const [gone, there, held] = [someClient('gone'), someClient('there'), someClient('held')]
      for (const [key, keptSeconds] of [
        [gone, 1],
        [there, 60],
        [held, 1],
      ] as const) {
        const holding = await store.take(key, untold)
        await holding.save(keptSession(1, { keptSeconds }))
        if (key !== held) holding.release()
      }
      await vi.waitFor(() => expect([there, held].map(({ thing }) => store.count(thing))).toEqual([1, 1]), { timeout: 5_000 })
      nowMs += 2_000
      await vi.waitFor(
        async () => {
          const newest = new Map(await records())
          expect(newest.get(`${gone.thing} gone`)).toBeNull()
          expect(newest.get(`${there.thing} there`)).toMatchObject({ session: keptSession(1) })
          expect(newest.get(`${held.thing} held`)).toMatchObject({ untilMs: nowMs + 1_000, session: keptSession(1, { keptSeconds: 1 }) })
        },
        { timeout: 10_000 },
      )
    })

    test('gets what the holder saved once more when an earlier holder saves too late, as compaction keeps the last record', async () => {
      const { topic, store, records } = opened()
      const key = someClient()
      const held = await store.take(key, untold)
      await held.save(keptSession(1))
      const write = await openWriter(topic)
      await write(key, JSON.stringify({ holder: -1, untilMs: Date.now() + 60_000, session: keptSession(2) }))
      await vi.waitFor(
        async () => expect((await records()).slice(3)).toMatchObject([[`${key.thing} a client`, { holder: 0, session: keptSession(1) }]]),
        {
          timeout: 10_000,
        },
      )
    })

    test('has in its last record what was saved just before another took the session', async () => {
      const { topic, store, records } = opened()
      const key = someClient()
      const first = await store.take(key, untold)
      await first.save(keptSession(1))
      first.release()
      const write = await openWriter(topic)
      await write(key, JSON.stringify({ holder: 0, version: 2, untilMs: Date.now() + 60_000, session: keptSession(2) }))
      const second = await store.take(key, untold)
      expect(second.kept).toEqual(keptSession(2))
      await vi.waitFor(async () => expect((await records()).at(-1)).toMatchObject([recordName(key), { session: keptSession(2) }]), {
        timeout: 10_000,
      })
    })

    test('is held by who has saved it just now: what was saved long ago is saved once more', async () => {
      const { store, records } = opened()
      const held = await store.take(someClient(), untold)
      await held.save(keptSession(1))
      expect(await held.isHeld()).toBe(true)
      expect(await records()).toHaveLength(2)
      const elapsed = performance.now.bind(performance)
      vi.spyOn(performance, 'now').mockImplementation(() => elapsed() + 3_000)
      onTestFinished(() => void vi.restoreAllMocks())
      expect(await held.isHeld()).toBe(true)
      expect(await records()).toHaveLength(3)
    })

    test('may have records that are none of sessions', async () => {
      const { topic, store } = opened()
      const key = someClient()
      await store.take(key, untold)
      const write = await openWriter(topic)
      for (const payload of ['{', 'null', '[]', '{"untilMs":1}']) await write(key, payload)
      await write({ thing: '', clientId: '' }, '{}')
      const held = await store.take(someClient(), untold)
      await held.save(keptSession(1))
    })

    test('gets what counts once more from whoever sweeps it, if its holder has left', async () => {
      const { topic, store, records } = opened({ sweepMs: 100 })
      const key = someClient()
      const held = await store.take(key, untold)
      await held.save(keptSession(1))
      held.release()
      const write = await openWriter(topic)
      await write(key, JSON.stringify({ holder: -1, untilMs: Date.now() + 60_000, session: keptSession(2) }))
      await vi.waitFor(
        async () => expect((await records()).at(-1)).toMatchObject([recordName(key), { holder: 0, session: keptSession(1) }]),
        {
          timeout: 10_000,
        },
      )
    })

    test('says whether another process holds a session: until it saves an end, or nothing for 15 s', async () => {
      const { topic, store } = opened()
      const other = openSessions(kafka.brokers, topic)
      onTestFinished(() => other.close())
      const key = someClient()
      const at = (isEnd: boolean) => keptSession(1, { positions: { one: { log: 'abc', acknowledged: [1], taken: [1], isEnd } } })
      expect(await other.isHeldElsewhere(key)).toBe(false)
      const held = await store.take(key, untold)
      await held.save(at(false))
      expect(await Promise.all([store.isHeldElsewhere(key), other.isHeldElsewhere(key)])).toEqual([false, true])
      await held.save(at(true))
      expect(await other.isHeldElsewhere(key)).toBe(false)
      await held.save(at(false))
      expect(await other.isHeldElsewhere(key)).toBe(true)
      const elapsed = performance.now.bind(performance)
      vi.spyOn(performance, 'now').mockImplementation(() => elapsed() + 15_000)
      onTestFinished(() => void vi.restoreAllMocks())
      expect(await other.isHeldElsewhere(key)).toBe(false)
      await held.save(at(false))
      expect(await other.isHeldElsewhere(key)).toBe(true)
    })

    test('that is recreated is empty, and who held a session is notified', async () => {
      const { topic, store } = opened()
      const key = someClient()
      const taken = Promise.withResolvers<void>()
      const held = await store.take(key, taken.resolve)
      await held.save(keptSession(1))
      held.save(keptSession(2)).catch(() => undefined)
      await kafka.deleteTopic(sessionsTopic(topic))
      await taken.promise
      await vi.waitFor(
        async () => {
          const again = await store.take(key, untold)
          expect(again.kept).toBeUndefined()
          await again.save(keptSession(3))
        },
        { timeout: 20_000, interval: 100 },
      )
    }, 40_000)

    test('is not read before it can be reached, and then it is', async () => {
      const topic = newTopic()
      kafka.proxy.refuse()
      const store = openSessions(kafka.proxied, topic)
      onTestFinished(() => store.close())
      await expect(store.take(someClient(), untold)).rejects.toBeInstanceOf(SessionsUnavailableError)
      await expect(store.discard(someClient())).rejects.toBeInstanceOf(SessionsUnavailableError)
      await kafka.proxy.heal()
      await vi.waitFor(() => store.take(someClient(), untold), { timeout: 20_000, interval: 100 })
    }, 40_000)
  })
})
