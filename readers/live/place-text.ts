// The ids of events: places in the log, sealed.
//
//   version 1 byte | process 8 bytes | serial 6 bytes | log 8 bytes | partition | rows | number of offsets | offsets …
//
// The numbers at the end are variable-length integers, seven bits a byte, the lowest first.
//
// Equal bytes are sealed to equal texts, and a place holds the offsets of every channel's partitions: two equal ids would say that nobody
// on the platform published in between. So no two are made of equal bytes: the process has random ones, and counts.
//
// Sealing is what costs most of an event, and a message may have thousands of records: the records of one that are given out together share the
// sealed text of the first, and a decimal number behind a full stop says how many records follow it. That number is no secret, since it counts records that
// the reader is given or filtered out, and one who changes it changes only which of their own records come.

import { randomBytes } from 'node:crypto'
import type { Place } from '../../pipeline/live/messages.ts'
import { openSeal } from '../seal.ts'

export interface PlaceTexts {
  /** @param of whose it is: the channel, and what of it may be read */
  encode(place: Place, of: string): string
  /** The place so many rows of the same message behind that of `text`. */
  behind(text: string, rows: number): string
  /** undefined for what is none of theirs. */
  decode(text: string, of: string): Place | undefined
}

const version = 2
const processBytes = 8
const serialBytes = 6
const logAt = 1 + processBytes + serialBytes
const logBytes = 8
const numbersAt = logAt + logBytes
/** Of a thousand partitions, each with an offset of seven bytes. A header has room for it. */
export const placeCharactersMax = 10_000
const textForm = /^([\w-]+)(?:\.([1-9]\d{0,8}))?$/

/** @param key 32 bytes, the same in every process that answers the same readers */
export function openPlaceTexts(key: Uint8Array): PlaceTexts {
  const sealed = openSeal(key, 'live')
  const process = randomBytes(processBytes)
  let serial = 0
  return {
    encode(place, of) {
      const bytes = bytesOf(place)
      process.copy(bytes, 1)
      bytes.writeUIntBE(serial++, 1 + processBytes, serialBytes)
      return sealed.seal(bytes, of)
    },
    behind: (text, rows) => `${text}.${rows}`,
    decode(text, of) {
      const [, sealedText, rows = '0'] = (text.length > placeCharactersMax ? null : textForm.exec(text)) ?? []
      const bytes = sealedText === undefined ? undefined : sealed.open(sealedText, of)
      const place = bytes === undefined || bytes.length <= numbersAt ? undefined : placeOf(bytes)
      return place && { ...place, rows: place.rows + Number(rows) }
    },
  }
}

/** With room for who sealed it. */
function bytesOf({ log, partition, rows, offsets }: Place): Buffer {
  const bytes = Buffer.alloc(numbersAt + (3 + offsets.length) * 8)
  bytes[0] = version
  bytes.write(log, logAt, logBytes, 'hex')
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

/** What has its tag was made by us, of this version or another one. */
function placeOf(plain: Buffer): Place | undefined {
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
  const log = plain.toString('hex', logAt, numbersAt)
  const partition = number()
  const rows = number()
  const offsets = Array.from({ length: number() }, number)
  return { log, partition, rows, offsets }
}
