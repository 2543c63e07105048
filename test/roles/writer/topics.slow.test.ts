// A writer of several topics: it begins to read a topic that appears and matches a pattern, its tools cover each topic, and it creates none by itself.

import { expect, onTestFinished, test } from 'vitest'
import { openAdmin } from '../../../pipeline/kafka/connection.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { describeTopic } from '../../../pipeline/kafka/topics.ts'
import { connectionTo } from '../../pipeline/kafka/consumer/source-parts.ts'
import { logSettings, silent } from '../../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../../pipeline/message.ts'
import { describeUnlessMissing } from '../../servers/describe-with.ts'
import { missingKafka } from '../../servers/install/kafka.ts'
import { missingPostgres } from '../../servers/install/postgres.ts'
import { runSluice, startWriter, untilReady, type WriterProcess } from '../../writer/process.ts'
import { openSite, type Site, shortWaits } from '../../writer/site.ts'
import type { RelationalSite } from '../../writer/stores/relational.ts'

async function append(site: Site, topic: string, payloads: readonly string[]): Promise<void> {
  const log = await openKafkaLog(logSettings(site.kafka.brokers, topic), silent)
  const contentType = 'application/senml+json'
  await log.append(payloads.map(payload => outgoing({ payload: new TextEncoder().encode(payload), contentType, channel: 'c' })))
  await log.close()
}

const good = '[{"n":"t","v":1}]'

