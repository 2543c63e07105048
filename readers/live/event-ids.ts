// The ids of events: encrypted stream offsets.
//
//   version 1 byte | log 8 bytes | partition | rows | number of offsets | offsets …
//
// The numbers at the end are variable-length integers, seven bits per byte, lowest first.
//
// An offset covers the partitions of all channels: two equal ids would reveal that no message was published on the whole platform in between. So each id is
// encrypted with a new nonce.
//
// Encryption is the most expensive part of an event, and a message may have thousands of records. So records of a message that are sent together share the
// encrypted text of the first, and a decimal number after a full stop counts the records after it. That number need not be secret, since it counts records
// that the reader receives or filters out; a client that changes it only changes which of its own records it gets.

import { randomBytes } from 'node:crypto'
import { nonceBytes } from '../../config/secrets.ts'
import type { StreamOffset } from '../../pipeline/live/messages.ts'
import { openCursorCodec } from '../cursor.ts'

/** Encodes and decodes the ids of events. */
export interface EventIds {
  /** @param of the context of the id: the channel, and the part of it that may be read */
  encode(streamOffset: StreamOffset, of: string): string
  /** The id `rows` rows after that of `text`, in the same message. */
  behind(text: string, rows: number): string
  /** undefined if the text is not an id of this stream. */
  decode(text: string, of: string): StreamOffset | undefined
}

const version = 3
const logBytes = 8
const numbersAt = 1 + logBytes
/** Enough for a thousand partitions with offsets of seven bytes. It fits into a header. */
export const eventIdCharactersMax = 10_000
const textForm = /^([\w-]+)(?:\.([1-9]\d{0,8}))?$/

/** @param key 32 bytes, the same in every process that answers the same readers */
export function openEventIds(key: Uint8Array): EventIds {
  const codec = openCursorCodec(key, 'live')
  return {
    encode: (streamOffset, of) => codec.encode(bytesOf(streamOffset), of, randomBytes(nonceBytes)),
    behind: (text, rows) => `${text}.${rows}`,
    decode(text, of) {
      const [, encrypted, rows = '0'] = (text.length > eventIdCharactersMax ? null : textForm.exec(text)) ?? []
      const bytes = encrypted === undefined ? undefined : codec.decode(encrypted, of)
      const streamOffset = bytes === undefined || bytes.length <= numbersAt ? undefined : streamOffsetOf(bytes)
      return streamOffset && { ...streamOffset, rows: streamOffset.rows + Number(rows) }
    },
  }
}

function bytesOf({ log, partition, rows, offsets }: StreamOffset): Buffer {
  const bytes = Buffer.alloc(numbersAt + (3 + offsets.length) * 8)
  bytes[0] = version
  bytes.write(log, 1, logBytes, 'hex')
  let at = numbersAt
  for (const number of [partition, rows, offsets.length]) at = writeNumber(bytes, at, number)
  for (const offset of offsets) at = writeNumber(bytes, at, offset)
  return bytes.subarray(0, at)
}

/** Numbers up to 2^53: offsets in a log. */
function writeNumber(bytes: Buffer, start: number, number: number): number {
  let at = start
  let left = number
  while (left >= 0x80) {
    bytes[at++] = (left % 0x80) + 0x80
    left = Math.floor(left / 0x80)
  }
  bytes[at++] = left
  return at
}

/** Parses decrypted bytes, which were written by this or another release. */
function streamOffsetOf(plain: Buffer): StreamOffset | undefined {
  if (plain[0] !== version) return undefined
  let at = numbersAt
  const number = (): number => {
    let value = 0
    for (let scale = 1; ; scale *= 0x80) {
      const byte = plain[at++] ?? 0
      value += (byte % 0x80) * scale
      if (byte < 0x80) return value
    }
  }
  const log = plain.toString('hex', 1, numbersAt)
  const partition = number()
  const rows = number()
  const offsets = Array.from({ length: number() }, number)
  return { log, partition, rows, offsets }
}
