// A growing buffer of line protocol. Texts and numbers are written as bytes at once: a string for each part of each line costs more than its bytes.

import { writeDigits, writeDouble, writeInteger } from '../../config/decimal-bytes.ts'
import { fieldKeyText, stringBytesMax, stringText, tagText } from './line-protocol.ts'
import { positionDigits, timeText } from './position-text.ts'

/** What keeps an ASCII character from being written as it is; every other character is looked at by line-protocol.ts. */
const marked = { tag: 1, fieldKey: 2, string: 4 } as const
const marks = new Uint8Array(128)
for (const [of, texts] of [
  [marked.tag, ',= \\\n\r\0'],
  [marked.fieldKey, ',= "\\\n\r\0'],
  [marked.string, '"\\\0'],
] as const) {
  for (const character of texts) marks[character.charCodeAt(0)]! |= of
}

const quote = 0x22
const billion8 = 100_000_000

/** The caller reserves room, then writes: no method but `reserve` looks at the end of the buffer. */
export class LineBytes {
  bytes: Buffer
  /** Where the next byte goes. */
  at = 0

  /** @param bytes not pooled: written from the beginning */
  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  /** Makes room for so many more bytes. */
  reserve(length: number): void {
    const needed = this.at + length
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
  }

  /** Bytes as they are. */
  put(some: Uint8Array, start = 0, end = some.length): void {
    const { bytes } = this
    let { at } = this
    for (let nth = start; nth < end; nth++) bytes[at++] = some[nth]!
    this.at = at
  }

  /** A tag's value: at most 3 × value.length bytes. False, and nothing is written, where it cannot be kept. */
  tag(value: string): boolean {
    return this.#plain(value, marked.tag) || this.#escaped(tagText(value))
  }

  /** At most 3 × key.length bytes. False, and nothing is written, where it cannot be kept. */
  fieldKey(key: string): boolean {
    return this.#plain(key, marked.fieldKey) || this.#escaped(fieldKeyText(key))
  }

  /** A string value in its quotes: at most 2 + 3 × value.length bytes. False, and nothing is written, where it cannot be kept. */
  string(value: string): boolean {
    const start = this.at
    this.bytes[this.at++] = quote
    if (value.length <= stringBytesMax && this.#plain(value, marked.string)) {
      this.bytes[this.at++] = quote
      return true
    }
    this.at = start
    return this.#escaped(stringText(value))
  }

  /** Bytes in base64url, in quotes: at most 2 + 4 / 3 × value.length and 2 bytes. */
  data(value: Uint8Array): void {
    const text = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64url')
    this.bytes[this.at++] = quote
    this.at += this.bytes.write(text, this.at, 'latin1')
    this.bytes[this.at++] = quote
  }

  /** A finite double: at most `doubleBytesMax` bytes. */
  number(value: number): void {
    this.at = writeDouble(this.bytes, this.at, value)
  }

  /** A whole number from 0 to 2^53: at most 16 bytes. */
  integer(value: number): void {
    this.at = writeInteger(this.bytes, this.at, value)
  }

  /** `log << 56 | partition << 44 | offset`: at most 19 bytes. */
  position(log: number, partition: number, offset: number): void {
    const { upper, lower } = positionDigits(log, partition, offset)
    if (upper === 0) return this.integer(lower)
    this.integer(upper)
    const middle = Math.floor(lower / billion8)
    this.at = writeDigits(this.bytes, writeDigits(this.bytes, this.at, middle, 7), lower - middle * billion8, 8)
  }

  /** Nanoseconds: us × 1000 + rest, where the rest is below 1000: at most 20 bytes. */
  time(timeUs: number, restNs: number): void {
    if (timeUs <= 0) {
      this.at += this.bytes.write(timeText(timeUs, restNs), this.at, 'latin1')
      return
    }
    this.integer(timeUs)
    this.at = writeDigits(this.bytes, this.at, restNs, 3)
  }

  #plain(value: string, mark: number): boolean {
    const { bytes } = this
    let { at } = this
    for (let nth = 0; nth < value.length; nth++) {
      const code = value.charCodeAt(nth)
      if (code >= 128 || (marks[code]! & mark) !== 0) return false
      bytes[at++] = code
    }
    this.at = at
    return true
  }

  #escaped(text: string | undefined): boolean {
    if (text === undefined) return false
    this.at += this.bytes.write(text, this.at)
    return true
  }
}

/** A part of every line, as bytes. */
export function part(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text))
}
