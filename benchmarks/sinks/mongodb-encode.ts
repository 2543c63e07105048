// How fast batches become BSON: `node benchmarks/sinks/mongodb-encode.ts`. One line for each shape of batch; and, for the first shape, what the driver
// takes to serialise the same rows from objects that are ready.

import { BSON, type Document } from 'mongodb'
import { encode } from '../../sinks/mongodb/encode.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'

const rowsPerBatch = 2000
const secondsPerShape = 1

interface Shape {
  readonly name: string
  readonly recordsPerMessage: number
  readonly value: 'number' | 'string' | 'document'
}

const shapes: readonly Shape[] = [
  { name: 'one record a message', recordsPerMessage: 1, value: 'number' },
  { name: 'ten records a message', recordsPerMessage: 10, value: 'number' },
  { name: 'one text of 60 characters a message', recordsPerMessage: 1, value: 'string' },
  { name: 'one document of 150 bytes a message', recordsPerMessage: 1, value: 'document' },
]

/** Strings are made anew for each message, as a transformer makes them: no two are the same object, and none is hashed yet. */
function fresh(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function batchOf(shape: Shape, from: number): RecordBatch {
  const batch = new RecordBatch()
  const timeUs = 1_772_366_400_000_000
  for (let row = 0, message = 0; row < rowsPerBatch; message++) {
    const device = String((message * 7919) % 1000).padStart(12, '0')
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
        continue
      }
      const text = shape.value === 'string' ? fresh('the pump was started by hand and ran for twelve minutes, ok.') : undefined
      const kind = text === undefined ? ValueKind.number : ValueKind.string
      const name = fresh('urn:dev:mac:0024befffe804ff1:temperature')
      batch.appendRecord(record, name, 'Cel', timeUs + row, kind, 21.5, text, Number.NaN, Number.NaN)
    }
    batch.endMessage()
  }
  return batch
}

function measure(name: string, run: (at: number) => number): void {
  const turn = (seconds: number): { rows: number; bytes: number; elapsedNs: number } => {
    const start = performance.now()
    let [rows, bytes] = [0, 0]
    for (let at = 0; performance.now() - start < seconds * 1000; at++) {
      bytes += run(at)
      rows += rowsPerBatch
    }
    return { rows, bytes, elapsedNs: (performance.now() - start) * 1e6 }
  }
  turn(0.3)
  const { rows, bytes, elapsedNs } = turn(secondsPerShape)
  const perRow = elapsedNs / rows
  console.log(
    `${name}: ${Math.round(1e9 / perRow).toLocaleString('en')} rows/s, ${perRow.toFixed(0)} ns/row, ${(bytes / rows).toFixed(0)} bytes/row`,
  )
}

for (const shape of shapes) {
  // Several batches, so that no run finds its strings hashed and flat by the run before in more than a part of the cases.
  const batches = Array.from({ length: 32 }, (_, at) => batchOf(shape, at * rowsPerBatch))
  measure(shape.name, at => {
    let bytes = 0
    for (const table of encode(batches[at % batches.length]!, 1).tables) bytes += table.bytes.length
    return bytes
  })
}

const [table] = encode(batchOf(shapes[0]!, 0), 1).tables
const documents: Document[] = table!.rowMessage.map((_, row) =>
  BSON.deserialize(table!.bytes.subarray(table!.rowStart[row], table!.rowStart[row + 1]), { promoteLongs: false, promoteValues: false }),
)
measure('the driver, one record a message, from objects', () =>
  documents.reduce((bytes, document) => bytes + BSON.serialize(document).length, 0),
)
