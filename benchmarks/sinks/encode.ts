// How fast batches are encoded for each store: `npm run bench -- sinks/encode [--store postgres]`. One line for each shape of batch.

import { parseArgs } from 'node:util'
import { constants, gzipSync } from 'node:zlib'
import { types } from 'cassandra-driver'
import { BSON } from 'mongodb'
import { Value } from 'typebox/value'
import { openDayRegistry } from '../../sinks/cassandra/day-registry.ts'
import { encode as encodeCassandra } from '../../sinks/cassandra/encode.ts'
import { insertStatement } from '../../sinks/cassandra/schema.ts'
import { encode as encodeInfluxdb } from '../../sinks/influxdb/encode.ts'
import { encode as encodeMongodb } from '../../sinks/mongodb/encode.ts'
import { addRecords, encode as encodePostgres } from '../../sinks/postgres/encode.ts'
import { sinkOptions } from '../../sinks/postgres/options.ts'
import { openSeriesNumbers } from '../../sinks/postgres/series/numbers.ts'
import type { FindNumbers } from '../../sinks/postgres/series/store.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'

const rowsPerBatch = 2000
const compressions = 20
const warmUpSeconds = 0.3
const secondsPerShape = 1
const firstUs = 1_772_366_400_000_000

interface Shape {
  readonly name: string
  readonly recordsPerMessage: number
  readonly channels: number
  /** `flat document`: as it is after flattening. */
  readonly value: 'number' | 'string' | 'document' | 'flat document'
}

const common: readonly Shape[] = [
  { name: 'one record a message, 1,000 channels', recordsPerMessage: 1, channels: 1000, value: 'number' },
  { name: 'one record a message, one channel', recordsPerMessage: 1, channels: 1, value: 'number' },
  { name: 'ten records a message, 1,000 channels', recordsPerMessage: 10, channels: 1000, value: 'number' },
  { name: 'one text of 60 characters a message, 1,000 channels', recordsPerMessage: 1, channels: 1000, value: 'string' },
]

function shapesWith(value: 'document' | 'flat document'): readonly Shape[] {
  return [...common, { name: `one ${value} of 150 bytes a message, 1,000 channels`, recordsPerMessage: 1, channels: 1000, value }]
}

/** Several batches, so that few strings were hashed and flattened by the previous run. */
function batchesOf(shape: Shape): RecordBatch[] {
  return Array.from({ length: 32 }, (_, at) => batchOf(shape, at * rowsPerBatch))
}

