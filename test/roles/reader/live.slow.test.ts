// Live streams of a reader process over Kafka: its options, beside an ingest that writes to the same topic.

import { once } from 'node:events'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { Registry } from 'prom-client'
import { Type } from 'typebox'
import { expect, onTestFinished, test } from 'vitest'
import { loadOptions } from '../../../config/options/options.ts'
import { createServer } from '../../../http/server.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { openReaderLive, type ReaderLiveOptions, readerLiveFaults, readerLiveSections } from '../../../roles/reader/live.ts'
import { openReaderMetrics } from '../../../roles/reader/metrics.ts'
import { logSettings, silent } from '../../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../../pipeline/message.ts'
import { makeWorld } from '../../pipeline/writer/parts.ts'
import { openEvents } from '../../readers/live/event-source.ts'
import { channel, openFakeAccess, owner } from '../../readers/live/served-live.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { call } from '../../up/operator.ts'
import { promptStop } from '../../up/platform.ts'
import { startReader, untilHealth } from '../processes.ts'
import { openReadSite } from '../read-site.ts'

const schema = Type.Object(readerLiveSections)

function load(environment: Record<string, string>): ReaderLiveOptions {
  return loadOptions(schema, { environment })
}

async function serve(options: ReaderLiveOptions): Promise<{ url: string } & AsyncDisposable> {
  const metrics = openReaderMetrics(new Registry()).live
  const live = await openReaderLive(options, {
    access: openFakeAccess(),
    key: Buffer.alloc(32, 3),
    metrics,
    outage: makeWorld().outages.report('log'),
    logger: silent,
  })
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

test('while disabled, options of the log are not checked, and the route says what to set', async () => {
  const options = load({ SVC_LOG_TLS: 'false', SVC_LOG_SASL_MECHANISM: 'plain' })
  expect(readerLiveFaults(options, 'development')).toEqual([])
  await using served = await serve(options)
  await expect(openEvents(served.url, owner)).rejects.toThrow(/^404 .*SVC_LIVE_ENABLED=true/)
})

test('once enabled, faults in the options of the log are reported with their place', () => {
  const options = load({ SVC_LIVE_ENABLED: 'true', SVC_LOG_SASL_MECHANISM: 'plain', SVC_SUBSCRIBER_SUBJECTS: 'rooms.>' })
  expect(readerLiveFaults(options, 'development').map(({ place }) => place)).toEqual(['log.sasl_username', 'subscriber.subjects'])
})

describeWithKafka('a reader that follows Kafka', kafka => {
  test('appended messages arrive, and another process with the same key resumes where one ended', async () => {
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

/** The port of a broker that accepts connections and never answers. */
async function openSilentBroker(): Promise<number> {
  const broker = createTcpServer(() => undefined).listen(0, '127.0.0.1')
  await once(broker, 'listening')
  onTestFinished(() => void broker.close())
  return (broker.address() as AddressInfo).port
}

describeWithPostgres('a reader whose log is silent', postgres => {
  test('reports that in its health, tells new followers to retry, counts them, and stops within the five seconds', async () => {
    const at = await openReadSite(postgres)
    const live = { ...promptStop, SVC_LIVE_ENABLED: 'true', SVC_LOG_BROKERS: `127.0.0.1:${await openSilentBroker()}` }
    const reader = await startReader(at.api.internalUrl, at.storeUrl, live)
    await untilHealth(reader, 'log', 'fail')
    await untilHealth(reader, 'store', 'pass')
    const path = `/channels/${at.site.channel}/messages/stream`
    const follow = () => call(reader.url, 'GET', path, { authorization: at.site.owner })
    const refused = await follow()
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
    const { text } = await call(reader.internalUrl, 'GET', '/metrics')
    expect(text).toMatch(
      /handler_duration_seconds_count\{[^}]*path="\/channels\/:channel\/messages\/stream",status="503",answer="stream"\} 1$/m,
    )
    const waiting = follow().then(
      ({ status }) => status,
      () => 'broken off',
    )
    await call(reader.url, 'GET', '/livez')
    // 1 if a part delays the stop.
    expect(await reader.stop()).toBe(0)
    expect([503, 'broken off']).toContain(await waiting)
    await at.close()
  })
})
