// Live streams of a reader process over Kafka: by its options, beside ingest that writes to the same topic.

import type { AddressInfo } from 'node:net'
import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { createServer } from '../../config/http/server.ts'
import { loadOptions } from '../../config/options.ts'
import { openKafkaLog } from '../../pipeline/kafka/log.ts'
import { openReaderLive, type ReaderLiveOptions, readerLiveFaults, readerLiveSections } from '../../roles/reader-live.ts'
import { logSettings, silent } from '../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../pipeline/message.ts'
import { openEvents } from '../readers/live/event-source.ts'
import { channel, openFakeAccess, owner } from '../readers/live/served-live.ts'
import { describeWithKafka } from '../servers/kafka.ts'

const schema = Type.Object(readerLiveSections)

function load(environment: Record<string, string>): ReaderLiveOptions {
  return loadOptions(schema, { environment })
}

async function serve(options: ReaderLiveOptions): Promise<{ url: string } & AsyncDisposable> {
  const live = openReaderLive(options, { access: openFakeAccess(), key: Buffer.alloc(32, 3), logger: silent })
  const app = createServer({ logger: silent })
  await app.register(live.routes)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/channels/${channel}/messages/stream`
  return {
    url,
    async [Symbol.asyncDispose]() {
      await app.close()
      await live.close()
    },
  }
}

test('without being enabled nothing of the log is wrong, and the route says what to set', async () => {
  const options = load({ SVC_LOG_TLS: 'false', SVC_LOG_SASL_MECHANISM: 'plain' })
  expect(readerLiveFaults(options, 'development')).toEqual([])
  await using served = await serve(options)
  await expect(openEvents(served.url, owner)).rejects.toThrow(/^404 .*SVC_LIVE_ENABLED=true/)
})

test('enabled, what is wrong with the log is told with its place', () => {
  const options = load({ SVC_LIVE_ENABLED: 'true', SVC_LOG_SASL_MECHANISM: 'plain', SVC_SUBSCRIBER_SUBJECTS: 'rooms.>' })
  expect(readerLiveFaults(options, 'development').map(({ place }) => place)).toEqual(['log.sasl_username', 'subscriber.subjects'])
})

describeWithKafka('a reader that follows Kafka', kafka => {
  test('what is appended comes, and another process with the same key takes up where one ended', async () => {
    const topic = await kafka.createTopic({ partitions: 4 })
    const environment = { SVC_LIVE_ENABLED: 'true', SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: topic }
    const options = load(environment)
    expect(readerLiveFaults(options, 'development')).toEqual([])
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    const append = (name: string) => log.append([outgoing({ channel, subtopic: '', payload: Buffer.from(`[{"n":"${name}","v":1}]`) })])
    await using one = await serve(options)
    await using other = await serve(options)
    const first = await openEvents(one.url, owner)
    await append('a')
    await append('b')
    await first.until(2)
    first.leave()
    await append('c')
    const second = await openEvents(other.url, { ...owner, 'last-event-id': first.records[0]!.lastEventId })
    await append('d')
    await second.until(3)
    expect([first.names(), second.names()]).toEqual([
      ['a', 'b'],
      ['b', 'c', 'd'],
    ])
    await log.close()
  })
})
