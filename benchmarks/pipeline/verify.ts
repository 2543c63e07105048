// `verify --contents` compared with the plain `verify`, in turns over the same rows: `npm run bench -- pipeline/verify`.
//
// node benchmarks/pipeline/verify.ts [postgres|embedded|cassandra|influxdb|mongodb …] [--turns 3] [--messages 200000]
//
// The log is made while it is read, and so costs both forms the same. With --contents a fifth of the plain form's messages a second is promised.

import { parseArgs } from 'node:util'
import { Value } from 'typebox/value'
import { openServer } from '../../database/server.ts'
import { verify } from '../../pipeline/audit/verify.ts'
import { emptyMessage, type RawChunk } from '../../pipeline/source.ts'
import type { TopicReader } from '../../pipeline/topic-reader.ts'
import { openDecoder } from '../../pipeline/writer/decode.ts'
import type { StoreAudit } from '../../sinks/audit.ts'
import { openAudit } from '../../sinks/postgres/audit.ts'
import { sinkOptions } from '../../sinks/postgres/options.ts'
import { openSink } from '../../sinks/postgres/sink.ts'
import type { Sink } from '../../sinks/sink.ts'
import { openFreshEmbedded } from '../../test/servers/embedded.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { openTransformer } from '../../transformers/select.ts'
import { defaultTimeBounds } from '../../transformers/transformer.ts'
import { median } from '../median-time.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { turns: { type: 'string', default: '3' }, messages: { type: 'string', default: '200000' } },
})
const messages = Number(values.messages)
const chunkMessages = 5_000
const at = logPartition(0, 0)
const logId = 'benchmark'
const writer = 'benchmark'
const logs = [{ logName: 'messages', logId, writer }]
/** Of the PostgreSQL sink. */
const options = Value.Create(sinkOptions)
const startUs = Date.UTC(2026, 9, 1) * 1000

interface VerifiedStore {
  openSink(): Promise<Sink>
  openAudit(): StoreAudit
  close(): Promise<void>
}

const stores: Readonly<Record<string, () => Promise<VerifiedStore>>> = {
  async postgres() {
    const server = await startPostgres()
    const database = await openServer({ url: await server.createDatabase(), applicationName: 'benchmark', connectionsMax: 2 })
    return {
      openSink: () => openSink({ database, options, logs }),
      openAudit: () => openAudit(database),
      async close() {
        await database.close()
        await server.stop()
      },
    }
  },
  async embedded() {
    const database = await openFreshEmbedded()
    return { openSink: () => openSink({ database, options, logs }), openAudit: () => openAudit(database), close: () => database.close() }
  },
  cassandra: async () => (await import('../raw/cassandra.ts')).openRaw(),
  influxdb: async () => (await import('../raw/influxdb.ts')).openRaw(),
  mongodb: async () => (await import('../raw/mongodb.ts')).openRaw(),
}

/** A thousand devices, each of which sends one value about every second. */
function chunkOf(from: number, to: number): RawChunk {
  const message = emptyMessage()
  message.offset = from - 1
  return {
    at,
    from,
    to,
    byteLength: 0,
    cursor: () => ({
      message,
      key: () => null,
      headers: () => [],
      next() {
        const offset = ++message.offset
        const device = String((offset * 7919) % 1000).padStart(12, '0')
        message.channel = `0a1b2c3d-4e5f-4a6b-8c7d-${device.slice(-2)}`
        message.publisher = `f0e1d2c3-b4a5-4968-8778-${device}`
        message.subtopic = 'floor.3.room'
        message.protocol = 'http'
        message.contentType = 'application/senml+json'
        message.createdUs = startUs + offset * 1000
        message.payload = Buffer.from(`[{"n":"urn:dev:mac:0024befffe804ff1:temperature","u":"Cel","v":${20 + (offset % 97) / 10}}]`)
        return offset < to
      },
    }),
  }
}

const reader: TopicReader = {
  name: 'messages',
  id: logId,
  partitions: 1,
  bounds: async () => new Map([[0, { start: 0, end: messages }]]),
  async *read(_partition, from, to) {
    for (let start = from; start < to; start += chunkMessages) yield chunkOf(start, Math.min(to, start + chunkMessages))
  },
  close: async () => undefined,
}

const decoder = openDecoder({
  transformer: openTransformer({ format: 'auto' }, defaultTimeBounds),
  subscribed: () => true,
  message: { payloadBytes: 262_144, earliestSeconds: 2 ** 28, aheadDays: 366 },
})

async function fill(sink: Sink): Promise<void> {
  await sink.takeNumbers([0])
  for await (const chunk of reader.read(0, 0, messages)) {
    const batch = new RecordBatch()
    const cursor = chunk.cursor()
    while (cursor.next()) if (decoder.decode(cursor.message, at, batch) !== undefined) throw new Error('a message is refused')
    batch.cover(at, chunk.from, chunk.to)
    const never = async (): Promise<void> => Promise.reject(new Error('no row of this benchmark is refused'))
    await sink.write(sink.encode(batch), never, new AbortController().signal)
  }
  await sink.close()
}

async function measure(name: string): Promise<void> {
  const store = await stores[name]!()
  try {
    await fill(await store.openSink())
    const audit = store.openAudit()
    const perSecond = async (contents: boolean): Promise<number> => {
      const startedMs = performance.now()
      const report = await verify({
        reader,
        audit,
        writer,
        decoder,
        contents,
        deadLettersOf: async () => undefined,
        committed: async () => ({ group: writer, offsets: new Map([[0, messages]]) }),
      })
      if (!report.holds || report.partitions[0]!.recount.stored !== messages) throw new Error(JSON.stringify(report))
      return (messages / (performance.now() - startedMs)) * 1000
    }
    const [plain, compared]: [number[], number[]] = [[], []]
    // The first turn of each is a warm-up.
    for (let turn = 0; turn <= Number(values.turns); turn++) {
      plain.push(await perSecond(false))
      compared.push(await perSecond(true))
    }
    const ratios = compared.map((rate, turn) => rate / plain[turn]!).slice(1)
    const figure = (rates: readonly number[]): string => Math.round(median(rates.slice(1))).toLocaleString('en-US')
    console.log(
      `${name.padEnd(10)} plain ${figure(plain).padStart(9)} messages/s   --contents ${figure(compared).padStart(9)} messages/s` +
        `   ratio ${median(ratios).toFixed(2)} (${ratios.map(ratio => ratio.toFixed(2)).join(' ')}; 0.2 is asked)`,
    )
  } finally {
    await store.close()
  }
}

for (const name of positionals.length === 0 ? Object.keys(stores) : positionals) await measure(name)
