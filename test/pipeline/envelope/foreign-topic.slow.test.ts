// A topic that was not written for Sluice: JSON of another producer, without a header of ours, through a whole writer and the tools.

import { Kafka as KafkaJs, logLevel } from 'kafkajs'
import { expect, onTestFinished, test } from 'vitest'
import { administrator, startApi, startReader } from '../../roles/processes.ts'
import { describeUnlessMissing } from '../../servers/describe-with.ts'
import { missingKafka } from '../../servers/install/kafka.ts'
import { missingPostgres } from '../../servers/install/postgres.ts'
import { call, makeSite } from '../../up/operator.ts'
import { runSluice, untilReady } from '../../writer/process.ts'
import { openSite, shortWaits } from '../../writer/site.ts'

const envelope = {
  SVC_ENVELOPE_CHANNEL: 'header:device,field:device.id',
  SVC_ENVELOPE_PUBLISHER: 'key',
  SVC_ENVELOPE_SUBTOPIC: 'field:kind',
  SVC_TRANSFORMER_DEFAULT_FORMAT: 'events',
  SVC_ENVELOPE_CREATED: 'field:at',
}
const timestampMs = 1_790_000_000_000
/** Sent in capitals as well: it is the same id. */
const uuid = 'e3cb5f9e-3c0e-4a57-9d0a-5f9f0a3c1b77'
const documents = [
  { key: 'gateway', headers: { device: 'd1' }, value: { kind: 'readings', at: 1_790_000_001, temperature: 21.5 } },
  { key: 'gateway', headers: {}, value: { kind: 'readings', at: '2026-09-21T14:13:22Z', device: { id: 'd2' }, temperature: 22 } },
  { key: null, headers: { device: 'd1/ü' }, value: { opened: true } },
  { key: 'gateway', headers: {}, value: { kind: 'readings', temperature: 0 } },
  // Not set in .NET and Go, the last one of .NET, and on both sides of 2^53 µs.
  ...['0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z', '2255-06-05T23:47:35Z', '2255-06-05T23:47:34Z'].map((at, number) => ({
    key: 'gateway',
    headers: { device: 'd3' },
    value: { kind: 'readings', at, temperature: 30 + number },
  })),
  { key: 'gateway', headers: { device: uuid.toUpperCase() }, value: { kind: 'readings', at: 1_790_000_003, temperature: 40 } },
  { key: 'gateway', headers: { device: uuid }, value: { kind: 'readings', at: 1_790_000_004, temperature: 41 } },
]

