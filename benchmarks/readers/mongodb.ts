// Pages of the MongoDB reader compared with the driver's bare find, in turns in one process: `node benchmarks/readers/mongodb.ts [--rows 100000] [--turns 3]`.
//
// On FerretDB, which decodes and sorts every row of a collection for each find and so takes nearly all of the time; or on the server of MONGODB_URL.
// Then the work of this process alone: from bytes to rows, compared with the driver's decoding of the same bytes.
//
// Example: npm run bench -- readers/mongodb --rows 20000 --turns 1

import { parseArgs } from 'node:util'
import { BSON, type Collection, type Document } from 'mongodb'
import { openMongodbReader } from '../../readers/mongodb/reader.ts'
import { documentOf, recordOf } from '../../readers/mongodb/rows.ts'
import { keyOf, noFilters, type PageQuery, type Reader } from '../../readers/reader.ts'
import { openConnection } from '../../sinks/mongodb/connection.ts'
import { encode } from '../../sinks/mongodb/encode.ts'
import { openSink } from '../../sinks/mongodb/sink.ts'
import { startMongo } from '../../test/servers/mongo.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { callNs, median } from '../median-time.ts'

const { values } = parseArgs({ options: { rows: { type: 'string', default: '100000' }, turns: { type: 'string', default: '3' } } })
const rows = Number(values.rows)
const turns = Number(values.turns)
const limit = 100
const batchRows = 10_000
const channel = '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a10'
const publishers = 500
const startUs = 1_772_366_400_000_000
const { signal } = new AbortController()

const publisherOf = (nth: number): string => `7d5a2c1e-0000-4000-8000-${String((nth * 7919) % publishers).padStart(12, '0')}`

/** One record for each message, a second apart. */
function batchOf(from: number, to: number): RecordBatch {
  const batch = new RecordBatch()
  for (let offset = from; offset < to; offset++) {
    batch.beginMessage({
      at: logPartition(0, 0),
      offset,
      channel,
      subtopic: 'floor.3.room',
      publisher: publisherOf(offset),
      protocol: 'http',
    })
    const timeUs = startUs + offset * 1_000_000
    batch.appendRecord(
      0,
      'urn:dev:mac:0024befffe804ff1:temperature',
      'Cel',
      timeUs,
      ValueKind.number,
      20,
      undefined,
      Number.NaN,
      Number.NaN,
    )
    batch.endMessage()
  }
  batch.cover(logPartition(0, 0), from, to)
  return batch
}

const page: PageQuery = {
  channel,
  format: 'messages',
  ...noFilters,
  direction: 'desc',
  limit,
  offset: 0,
  after: undefined,
}

const line = (...columns: string[]): void =>
  console.log(columns.map((column, at) => (at === 0 ? column.padEnd(44) : column.padStart(14))).join(''))
const ms = (figure: number): string => `${figure.toFixed(figure < 10 ? 2 : 0)} ms`

async function timed(work: () => Promise<readonly unknown[]>, count: number): Promise<number> {
  const start = performance.now()
  const found = await work()
  const elapsedMs = performance.now() - start
  if (found.length !== count) throw new Error(`${found.length} rows were found, and ${count} are there`)
  return elapsedMs
}

async function compare(what: string, reader: Reader, query: PageQuery, bare: () => Promise<Document[]>, count: number): Promise<void> {
  const [ours, theirs]: [number[], number[]] = [[], []]
  for (let turn = 0; turn < turns; turn++) {
    ours.push(await timed(() => reader.read(query, signal), count))
    theirs.push(await timed(bare, count))
  }
  line(what, ms(median(ours)), ms(median(theirs)), (median(ours) / median(theirs)).toFixed(2))
}

