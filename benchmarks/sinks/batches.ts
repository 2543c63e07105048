// What the benchmarks of the sinks' encoders have in common: the shapes of batches that they encode, and how their speed is told.

import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'

export const rowsPerBatch = 2000
const warmUpSeconds = 0.3
const secondsPerShape = 1
const firstUs = 1_772_366_400_000_000

export interface Shape {
  readonly name: string
  readonly recordsPerMessage: number
  readonly channels: number
  /** A flat document is one as it is after flattening. */
  readonly value: 'number' | 'string' | 'document' | 'flat document'
}

const common: readonly Shape[] = [
  { name: 'one record a message, 1,000 channels', recordsPerMessage: 1, channels: 1000, value: 'number' },
  { name: 'one record a message, one channel', recordsPerMessage: 1, channels: 1, value: 'number' },
  { name: 'ten records a message, 1,000 channels', recordsPerMessage: 10, channels: 1000, value: 'number' },
  { name: 'one text of 60 characters a message, 1,000 channels', recordsPerMessage: 1, channels: 1000, value: 'string' },
]

export function shapesWith(value: 'document' | 'flat document'): readonly Shape[] {
  return [...common, { name: `one ${value} of 150 bytes a message, 1,000 channels`, recordsPerMessage: 1, channels: 1000, value }]
}

/** Several, so that no run finds its strings hashed and flat by the run before in more than a part of the cases. */
export function batchesOf(shape: Shape): RecordBatch[] {
  return Array.from({ length: 32 }, (_, at) => batchOf(shape, at * rowsPerBatch))
}

/** Strings are made anew for each message, as a transformer makes them: no two are the same object, and none is hashed yet. */
function fresh(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function batchOf({ recordsPerMessage, channels, value }: Shape, from: number): RecordBatch {
  const batch = new RecordBatch()
  for (let row = 0, message = 0; row < rowsPerBatch; message++) {
    const device = String((message * 7919) % channels).padStart(12, '0')
    batch.beginMessage({
      partition: message % 12,
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
 * @param encodeOne encodes a batch, and returns how many bytes or requests came of it
 * @param tell what they say of the rows
 * @returns a line: rows a second, nanoseconds a row, and what `tell` makes of the rest
 */
export function speedOf(
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