describeUnlessMissing('a topic of another producer', missingKafka() ?? missingPostgres(), () => {
  test('is stored where its envelope is said to be, and what had no channel or no time is stored by a replay at its own time', async () => {
    const site = await openSite({ partitions: 1, environment: { ...shortWaits, ...envelope, SVC_WORKERS_COUNT: '1' } })
    onTestFinished(() => site.close())
    const producer = new KafkaJs({ brokers: [...site.kafka.brokers], logLevel: logLevel.NOTHING }).producer()
    await producer.connect()
    onTestFinished(() => producer.disconnect())
    const messages = documents.map(({ value, ...rest }) => ({ ...rest, value: JSON.stringify(value), timestamp: String(timestampMs) }))
    await producer.send({ topic: site.topic, messages })
    await untilReady(await site.start(0))
    expect(await site.untilStored(new Map([[0, documents.length]]))).toBe(true)

    const rows = (): Promise<unknown[]> =>
      site.store.query(`
        SELECT 'readings' AS format, channel, publisher, created::text, payload->>'temperature' AS value FROM formats.readings
        UNION ALL SELECT 'events', channel, publisher, created::text, payload->>'opened' FROM formats.events ORDER BY 1, 2, 4, 5`)
    const stored = [
      { format: 'events', channel: 'd1/ü', publisher: '', created: `${timestampMs}000000`, value: 'true' },
      { format: 'readings', channel: 'd1', publisher: 'gateway', created: '1790000001000000000', value: '21.5' },
      { format: 'readings', channel: 'd2', publisher: 'gateway', created: '1790000002000000000', value: '22' },
      { format: 'readings', channel: uuid, publisher: 'gateway', created: '1790000003000000000', value: '40' },
      { format: 'readings', channel: uuid, publisher: 'gateway', created: '1790000004000000000', value: '41' },
    ]
    expect(await rows()).toEqual(stored)
    const environment = { ...site.direct, ...envelope }
    expect(await runSluice(['verify', 'relational'], environment)).toMatchObject({ code: 0 })
    const deadLetters = (await runSluice(['dlq', 'ls', '--json'], environment)).printed.trimEnd().split('\n')
    expect(deadLetters.map(line => JSON.parse(line) as Record<string, unknown>)).toMatchObject([
      { id: '1-0-3', rule: 'no-channel' },
      { id: '1-0-4', rule: 'created', channel: 'd3', created: '0' },
      { id: '1-0-5', rule: 'created', channel: 'd3', created: '0' },
      { id: '1-0-6', rule: 'created', channel: 'd3', created: '0' },
      { id: '1-0-7', rule: 'time-range', channel: 'd3', created: '9007199254000000000' },
    ])
    expect((await runSluice(['trace', '1-0-1'], environment)).printed).toMatch(/d2/)

    // Its reader: the administrator's, and the statement's of PostgreSQL.
    const traced = (await runSluice(['trace', '1-0-2', '--json'], environment)).printed
    const { read, statement } = JSON.parse(traced) as { read: string; statement: string }
    expect(await site.store.query(statement)).toMatchObject([{ channel: 'd1/ü', subtopic: '', payload: { opened: true } }])
    const api = await startApi(await site.store.postgres.createDatabase())
    const reader = await startReader(api.internalUrl, site.store.url)
    const { json } = await call(api.url, 'POST', '/tokens', { body: administrator })
    const authorization = `Bearer ${String(json!['token'])}`
    const page = (await call(reader.url, 'GET', read, { authorization })).json
    expect(page).toMatchObject({ total: 1, format: 'events', messages: [{ Channel: 'd1/ü', Payload: { opened: true } }] })
    for (const id of [uuid, uuid.toUpperCase()]) {
      const path = `/channels/${id}/messages?format=readings&dir=asc`
      expect((await call(reader.url, 'GET', path, { authorization })).json).toMatchObject({
        total: 2,
        messages: [40, 41].map(temperature => ({ Channel: uuid, Payload: { temperature } })),
      })
    }
    expect(JSON.parse((await runSluice(['trace', '1-0-8', '--json'], environment)).printed)).toMatchObject({
      read: expect.stringContaining(`/channels/${uuid}/messages`),
    })
    const { owner, device } = await makeSite(api.url)
    for (const other of [owner, device]) expect((await call(reader.url, 'GET', read, { authorization: other })).status).toBe(403)

    // The writer would give them this channel and this time now, too.
    const mended = {
      ...environment,
      SVC_ENVELOPE_CHANNEL: 'header:device,field:device.id,const:plant',
      SVC_ENVELOPE_CREATED: 'field:sent',
    }
    expect((await runSluice(['dlq', 'replay', '--all'], mended)).code).toBe(0)
    const replayed = { format: 'readings', publisher: 'gateway', created: `${timestampMs}000000` }
    expect(await rows()).toEqual([
      ...stored.slice(0, -2),
      ...['30', '31', '32', '33'].map(value => ({ ...replayed, channel: 'd3', value })),
      ...stored.slice(-2),
      { ...replayed, channel: 'plant', value: '0' },
    ])
    expect((await runSluice(['dlq', 'ls', '--all', '--channel', 'plant'], mended)).printed).toMatch(/replayed/)
    expect(await runSluice(['verify', 'relational'], mended)).toMatchObject({ code: 0 })
  })
})