const real = process.env['MONGODB_URL']
const server = real === undefined ? await startMongo() : undefined
const url = new URL(real ?? server!.url)
url.pathname = '/sluice_reader_benchmark'
const scope = { url: url.href, connectTimeoutMs: 5_000 }
const writing = { formatsMax: 1000, formatsPerChannelMax: 32, writeConcern: 'majority', journal: true, writesInFlight: 4, retentionDays: 0 }
const sinkOptions = { ...scope, ...writing, requestTimeoutMs: 60_000 }
const written = await openConnection(sinkOptions, 'benchmark')
await written.connect()
await written.database.dropDatabase()
const identity = { logName: 'messages', logId: 'benchmark', writer: 'benchmark' }
const sink = await openSink({ connection: written, options: sinkOptions, logs: [identity] })
await sink.takeNumbers([0])
for (let from = 0; from < rows; from += batchRows) {
  const unexpected = (): Promise<never> => Promise.reject(new Error('no row of this benchmark is refused'))
  await sink.write(sink.encode(batchOf(from, Math.min(rows, from + batchRows))), unexpected, signal)
}

const readerOptions = { ...scope, queryTimeoutMs: 60_000, connectionsMax: 4 }
const connection = await openConnection(readerOptions, 'benchmark')
await connection.connect()
const reader = openMongodbReader({ connection, options: readerOptions })
const messages: Collection = connection.database.collection('messages')
const order = { timeUs: -1, _id: -1 } as const
// Connects both before the measurement.
await reader.check()

line(`${rows.toLocaleString('en')} rows, ${limit} a page`, 'the reader', 'a bare find', 'ratio')
await compare('first page', reader, page, () => messages.find({ channel }).sort(order).limit(limit).toArray(), limit)
const [deep] = await reader.read({ ...page, limit: 1, offset: Math.floor(rows * 0.9) }, signal)
const after = keyOf(deep!)
const bareBehind = { channel, timeUs: { $lt: after.timeNs / 1000n } }
await compare(
  'page behind nine tenths',
  reader,
  { ...page, after },
  () => messages.find(bareBehind).sort(order).limit(limit).toArray(),
  limit,
)
const publisher = publisherOf(0)
const publisherRows = Math.min(limit, Math.ceil(rows / publishers))
const bareOf = { channel, publisher }
await compare(
  'page of one publisher of 500',
  reader,
  { ...page, publisher },
  () => messages.find(bareOf).sort(order).limit(limit).toArray(),
  publisherRows,
)

for (const [what, work] of [
  ['count up to 10,000', () => reader.count(page, 10_000, signal)],
  ['newest of each series', () => reader.latest(page, signal)],
  ['mean by the hour', () => reader.aggregate({ ...page, aggregation: 'avg', intervalUs: 3_600_000_000 }, signal)],
] as const) {
  const start = performance.now()
  await work()
  line(what, ms(performance.now() - start))
}

await reader.close()
await connection.close()
await sink.close()
await written.close()
await server?.stop()

/** The documents of a batch, as the driver returns them. */
function documentsOf(batch: RecordBatch): Buffer[] {
  const [table] = encode(batch, [1]).tables
  const { bytes, rowStart, rowMessage } = table!
  return rowMessage.map((_, row) => Buffer.from(bytes.subarray(rowStart[row], rowStart[row + 1])))
}

const documents = new RecordBatch()
for (let offset = 0; offset < 1_000; offset++) {
  documents.beginMessage({ at: logPartition(0, 0), offset, channel, subtopic: 'engine', publisher: publisherOf(offset), protocol: 'http' })
  const payload = {
    temperature: 21.5,
    state: 'running',
    nested: { list: [1, 2, 3], serial: `sn-${offset}` },
    id: 8_659_456_789_564_231_564n,
  }
  documents.appendDocument(0, 'engine', startUs + offset, 7, payload)
  documents.endMessage()
}
line('\nonly this process, a row', 'the reader', 'the driver', 'ratio')
for (const [what, found, toRow] of [
  ['SenML records', documentsOf(batchOf(0, 1_000)), recordOf],
  ['small documents, to JSON text', documentsOf(documents), documentOf],
] as const) {
  const figures = { ours: [] as number[], theirs: [] as number[] }
  for (let turn = 0; turn < turns; turn++) {
    figures.ours.push(callNs(bytes => void toRow(bytes, channel), found, 200))
    figures.theirs.push(callNs(bytes => void BSON.deserialize(bytes, { useBigInt64: true, promoteBuffers: true }), found, 200))
  }
  const [ours, theirs] = [median(figures.ours), median(figures.theirs)]
  line(what, `${ours.toFixed(0)} ns`, `${theirs.toFixed(0)} ns`, (ours / theirs).toFixed(2))
}