function topicsOf(metrics: ReadonlyMap<string, number>): string[] {
  return [...new Set([...metrics.keys()].map(labels => /topic="([^"]+)"/.exec(labels)![1]!))].toSorted()
}

describeUnlessMissing('a writer of several topics', missingKafka() ?? missingPostgres(), () => {
  async function openTopicsSite(environment: Record<string, string> = {}): Promise<{ site: Site<RelationalSite>; writer: WriterProcess }> {
    const site = await openSite({
      partitions: [3, 1],
      environment: { ...shortWaits, SVC_WORKERS_COUNT: '2', SVC_LOG_TOPICS_REFRESH_MS: '500', ...environment },
    })
    onTestFinished(() => site.close())
    const writer = await site.start(0)
    await untilReady(writer)
    return { site, writer }
  }

  test('reads a topic that appears and matches its pattern, and its tools tell the topics apart', async () => {
    const { site, writer } = await openTopicsSite()
    for (const topic of site.topics) await append(site, topic, [good, 'no JSON'])
    expect(await site.untilStored(await site.logEnds())).toBe(true)
    await expect.poll(async () => topicsOf(await writer.metrics('consumer_lag_messages'))).toEqual(site.topics)

    const added = 'messages-3'
    await site.kafka.createTopic({ name: added, partitions: 2 })
    await append(site, added, [good, good])
    await append(site, site.topic, [good])
    await expect.poll(async () => topicsOf(await writer.metrics('consumer_lag_messages'))).toEqual([...site.topics, added])
    await untilReady(writer)
    const stored = async (): Promise<unknown> => (await site.store.query<{ count: string }>('SELECT count(*) FROM messages'))[0]!.count
    await expect.poll(stored).toBe('5')
    const restarts = writer.logged().filter(({ msg }) => /new topics match/.test(String(msg)))
    expect(restarts).toMatchObject([{ topics: [added] }])
    expect(writer.logged().filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([])

    const { code, printed } = await site.verify()
    expect(code, printed).toBe(0)
    for (const topic of [...site.topics, added])
      expect(printed).toMatch(new RegExp(`^log ${topic} \\(\\d in the store\\), writer relational$`, 'm'))
    const asJson = await runSluice(['verify', 'relational', '--json'], site.direct)
    expect(JSON.parse(asJson.printed)).toMatchObject({
      holds: true,
      topics: [...site.topics, added].map(topic => ({ topic, holds: true })),
    })

    const listed = await runSluice(['dlq', 'ls', '--json'], site.direct)
    const letters = listed.printed
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as { id: string; topic: string })
    expect(letters.map(({ topic }) => topic).toSorted()).toEqual(site.topics)
    const trace = async (id: string): Promise<unknown> => JSON.parse((await runSluice(['trace', id, '--json'], site.direct)).printed)
    expect(await trace(`${added}-0-0`)).toMatchObject({ topic: added, state: expect.stringMatching(/^(stored|unknown)$/) as unknown })
    for (const { id, topic } of letters) expect(await trace(id)).toMatchObject({ topic, state: 'dead-lettered' })
    expect(await runSluice(['trace', 'hall-0-0'], site.direct)).toMatchObject({
      code: 2,
      printed: expect.stringMatching(
        /the message is from the log "hall", but this writer reads the topics messages, messages-2, messages-3/,
      ) as unknown,
    })

    const [first] = letters
    const unnamed = await runSluice(['dlq', 'drop', first!.id.replace(/^\d+-/, '')], site.direct)
    expect([unnamed.code, unnamed.printed]).toEqual([1, expect.stringMatching(/does not name its topic/)])
    expect((await runSluice(['dlq', 'drop', first!.id], site.direct)).printed).toBe('1 dead letter dropped\n')
    const replayed = await runSluice(['dlq', 'replay', '--all'], site.direct)
    expect([replayed.code, replayed.printed]).toEqual([1, expect.stringMatching(/stays open/)])

    const freed = await runSluice(['logs', 'relational', '--free', '1'], site.direct)
    expect([freed.code, freed.printed]).toEqual([1, expect.stringMatching(/the writer "relational" writes: stop all its processes first/)])

    // There can be no topic for its dead letters.
    await site.kafka.createTopic({ name: `messages-${'x'.repeat(230)}` })
    const isSaid = (): boolean => writer.logged().some(({ msg }) => /^new topics are not read: messages-x+\.dead-letters/.test(String(msg)))
    await expect.poll(isSaid).toBe(true)
    expect(await writer.ready()).toBe(200)
  })

  test('stops when one of its topics is deleted, and says which', async () => {
    const { site, writer } = await openTopicsSite({ SVC_CONSUMER_METADATA_MS: '500' })
    for (const topic of site.topics) await append(site, topic, [good])
    expect(await site.untilStored(await site.logEnds())).toBe(true)
    await site.kafka.deleteTopic('messages-2')
    expect(await writer.ended).toBe(1)
    expect(writer.printed()).toMatch(/the topic messages-2 does not exist: create it, or correct log\.topic/)
  })

  test('ends with what to do if its topic is missing, and creates it if log.create is set', async () => {
    const site = await openSite()
    onTestFinished(() => site.close())
    const environment = {
      ...site.direct,
      ...site.store.directEnvironment,
      SVC_LOG_TOPIC: 'absent',
      SVC_LOG_PARTITIONS: '2',
      SVC_WORKERS_COUNT: '1',
    }
    const refused = await runSluice(['writer', 'relational', '--port', '0'], { ...environment, SVC_INTERNAL_LISTEN: '127.0.0.1:0' })
    expect(refused.code).toBe(1)
    expect(refused.printed).toMatch(
      /the topic absent does not exist: create it \(kafka-topics\.sh .*--topic absent --partitions 12\), set log\.create/,
    )
    const admin = await openAdmin(connectionTo(site.kafka.brokers))
    onTestFinished(() => admin.close())
    expect(await describeTopic(admin, 'absent')).toBeUndefined()

    const writer = await startWriter({ ...environment, SVC_LOG_CREATE: 'true' })
    onTestFinished(async () => void (await writer.stop('SIGKILL')))
    await untilReady(writer)
    expect((await describeTopic(admin, 'absent'))?.partitions).toBe(2)
    expect(writer.logged().filter(({ msg }) => msg === 'created a topic')).toMatchObject([
      { topic: 'absent', partitions: 2 },
      { topic: 'absent.dead-letters.relational', partitions: 1 },
    ])
  })
})
