// How fast batches become COPY bytes: `node benchmarks/sinks/postgres-encode.ts`. One line for each shape of batch.

import { encode } from '../../sinks/postgres/encode.ts'
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
    for (let record = 0; record < shape.recordsPerMessage; record++, row++) {
      if (shape.value === 'document') {
        const payload = {
          temperature: 21.5,
          humidity: 0.43,
          state: 'running',
          nested: { list: [1, 2, 3], serial: fresh(`sn-${row}`) },
          note: 'x'.repeat(50),
        }
        batch.appendDocument(record, 'engine', timeUs + row, 7, payload)
      } else {
        const text = shape.value === 'string' ? fresh('the pump was started by hand and ran for twelve minutes, ok.') : undefined
        const kind = text === undefined ? ValueKind.number : ValueKind.string
        batch.appendRecord(
          record,
          fresh('urn:dev:mac:0024befffe804ff1:temperature'),
          'Cel',
          timeUs + row,
          kind,
          21.5,
          text,
          Number.NaN,
          Number.NaN,
        )
      }
    }
    batch.endMessage()
  }
  return batch
}

for (const shape of shapes) {
  // Several batches, so that no run finds its strings hashed and flat by the run before in more than a part of the cases.
  const batches = Array.from({ length: 32 }, (_, at) => batchOf(shape, at * rowsPerBatch))
  let bytes = 0
  let rows = 0
  const run = (seconds: number) => {
    const start = performance.now()
    bytes = 0
    rows = 0
    for (let at = 0; performance.now() - start < seconds * 1000; at++) {
      const encoded = encode(batches[at % batches.length]!, 1)
      for (const table of encoded.tables) bytes += table.bytes.length
      rows += rowsPerBatch
    }
    return (performance.now() - start) * 1e6
  }
  run(0.3)
  const elapsedNs = run(secondsPerShape)
  const perRow = elapsedNs / rows
  console.log(
    `${shape.name}: ${Math.round(1e9 / perRow).toLocaleString('en')} rows/s, ${perRow.toFixed(0)} ns/row, ${(bytes / rows).toFixed(0)} bytes/row`,
  )
}