/** New strings for each message, like a transformer creates them: no two are the same object, and none is hashed yet. */
function fresh(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function batchOf({ recordsPerMessage, channels, value }: Shape, from: number): RecordBatch {
  const batch = new RecordBatch()
  for (let row = 0, message = 0; row < rowsPerBatch; message++) {
    const device = String((message * 7919) % channels).padStart(12, '0')
    batch.beginMessage({
      at: logPartition(0, message % 12),
      offset: from + message,
      channel: fresh(`0a1b2c3d-4e5f-4a6b-8c7d-${device}`),
      subtopic: fresh('floor.3.room'),
      publisher: fresh(`f0e1d2c3-b4a5-4968-8778-${device}`),
      protocol: 'http',
    })
    for (let record = 0; record < recordsPerMessage; record++, row++) append(batch, value, record, row)
    batch.endMessage()
  }
  return batch
}

function append(batch: RecordBatch, value: Shape['value'], record: number, row: number): void {
  const timeUs = firstUs + row
  if (value === 'document' || value === 'flat document') {
    const serial = fresh(`sn-${row}`)
    const nested = value === 'document' ? { nested: { list: [1, 2, 3], serial } } : { 'nested/list': '[1,2,3]', 'nested/serial': serial }
    batch.appendDocument(record, 'engine', timeUs, 7, {
      temperature: 21.5,
      humidity: 0.43,
      state: 'running',
      ...nested,
      note: 'x'.repeat(50),
    })
    return
  }
  const text = value === 'string' ? fresh('the pump was started by hand and ran for twelve minutes, ok.') : undefined
  const kind = text === undefined ? ValueKind.number : ValueKind.string
  batch.appendRecord(record, fresh('urn:dev:mac:0024befffe804ff1:temperature'), 'Cel', timeUs, kind, 21.5, text, Number.NaN, Number.NaN)
}

/**
 * @param encodeOne encodes a batch, and returns the number of bytes or requests
 * @param tell formats that number for a row
 * @returns a line: rows/s, ns for each row, and the text of `tell`
 */
function speedOf(
  name: string,
  encodeOne: (nth: number) => number,
  tell = (yielded: number, rows: number): string => `${(yielded / rows).toFixed(0)} bytes/row`,
): string {
  const run = (seconds: number): { rows: number; yielded: number; elapsedNs: number } => {
    const start = performance.now()
    let [rows, yielded] = [0, 0]
    for (let nth = 0; performance.now() - start < seconds * 1000; nth++) {
      yielded += encodeOne(nth)
      rows += rowsPerBatch
    }
    return { rows, yielded, elapsedNs: (performance.now() - start) * 1e6 }
  }
  run(warmUpSeconds)
  const { rows, yielded, elapsedNs } = run(secondsPerShape)
  const perRow = elapsedNs / rows
  return `${name}: ${Math.round(1e9 / perRow).toLocaleString('en')} rows/s, ${perRow.toFixed(0)} ns/row, ${tell(yielded, rows)}`
}

function cassandra(shape: Shape): string {
  const dayRegistry = openDayRegistry()
  const insert = (format: string) => insertStatement('benchmark', format)
  const encoding = { logNumbers: [1], bucketDays: 1, dayRegistry, insert, unset: types.unset, rowBytesMax: 16_777_216 }
  const batches = batchesOf(shape)
  const requestsOf = (nth: number): number => {
    const encoded = encodeCassandra(batches[nth % batches.length]!, encoding)
    dayRegistry.remember(encoded.days)
    return encoded.tables.reduce((sum, { requests }) => sum + requests.length, 0)
  }
  return speedOf(shape.name, requestsOf, (requests, rows) => `${(rows / requests).toFixed(1)} rows/request`)
}

/** Also measures compression. */
function influxdb(shape: Shape): string {
  const batches = batchesOf(shape)
  let buffer: Buffer | undefined
  const speed = speedOf(shape.name, nth => {
    const { lines } = encodeInfluxdb(batches[nth % batches.length]!, [1], buffer)
    buffer = Buffer.from(lines.bytes.buffer)
    return lines.bytes.length
  })
  const text = encodeInfluxdb(batches[0]!, [1]).lines.bytes
  const startedMs = performance.now()
  let compressed = 0
  for (let nth = 0; nth < compressions; nth++) compressed += gzipSync(text, { level: constants.Z_BEST_SPEED }).length
  const rows = compressions * rowsPerBatch
  const compressNs = ((performance.now() - startedMs) * 1e6) / rows
  return `${speed}; compressed ${(compressed / rows).toFixed(0)} bytes/row in ${compressNs.toFixed(0)} ns/row`
}

const bytesOf = (tables: readonly { readonly bytes: Uint8Array }[]): number => tables.reduce((sum, { bytes }) => sum + bytes.length, 0)

function mongodb(shape: Shape): string {
  const batches = batchesOf(shape)
  return speedOf(shape.name, nth => bytesOf(encodeMongodb(batches[nth % batches.length]!, [1]).tables))
}

/** How long the driver takes to serialise the rows of the first shape from prepared objects. */
function byDriver(shape: Shape): string {
  const [table] = encodeMongodb(batchesOf(shape)[0]!, [1]).tables
  const documents = table!.rowMessage.map((_, row) =>
    BSON.deserialize(table!.bytes.subarray(table!.rowStart[row], table!.rowStart[row + 1]), { promoteLongs: false, promoteValues: false }),
  )
  return speedOf(`the driver, from objects, ${shape.name}`, () =>
    documents.reduce((bytes, document) => bytes + BSON.serialize(document).length, 0),
  )
}

/** With the numbers of all series in the cache. */
async function postgres(shape: Shape): Promise<string> {
  const batches = batchesOf(shape)
  let added = 0
  const find: FindNumbers = async wanted => ({
    generation: 'of the benchmark',
    series: wanted.map(() => ({ id: ++added, channel: 1, addedUs: 0n })),
  })
  const numbers = openSeriesNumbers(find, Value.Create(sinkOptions).seriesCacheBytes)
  const { signal } = new AbortController()
  for (const batch of batches) await numbers.resolved(batch, new Map(), signal)
  return speedOf(shape.name, nth => {
    const batch = batches[nth % batches.length]!
    const encoded = encodePostgres(batch, [1])
    addRecords(encoded, batch, numbers.known(batch, encoded.rejected)!, [1])
    return bytesOf(encoded.tables)
  })
}

const stores = {
  postgres: async () => {
    const lines: string[] = []
    for (const shape of shapesWith('document')) lines.push(await postgres(shape))
    return lines
  },
  cassandra: () => shapesWith('document').map(cassandra),
  influxdb: () => shapesWith('flat document').map(influxdb),
  mongodb: () => [...shapesWith('document').map(mongodb), byDriver(shapesWith('document')[0]!)],
}
const { store } = parseArgs({ options: { store: { type: 'string' } } }).values
for (const [name, lines] of Object.entries(stores)) {
  if (store === undefined || store === name) console.log(`${name}\n  ${(await lines()).join('\n  ')}`)
}
