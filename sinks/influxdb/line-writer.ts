// The lines of a batch while they are written: what all rows of a message share is made once, and a message that is refused leaves none.

import { doubleBytesMax } from '../../config/decimal-bytes.ts'
import { type MessageColumns, Outcome, type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import type { Rejection } from '../sink.ts'
import type { EncodedLines } from './encoded-batch.ts'
import { type Fault, faults } from './faults.ts'
import { LineBytes, part } from './line-bytes.ts'
import { restNsOf } from './position-text.ts'

/**
 * Bytes of channel, publisher and format together, and of the subtopic: as the relational store has them, so that what one store takes the others
 * take. All of them are in the server's memory for each series.
 */
const identifiersBytesMax = 2048

const parts = {
  channel: part(',channel='),
  publisher: part(',publisher='),
  subtopic: part(',subtopic='),
  position: part('i,/position='),
  protocol: part('i,protocol='),
  ownProtocol: part('i,/protocol='),
}
/** Of the parts beside their texts, and of the time with its line end. */
const partsBytes = Object.values(parts).reduce((sum, { length }) => sum + length, 0) + doubleBytesMax
const timeBytes = doubleBytesMax + 2
const space = 0x20
const lineEnd = 0x0a

export class LineWriter {
  readonly rejected = new Map<number, Rejection>()
  /** The lines, where the caller writes what a row has of its own, once `open` has made room for it. */
  readonly line: LineBytes
  /** The message begun last. */
  message = -1
  /** Whether it has been refused: none of its rows is written then. */
  isRefused = false

  readonly #batch: RecordBatch
  readonly #logNumber: number
  readonly #start: Uint32Array
  readonly #message: Uint32Array
  readonly #record: Uint32Array
  readonly #timeUs: Float64Array
  /** Of the message begun last: measurement, `,channel=…`, `,publisher=…,subtopic=…`, `i,/position=…i,protocol=…`, and where each ends. */
  readonly #shared = new LineBytes(Buffer.allocUnsafeSlow(16 * 1024))
  #measurementEnd = 0
  #channelEnd = 0
  #tagsEnd = 0
  #length = 0
  #firstLine = 0
  #restNs = 0

  /** @param room for the lines, of a batch that is not needed any more */
  constructor(batch: RecordBatch, logNumber: number, room?: Buffer) {
    const rows = batch.rowCount
    this.#batch = batch
    this.#logNumber = logNumber
    this.line = new LineBytes(room ?? Buffer.allocUnsafeSlow(Math.max(4096, rows * 320)))
    this.#start = new Uint32Array(rows + 1)
    this.#message = new Uint32Array(rows)
    this.#record = new Uint32Array(rows)
    this.#timeUs = new Float64Array(rows)
  }

  /** Begins a message with what its rows share, or refuses it. */
  begin(message: number, format: string, measurement: string): void {
    const { messages, originals } = this.#batch
    if (messages.outcome[message] !== Outcome.stored) throw new RangeError(`message ${message} has rows and is not to be stored`)
    this.message = message
    this.isRefused = false
    this.#firstLine = this.#length
    const fault = identifiersFault(messages, message, format) ?? this.#tags(messages, message, measurement)
    if (fault !== undefined) return this.refuse(undefined, fault)
    const original = originals?.get(message)
    const log = original === undefined ? this.#logNumber : original.log
    const partition = original === undefined ? messages.partition[message]! : original.partition
    const offset = original === undefined ? messages.offset[message]! : original.offset
    this.#restNs = restNsOf(log, partition, offset)
    const shared = this.#shared
    shared.put(parts.position)
    shared.position(log, partition, offset)
    // A document may have a key `protocol` of its own.
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

  /** Makes room for a row, with so many bytes of its own at most. */
  open(ownBytes: number): void {
    this.line.reserve(this.#shared.at + ownBytes + timeBytes)
  }

  /** Where the row begins that is written now. */
  get start(): number {
    return this.#start[this.#length]!
  }

  measurement(): void {
    this.line.put(this.#shared.bytes, 0, this.#measurementEnd)
  }

  /** `,channel=…`, where there is one. */
  channel(): void {
    this.line.put(this.#shared.bytes, this.#measurementEnd, this.#channelEnd)
  }

  /** `,publisher=…,subtopic=…`, those that there are. */
  publisherAndSubtopic(): void {
    this.line.put(this.#shared.bytes, this.#channelEnd, this.#tagsEnd)
  }

  /** `i,/position=…i,protocol=…`: behind the integer that stands before it. */
  positionAndProtocol(): void {
    this.line.put(this.#shared.bytes, this.#tagsEnd, this.#shared.at)
  }

  /** Ends the row with its time. */
  end(record: number, timeUs: number): void {
    const { line } = this
    line.bytes[line.at++] = space
    line.time(timeUs, this.#restNs)
    line.bytes[line.at++] = lineEnd
    const nth = this.#length++
    this.#message[nth] = this.message
    this.#record[nth] = record
    this.#timeUs[nth] = timeUs
    this.#start[nth + 1] = line.at
  }

  /**
   * Refuses the message begun last, whose lines are taken back.
   *
   * @param record undefined where no record of it is the culprit
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

function identifiersFault(messages: MessageColumns, message: number, format: string): Fault | undefined {
  const channel = messages.channel[message]!
  const publisher = messages.publisher[message]!
  const subtopic = messages.subtopic[message]!
  const most = Math.max(channel.length + publisher.length + format.length, subtopic.length) * 3
  if (most <= identifiersBytesMax) return undefined
  const bytes = Buffer.byteLength(channel) + Buffer.byteLength(publisher) + Buffer.byteLength(format)
  if (bytes > identifiersBytesMax) return faults.identifiers('channel, publisher and format have', bytes, identifiersBytesMax)
  const subtopicBytes = Buffer.byteLength(subtopic)
  return subtopicBytes > identifiersBytesMax ? faults.identifiers('the subtopic has', subtopicBytes, identifiersBytesMax) : undefined
}
