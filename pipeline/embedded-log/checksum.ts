// The checksum of a message in an embedded log: what was appended is what is read, or an error.

import { crc32 } from 'node:zlib'

/** The columns of a message, in the order of the table. */
export type MessageColumns = readonly [
  offset: number,
  channel: string,
  subtopic: string,
  publisher: string,
  protocol: string,
  contentType: string,
  createdUs: number,
  createdRestNs: number,
  headers: string | null,
  payload: Uint8Array,
  checksum?: number | null,
]

/** CRC-32 of every column before the checksum. Those before the payload make one text, since a call costs more than the bytes of a short one. */
export function checksumOf(row: MessageColumns): number {
  const head = `${row[0]}\n${row[1]}\n${row[2]}\n${row[3]}\n${row[4]}\n${row[5]}\n${row[6]}\n${row[7]}\n${row[8] ?? ''}\n`
  return crc32(row[9], crc32(head))
}
