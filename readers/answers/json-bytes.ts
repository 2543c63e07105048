// A growing buffer for JSON text. It writes bytes directly, because a concatenated string would be copied once more, and then again into bytes.

import { writeDouble, writeFraction, writeInteger } from '../../config/decimal-bytes.ts'

const quote = 0x22
const backslash = 0x5c
const minus = 0x2d
const space = 0x20

/** Space for all numbers and names of a row, without its texts. */
const rowBytesMax = 512

/** JSON text as bytes, row by row: `reserve` makes space for a row, the other methods write without a check. */
export class JsonBytes {
  bytes: Buffer
  /** Index of the next byte. */
  at = 0

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(Math.max(capacity, rowBytesMax))
  }

  /** Reserves space for a row with `characters` of text, even if all are escaped. */
  reserve(characters: number): void {
    // An escape such as \u001f takes six bytes.
    const needed = this.at + characters * 6 + rowBytesMax
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
  }

  /** Writes bytes unchanged. */
  put(some: Uint8Array): void {
    const { bytes } = this
    let { at } = this
    for (let nth = 0; nth < some.length; nth++) bytes[at++] = some[nth]!
    this.at = at
  }

  /** Repeats bytes written earlier. */
  again(start: number, end: number): void {
    this.bytes.copyWithin(this.at, start, end)
    this.at += end - start
  }

  /** Writes text that is already JSON; reserves its own space. */
  json(text: string): void {
    this.reserve(text.length)
    this.at += this.bytes.write(text, this.at)
  }

  /** Writes a string in quotes, like JSON.stringify. */
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

  /** The number as JavaScript prints it. NaN and Infinity, which only foreign writers store, become null. */
  number(value: number): void {
    if (Number.isFinite(value)) this.at = writeDouble(this.bytes, this.at, value)
    else this.at += this.bytes.write('null', this.at, 'latin1')
  }

  /** Writes whole microseconds as seconds, with up to six decimals as needed: 1600000000250000 is `1600000000.25`. */
  seconds(timeUs: number): void {
    this.at = writeSeconds(this.bytes, this.at, timeUs)
  }

  /** All bytes written. */
  finish(): Buffer {
    return this.bytes.subarray(0, this.at)
  }
}

/** Whether a character is written as a single byte without an escape. */
function isPlain(code: number): boolean {
  return code >= space && code < 128 && code !== quote && code !== backslash
}

/** A constant part of rows, as bytes. */
export function part(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text))
}

/** The longest text of seconds, in bytes: that of -2^53 µs. */
const secondsBytesMax = 18
const secondsBytes = Buffer.alloc(secondsBytesMax)

/** Like `JsonBytes.seconds`, but as a string, for other forms than JSON. */
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
