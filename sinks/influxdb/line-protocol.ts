// Line protocol as InfluxDB 2.7 reads it: which texts it can store, and the lines of a batch as bytes in one growing buffer. Texts and numbers are
// written as bytes directly: a string for each part of each line would cost more than its bytes.
//
// A line is `measurement,tag=value,… field=value,… time`. In tags and field keys, a comma, an equals sign and a space are escaped by a backslash. A
// backslash stands for itself and cannot be escaped. So a backslash at the end of a tag would escape what follows it. In a field key, so would one
// before an escaped character, which is read as a pair with the backslash that escapes. Line ends cannot be escaped, and a CR would be lost in the
// CSV of every answer.

import { doubleBytesMax, writeDigits, writeDouble, writeInteger } from '../../config/decimal-bytes.ts'
import { logOf, partitionOf } from '../../transformers/log-partition.ts'
import { type MessageColumns, Outcome, type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import { longIdentifiers } from '../rejections.ts'
import type { LogNumbers, Rejection } from '../sink.ts'
import { type Fault, faults, identifiersBytesMax, stringBytesMax } from './errors.ts'
import { type EncodedLines, msOf, restNsOf } from './points.ts'

/** Characters that have to be checked. Short texts of devices usually have none. */
const tagMark = /[,= \\\n\r\0\ud800-\udfff]/
const keyMark = /[,= "\\\n\r\0\ud800-\udfff]/
const stringMark = /["\\\0\ud800-\udfff]/

/** Escapes a tag's value; undefined if it cannot be stored. An empty value cannot be written: its tag is left out. */
export function tagText(value: string): string | undefined {
  if (!tagMark.test(value)) return value
  if (/[\n\r\0]/.test(value) || value.endsWith('\\') || !value.isWellFormed()) return undefined
  return value.replaceAll(/[,= ]/g, '\\$&')
}

/** Escapes a field key; undefined if it cannot be stored. */
export function fieldKeyText(key: string): string | undefined {
  if (!keyMark.test(key)) return key
  if (/[\n\r\0]|\\[,= ]|\\$/.test(key) || !key.isWellFormed()) return undefined
  return key.replaceAll(/[,= "]/g, '\\$&')
}

/** Quotes and escapes a string value; undefined if it cannot be stored. */
export function stringText(value: string): string | undefined {
  if (value.length > stringBytesMax / 3 && Buffer.byteLength(value) > stringBytesMax) return undefined
  if (!stringMark.test(value)) return `"${value}"`
  if (value.includes('\0') || !value.isWellFormed()) return undefined
  return `"${value.replaceAll(/["\\]/g, '\\$&')}"`
}

// Positions and times are decimal digits of 64-bit integers, computed without a bigint for each row.

const billion15 = 1_000_000_000_000_000
/** By log and partition: the digits of its first position above the fifteenth, and the lower fifteen. */
const bases = new Map<number, { readonly upper: number; readonly lower: number }>()

/** The digits of `log << 56 | partition << 44 | offset`: the last fifteen, and those above them. */
function positionDigits(log: number, partition: number, offset: number): { readonly upper: number; readonly lower: number } {
  const owner = log * 4096 + partition
  let base = bases.get(owner)
  if (base === undefined) {
    const first = BigInt(owner) << 44n
    base = { upper: Number(first / BigInt(billion15)), lower: Number(first % BigInt(billion15)) }
    bases.set(owner, base)
  }
  // An offset has 44 bits: the sum is a safe integer.
  const lower = base.lower + offset
  const carry = Math.floor(lower / billion15)
  return { upper: base.upper + carry, lower: lower - carry * billion15 }
}

/** Marks ASCII characters that are not written as they are. Texts with other characters are checked by the functions above. */
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

/** A growing buffer of lines. The caller reserves space, then writes: only `reserve` checks the end of the buffer. */
export class LineBytes {
  bytes: Buffer
  /** Where the next byte goes. */
  at = 0

  /** @param bytes not from a pool: it is written from its beginning */
  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  /** Reserves space for this many more bytes. */
  reserve(length: number): void {
    const needed = this.at + length
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
  }

  /** Appends bytes as they are. */
  put(some: Uint8Array, start = 0, end = some.length): void {
    const { bytes } = this
    let { at } = this
    for (let nth = start; nth < end; nth++) bytes[at++] = some[nth]!
    this.at = at
  }

  /** Appends a tag's value: at most 3 × value.length bytes. If it cannot be stored, appends nothing and returns false. */
  tag(value: string): boolean {
    return this.#plain(value, marked.tag) || this.#escaped(tagText(value))
  }

  /** Appends a field key: at most 3 × key.length bytes. If it cannot be stored, appends nothing and returns false. */
  fieldKey(key: string): boolean {
    return this.#plain(key, marked.fieldKey) || this.#escaped(fieldKeyText(key))
  }

  /** Appends a quoted string value: at most 2 + 3 × value.length bytes. If it cannot be stored, appends nothing and returns false. */
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

  /** Appends bytes in base64url, quoted: at most 4 + 4 / 3 × value.length bytes. */
  data(value: Uint8Array): void {
    const text = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64url')
    this.bytes[this.at++] = quote
    this.at += this.bytes.write(text, this.at, 'latin1')
    this.bytes[this.at++] = quote
  }

  /** Appends a finite double: at most `doubleBytesMax` bytes. */
  number(value: number): void {
    this.at = writeDouble(this.bytes, this.at, value)
  }

  /** Appends a whole number from 0 to 2^53: at most 16 bytes. */
  integer(value: number): void {
    this.at = writeInteger(this.bytes, this.at, value)
  }

  /** Appends `log << 56 | partition << 44 | offset`: at most 19 bytes. */
  position(log: number, partition: number, offset: number): void {
    const { upper, lower } = positionDigits(log, partition, offset)
    if (upper === 0) return this.integer(lower)
    this.integer(upper)
    const middle = Math.floor(lower / billion8)
    this.at = writeDigits(this.bytes, writeDigits(this.bytes, this.at, middle, 7), lower - middle * billion8, 8)
  }

  /** Appends nanoseconds, units × 10^digits + rest, where the rest has at most so many digits, 8 or fewer: at most 20 bytes. */
  time(units: number, restNs: number, digits: number): void {
    if (units <= 0) {
      // Before 1970 the digits of the rest are not those of the sum.
      this.at += this.bytes.write(String(BigInt(units) * 10n ** BigInt(digits) + BigInt(restNs)), this.at, 'latin1')
      return
    }
    this.integer(units)
    this.at = writeDigits(this.bytes, this.at, restNs, digits)
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

/** A fixed part of lines, as bytes. */
export function part(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text))
}

const parts = {
  channel: part(',channel='),
  publisher: part(',publisher='),
  subtopic: part(',subtopic='),
  position: part('i,/position='),
  protocol: part('i,protocol='),
  ownProtocol: part('i,/protocol='),
}
/** The bytes of the parts besides their texts, and of the time with its line end. */
const partsBytes = Object.values(parts).reduce((sum, { length }) => sum + length, 0) + doubleBytesMax
const timeBytes = doubleBytesMax + 2
const space = 0x20
const lineEnd = 0x0a

/** Writes the lines of a batch. What all rows of a message share is encoded once, and a refused message leaves no line. */
export class LineWriter {
  readonly rejected = new Map<number, Rejection>()
  /** The lines. After `open`, the caller appends the row's own parts to it. */
  readonly line: LineBytes
  /** The message of the last `begin`. */
  message = -1
  /** True if that message is refused: none of its rows is then written. */
  isRefused = false

  readonly #batch: RecordBatch
  readonly #logNumbers: LogNumbers
  readonly #start: Uint32Array
  readonly #message: Uint32Array
  readonly #record: Uint32Array
  readonly #timeUs: Float64Array
  /** The shared parts of that message: measurement, `,channel=…`, `,publisher=…,subtopic=…`, `i,/position=…i,protocol=…`. Then where each ends. */
  readonly #shared = new LineBytes(Buffer.allocUnsafeSlow(16 * 1024))
  #measurementEnd = 0
  #channelEnd = 0
  #tagsEnd = 0
  #length = 0
  #firstLine = 0
  #restNs = 0

  /** @param buffer of an earlier batch that was written; it is reused for the lines */
  constructor(batch: RecordBatch, logNumbers: LogNumbers, buffer?: Buffer) {
    const rows = batch.rowCount
    this.#batch = batch
    this.#logNumbers = logNumbers
    this.line = new LineBytes(buffer ?? Buffer.allocUnsafeSlow(Math.max(4096, rows * 320)))
    this.#start = new Uint32Array(rows + 1)
    this.#message = new Uint32Array(rows)
    this.#record = new Uint32Array(rows)
    this.#timeUs = new Float64Array(rows)
  }

  /** Begins a message with the parts that its rows share, or refuses it. */
  begin(message: number, format: string, measurement: string): void {
    const { messages } = this.#batch
    if (messages.outcome[message] !== Outcome.stored) throw new RangeError(`message ${message} has rows and is not to be stored`)
    this.message = message
    this.isRefused = false
    this.#firstLine = this.#length
    const fault = longIdentifiers(messages, message, format, identifiersBytesMax) ?? this.#tags(messages, message, measurement)
    if (fault !== undefined) return this.refuse(undefined, fault)
    const at = messages.at[message]!
    const log = this.#logNumbers[logOf(at)]!
    const partition = partitionOf(at)
    const offset = messages.offset[message]!
    this.#restNs = restNsOf(log, partition, offset)
    const shared = this.#shared
    shared.put(parts.position)
    shared.position(log, partition, offset)
    // A document may have its own key `protocol`.
    shared.put(format === senmlFormat ? parts.protocol : parts.ownProtocol)
    if (!shared.string(messages.protocol[message]!)) this.refuse(undefined, faults.tag('protocol'))
  }

  #tags(messages: MessageColumns, message: number, measurement: string): Fault | undefined {
    const channel = messages.channel[message]!
    const publisher = messages.publisher[message]!
    const subtopic = messages.subtopic[message]!
    const shared = this.#shared
    shared.at = 0
    shared.reserve(
      partsBytes + 2 + (measurement.length + channel.length + publisher.length + subtopic.length + messages.protocol[message]!.length) * 3,
    )
    shared.fieldKey(measurement)
    this.#measurementEnd = shared.at
    if (channel !== '') shared.put(parts.channel)
    if (!shared.tag(channel)) return faults.tag('channel')
    this.#channelEnd = shared.at
    if (publisher !== '') shared.put(parts.publisher)
    if (!shared.tag(publisher)) return faults.tag('publisher')
    if (subtopic !== '') shared.put(parts.subtopic)
    if (!shared.tag(subtopic)) return faults.tag('subtopic')
    this.#tagsEnd = shared.at
    return undefined
  }

  /** Reserves space for a row whose own parts have at most this many bytes. */
  open(ownBytes: number): void {
    this.line.reserve(this.#shared.at + ownBytes + timeBytes)
  }

  /** Where the current row begins. */
  get start(): number {
    return this.#start[this.#length]!
  }

  measurement(): void {
    this.line.put(this.#shared.bytes, 0, this.#measurementEnd)
  }

  /** `,channel=…`, unless the channel is empty. */
  channel(): void {
    this.line.put(this.#shared.bytes, this.#measurementEnd, this.#channelEnd)
  }

  /** `,publisher=…,subtopic=…`, without those that are empty. */
  publisherAndSubtopic(): void {
    this.line.put(this.#shared.bytes, this.#channelEnd, this.#tagsEnd)
  }

  /** `i,/position=…i,protocol=…`, after the integer that precedes it. */
  positionAndProtocol(): void {
    this.line.put(this.#shared.bytes, this.#tagsEnd, this.#shared.at)
  }

  /** Ends the row with its time. */
  end(record: number, timeUs: number): void {
    const { line } = this
    line.bytes[line.at++] = space
    line.time(msOf(timeUs), this.#restNs, 6)
    line.bytes[line.at++] = lineEnd
    const nth = this.#length++
    this.#message[nth] = this.message
    this.#record[nth] = record
    this.#timeUs[nth] = timeUs
    this.#start[nth + 1] = line.at
  }

  /**
   * Refuses the current message and removes its lines.
   *
   * @param record undefined if the reason is not one of its records
   */
  refuse(record: number | undefined, fault: Fault): void {
    this.isRefused = true
    this.#length = this.#firstLine
    this.line.at = this.#start[this.#firstLine]!
    this.rejected.set(this.message, { message: this.message, ...(record === undefined ? {} : { record }), ...fault })
  }

  finish(): EncodedLines {
    return {
      length: this.#length,
      bytes: this.line.bytes.subarray(0, this.line.at),
      start: this.#start,
      message: this.#message,
      record: this.#record,
      timeUs: this.#timeUs,
    }
  }
}
