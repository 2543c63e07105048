// Rows of a given size, for tests of what is bounded in bytes.

import type { DocumentRow, SenmlRow } from '../../readers/reader.ts'
import { channel } from '../conformance/reader/fixture.ts'

export const kib = 1024

const origin = { channel, subtopic: 'weather', publisher: 'p', protocol: 'http', index: 0 }

/** Documents with a text of so many bytes, and a little more. */
export function documentsOf(count: number, bytes: number): DocumentRow[] {
  const payloadText = JSON.stringify({ a: 'x'.repeat(bytes) })
  return Array.from({ length: count }, (_, nth) => ({ kind: 'document', ...origin, position: BigInt(nth), createdNs: 0n, payloadText }))
}

/** Records with a text of so many bytes. */
export function recordsOf(count: number, bytes: number): SenmlRow[] {
  const absent = { unit: undefined, value: undefined, boolValue: undefined, dataValue: undefined, sum: undefined, updateTime: undefined }
  const stringValue = 'x'.repeat(bytes)
  return Array.from({ length: count }, (_, nth) => ({
    kind: 'senml',
    ...origin,
    ...absent,
    position: BigInt(nth),
    name: 'n',
    timeUs: 0,
    stringValue,
  }))
}
