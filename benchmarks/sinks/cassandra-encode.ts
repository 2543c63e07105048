// How fast batches become values of CQL: `node benchmarks/sinks/cassandra-encode.ts`. One line for each shape of batch.

import { types } from 'cassandra-driver'
import { openDays } from '../../sinks/cassandra/days.ts'
import { type Encoding, encode } from '../../sinks/cassandra/encode.ts'
import { rowStatements } from '../../sinks/cassandra/statements.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'

const rowsPerBatch = 2000
const secondsPerShape = 1

interface Shape {
  readonly name: string
  readonly recordsPerMessage: number
  readonly channels: number
  readonly value: 'number' | 'string' | 'document'
}

const shapes: readonly Shape[] = [
  { name: 'one record a message, 1,000 channels', recordsPerMessage: 1, channels: 1000, value: 'number' },
  { name: 'one record a message, one channel', recordsPerMessage: 1, channels: 1, value: 'number' },
  { name: 'ten records a message, 1,000 channels', recordsPerMessage: 10, channels: 1000, value: 'number' },
  { name: 'one text of 60 characters a message, 1,000 channels', recordsPerMessage: 1, channels: 1000, value: 'string' },
  { name: 'one document of 150 bytes a message, 1,000 channels', recordsPerMessage: 1, channels: 1000, value: 'document' },
]

/** Strings are made anew for each message, as a transformer makes them: no two are the same object, and none is hashed yet. */
function fresh(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function batchOf(shape: Shape, from: number): RecordBatch {
  const batch = new RecordBatch()
  const timeUs = 1_772_366_400_000_000
  for (let row = 0, message = 0; row < rowsPerBatch; message++) {
    const device = String((message * 7919) % shape.channels).padStart(12, '0')
    batch.beginMessage({
      partition: message % 12,
      offset: from + message,
      channel: fresh(`0a1b2c3d-4e5f-4a6b-8c7d-${device}`),
      subtopic: fresh('floor.3.room'),
      publisher: fresh(`f0e1d2c3-b4a5-4968-8778-${device}`),
      protocol: 'http',
    })
    for (let record = 0; record < shape.recordsPerMessage; record++, row++) append(batch, shape.value, record, row, timeUs + row)
    batch.endMessage()
  }
  return batch
}

function append(batch: RecordBatch, value: Shape['value'], record: number, row: number, timeUs: number): void {
  if (value === 'document') {
    const nested = { list: [1, 2, 3], serial: fresh(`sn-${row}`) }
    batch.appendDocument(record, 'engine', timeUs, 7, { temperature: 21.5, humidity: 0.43, state: 'running', nested, note: 'x'.repeat(50) })
    return
  }
  const text = value === 'string' ? fresh('the pump was started by hand and ran for twelve minutes, ok.') : undefined
  const kind = text === undefined ? ValueKind.number : ValueKind.string
  batch.appendRecord(record, fresh('urn:dev:mac:0024befffe804ff1:temperature'), 'Cel', timeUs, kind, 21.5, text, Number.NaN, Number.NaN)
}

for (const shape of shapes) {
  const days = openDays()
  const insert = (format: string) => rowStatements('benchmark', format).insert
  const encoding: Encoding = { logNumber: 1, bucketDays: 1, days, insert, unset: types.unset, rowBytesMax: 16_777_216 }
  // Several batches, so that no run finds its strings hashed and flat by the run before in more than a part of the cases.
  const batches = Array.from({ length: 32 }, (_, at) => batchOf(shape, at * rowsPerBatch))
  let requests = 0
  let rows = 0
  const run = (seconds: number): number => {
    const start = performance.now()
    requests = 0
    rows = 0
    for (let at = 0; performance.now() - start < seconds * 1000; at++) {
      const encoded = encode(batches[at % batches.length]!, encoding)
      days.remember(encoded.days)
      for (const table of encoded.tables) requests += table.requests.length
      rows += rowsPerBatch
    }
    return (performance.now() - start) * 1e6
  }
  run(0.3)
  const perRow = run(secondsPerShape) / rows
  console.log(
    `${shape.name}: ${Math.round(1e9 / perRow).toLocaleString('en')} rows/s, ${perRow.toFixed(0)} ns/row, ${(rows / requests).toFixed(1)} rows/request`,
  )
}
