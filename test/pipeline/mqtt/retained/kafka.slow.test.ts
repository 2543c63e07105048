// The retained messages in a topic of Kafka.

import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { openOutage } from '../../../../config/outage.ts'
import { openCompactedTopic } from '../../../../pipeline/kafka/compacted-topic.ts'
import { openKafkaLog } from '../../../../pipeline/kafka/log.ts'
import { type RetainedMessage, recordName, recordOf } from '../../../../pipeline/mqtt/retained/records.ts'
import { openRetained as openStore, type RetainedStore } from '../../../../pipeline/mqtt/retained/store.ts'
import { retainedConformance, retainedMessage } from '../../../conformance/retained.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { impatient, logSettings, readTopic, silent } from '../../kafka/stored-messages.ts'
import { outgoing } from '../../message.ts'

function openRetained(brokers: readonly string[], topic: string): RetainedStore {
  const outage = openOutage({ logger: silent, dependency: 'log', name: 'Kafka' })()
  const log = logSettings(brokers, topic, { connectTimeoutMs: 1_000, ...impatient })
  return openStore(use => openCompactedTopic({ ...use, log, outage, logger: silent }), 2)
}

const retainedTopic = (topic: string): string => `${topic}.mqtt-retained`
const newTopic = (): string => `test-${randomBytes(6).toString('hex')}`

describeWithOwnKafka('on Kafka', kafka => {
  retainedConformance(
    'a topic of retained messages',
    () => {
      const topic = newTopic()
      return {
        open: () => openRetained(kafka.proxied, topic),
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

  describe('a topic of retained messages', () => {
    /** Opened for this test, with what its topic has, and a writer of records as of another instance. */
    async function opened(): Promise<{
      topic: string
      store: RetainedStore
      last: (message: RetainedMessage) => Promise<string | null | undefined>
      write: (name: string, record: Uint8Array) => Promise<unknown>
    }> {
      const topic = newTopic()
      const store = openRetained(kafka.brokers, topic)
      onTestFinished(() => store.close())
      await store.ready()
      const log = await openKafkaLog(logSettings(kafka.brokers, retainedTopic(topic), { partitions: 1 }), silent)
      onTestFinished(() => log.close())
      return {
        topic,
        store,
        async last(message) {
          const records = await readTopic(kafka.brokers, retainedTopic(topic))
          const own = records.filter(({ key }) => key!.toString() === recordName(message))
          return own.length === 0 ? undefined : (own.at(-1)!.value?.toString() ?? null)
        },
        write: (name, payload) => log.append([outgoing({ key: Buffer.from(name), payload: Buffer.from(payload) })]),
      }
    }

    test('has a tombstone for what was cleared', async () => {
      const { store, last } = await opened()
      const message = retainedMessage(1)
      await store.keep(message)
      expect(await last(message)).toBe(recordOf(message).toString())
      await store.clear(message)
      expect(await last(message)).toBeNull()
    })

    test('has the later message as last record, as compaction keeps that, when another instance was faster', async () => {
      const { store, last, write } = await opened()
      // At once, so that in some rounds the other is first in the topic.
      for (let round = 0; round < 20; round++) {
        const later = retainedMessage(2)
        await Promise.all([write(recordName(later), recordOf(later)), store.keep({ ...later, offset: 1 })])
        await store.ready()
        expect(await last(later)).toBe(recordOf(later).toString())
        expect(store.get(later)).toEqual(later)
      }
    })

    test('is followed: what another instance keeps is there without a call', async () => {
      const { store, write } = await opened()
      const message = retainedMessage(0)
      for (let offset = 0; offset < 20; offset++) {
        await write(recordName(message), recordOf({ ...message, offset }))
        await vi.waitFor(() => expect(store.get(message)).toEqual({ ...message, offset }), { timeout: 5_000, interval: 1 })
      }
    }, 10_000)

    test('may have records that are none of retained messages', async () => {
      const { store, write } = await opened()
      for (const record of ['{', 'null\n', '[]\n']) await write('channel topic', Buffer.from(record))
      await store.ready()
      const message = retainedMessage(1)
      await store.keep(message)
      expect([store.get({ channel: 'channel', subtopic: 'topic' }), store.get(message)]).toEqual([undefined, message])
    })

    test('that is recreated is empty', async () => {
      const { topic, store } = await opened()
      const message = retainedMessage(1)
      await store.keep(message)
      await kafka.deleteTopic(retainedTopic(topic))
      await vi.waitFor(() => expect(store.get(message)).toBeUndefined(), { timeout: 20_000, interval: 100 })
      await vi.waitFor(() => store.keep(message), { timeout: 20_000, interval: 100 })
      expect(store.get(message)).toEqual(message)
    }, 60_000)
  })
})
