// Reads the bytes of a COPY, so that tests can compare them field by field.

import { expect } from 'vitest'

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
