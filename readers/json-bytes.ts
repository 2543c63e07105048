// A growing buffer of JSON text. Written as bytes at once: a string put together of pieces is copied once more, and then into bytes, to be sent.

import { writeDouble, writeFraction, writeInteger } from '../config/decimal-bytes.ts'

const quote = 0x22
const backslash = 0x5c
const minus = 0x2d
const space = 0x20

/** Room for all numbers and names that a row has beside its texts. */
const rowBytesMax = 512

export class JsonBytes {
  bytes: Buffer
  /** Where the next byte goes. */
  at = 0

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(Math.max(capacity, rowBytesMax))
  }

  /** Makes room for a row with so many characters of text, however they are escaped. */
  reserve(characters: number): void {
    // \u001f for one.
    const needed = this.at + characters * 6 + rowBytesMax
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
  }

  /** Bytes as they are. */
  put(some: Uint8Array): void {
    const { bytes } = this
    let { at } = this
    for (let nth = 0; nth < some.length; nth++) bytes[at++] = some[nth]!
    this.at = at
  }

  /** Bytes written before, once more. */
  again(start: number, end: number): void {
    this.bytes.copyWithin(this.at, start, end)
    this.at += end - start
  }

  /** A text in place of one of the same length that was written before, without its quotes; false where it has another length, or is not the same in JSON. */
  over(start: number, end: number, value: string): boolean {
    if (value.length !== end - start) return false
    const { bytes } = this
    for (let nth = 0; nth < value.length; nth++) {
      const code = value.charCodeAt(nth)
      if (!isPlain(code)) return false
      bytes[start + nth] = code
    }
    return true
  }

  /** Text that is JSON already, for which nobody has made room. */
  json(text: string): void {
    this.reserve(text.length)
    this.at += this.bytes.write(text, this.at)
  }

  /** A text in its quotes, as JSON.stringify writes it. */
  text(value: string): void {
    const { bytes } = this
    let { at } = this
    bytes[at++] = quote
    for (let nth = 0; nth < value.length; nth++) {
      const code = value.charCodeAt(nth)
      if (!isPlain(code)) {
        this.at += bytes.write(JSON.stringify(value), this.at)
        return
      }
      bytes[at++] = code
    }
    bytes[at++] = quote
    this.at = at
  }

  /** As JavaScript prints it. What JSON has no number for comes from a foreign writer only, and is null. */
  number(value: number): void {
    if (Number.isFinite(value)) this.at = writeDouble(this.bytes, this.at, value)
    else this.at += this.bytes.write('null', this.at, 'latin1')
  }

  /** Whole microseconds as seconds, with as many decimals as they need, none to six: 1600000000250000 is `1600000000.25`. */
  seconds(timeUs: number): void {
    this.at = writeSeconds(this.bytes, this.at, timeUs)
  }

  /** Everything written. */
  finish(): Buffer {
    return this.bytes.subarray(0, this.at)
  }
}

/** Whether a character is one byte in JSON, its own. */
function isPlain(code: number): boolean {
  return code >= space && code < 128 && code !== quote && code !== backslash
}

/** A part of every row, as bytes. */
export function part(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text))
}

/** So many bytes seconds take at most: those of -2^53 µs. */
const secondsBytesMax = 18
const secondsBytes = Buffer.alloc(secondsBytesMax)

/** The same as `JsonBytes.seconds` as a text, for what is no JSON. */
export function secondsText(timeUs: number): string {
  return secondsBytes.toString('latin1', 0, writeSeconds(secondsBytes, 0, timeUs))
}

function writeSeconds(bytes: Buffer, at: number, timeUs: number): number {
  const magnitude = Math.abs(timeUs)
  const whole = Math.floor(magnitude / 1_000_000)
  let next = at
  if (timeUs < 0) bytes[next++] = minus
  return writeFraction(bytes, writeInteger(bytes, next, whole), magnitude - whole * 1_000_000, 6)
}
