// Encodes batches without a store, and reads the bytes of a COPY, so that tests can compare them field by field.

import { expect } from 'vitest'
import { addRecords, type EncodedBatch, encode } from '../../../sinks/postgres/encode.ts'
import { openSeriesNumbers } from '../../../sinks/postgres/series/numbers.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'

/** As where no channel may have a series: each row has its texts. Things have the series 7, and channels the number 3. */
export function encodeWithTexts(batch: RecordBatch, logNumbers: readonly number[]): EncodedBatch {
  const encoded = encode(batch, logNumbers)
  const { messages, records } = batch
  const numbers = openSeriesNumbers(() => Promise.reject(new Error('there is no store')), 1_000_000)
  if (records.length === 0) return encoded
  numbers.known(batch, encoded.rejected)
  const message = [...new Set(records.message.subarray(0, records.length))].filter(message => !encoded.rejected.has(message))
  const own = [...records.message.subarray(0, records.length)]
  const fixed = {
    length: message.length,
    message: Uint32Array.from(message),
    start: Uint32Array.from(message, message => own.indexOf(message)),
    end: Uint32Array.from(message, message => own.lastIndexOf(message) + 1),
    channel: new Int32Array(messages.length).fill(3),
    series: new Int32Array(records.length).fill(-7),
    state: undefined,
  }
  addRecords(encoded, batch, fixed, logNumbers)
  return encoded
}

/** By row, the fields as hexadecimal digits; null for NULL. */
export function copiedRows(bytes: Uint8Array): (string | null)[][] {
  const buffer = Buffer.from(bytes)
  expect(buffer.subarray(0, 19).toString('latin1')).toBe('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0')
  const rows: (string | null)[][] = []
  let at = 19
  for (let count = buffer.readInt16BE(at); count !== -1; count = buffer.readInt16BE(at)) {
    at += 2
    const row: (string | null)[] = []
    for (let field = 0; field < count; field++) {
      const length = buffer.readInt32BE(at)
      at += 4
      row.push(length === -1 ? null : buffer.toString('hex', at, at + length))
      at += Math.max(length, 0)
    }
    rows.push(row)
  }
  return rows
}
