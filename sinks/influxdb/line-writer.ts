// The lines of a batch while they are written: what all rows of a message share is made once, and a message that is refused leaves none.

import { type MessageColumns, Outcome, type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import type { Rejection } from '../sink.ts'
import type { EncodedLines } from './encoded-batch.ts'
import { type Fault, faults } from './faults.ts'
import { stringText, tagText } from './line-protocol.ts'
import { positionText, restNsOf, timeText } from './position-text.ts'

/**
 * Bytes of channel, publisher and format together, and of the subtopic: as the relational store has them, so that what one store takes the others
 * take. All of them are in the server's memory for each series.
 */
const identifiersBytesMax = 2048

export class LineWriter {
  readonly rejected = new Map<number, Rejection>()
  /** The message begun last. */
  message = -1
  /** Whether it has been refused: none of its rows is written then. */
  isRefused = false
  /** Of the message begun last: the measurement and `,channel=…`. */
  lead = ''
  /** `,publisher=…,subtopic=…` */
  tail = ''
  /** `i,/position=…i,protocol=…`: behind the integer that stands before it. */
  shared = ''

  readonly #batch: RecordBatch
  readonly #logNumber: number
  readonly #start: Uint32Array
  readonly #message: Uint32Array
  readonly #record: Uint32Array
  readonly #timeUs: Float64Array
  #bytes: Buffer
  #at = 0
  #length = 0
  #firstLine = 0
  #restNs = 0

  constructor(batch: RecordBatch, logNumber: number) {
    const rows = batch.rowCount
    this.#batch = batch
    this.#logNumber = logNumber
    this.#bytes = Buffer.allocUnsafe(Math.max(4096, rows * 320))
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
    const channel = tagText(messages.channel[message]!)
    const publisher = tagText(messages.publisher[message]!)
    const subtopic = tagText(messages.subtopic[message]!)
    const protocol = stringText(messages.protocol[message]!)
    const fault = identifiersFault(messages, message, format)
    if (fault !== undefined) return this.refuse(undefined, fault)
    if (channel === undefined || publisher === undefined || subtopic === undefined || protocol === undefined) {
      const texts = { channel, publisher, subtopic, protocol }
      return this.refuse(undefined, faults.tag(Object.entries(texts).find(([, text]) => text === undefined)![0]))
    }
    this.lead = channel === '' ? measurement : `${measurement},channel=${channel}`
    this.tail = (publisher === '' ? '' : `,publisher=${publisher}`) + (subtopic === '' ? '' : `,subtopic=${subtopic}`)
    const original = originals?.get(message)
    const log = original === undefined ? this.#logNumber : original.log
    const partition = original === undefined ? messages.partition[message]! : original.partition
    const offset = original === undefined ? messages.offset[message]! : original.offset
    this.#restNs = restNsOf(log, partition, offset)
    // A document may have a key `protocol` of its own.
    const key = format === senmlFormat ? 'protocol' : '/protocol'
    this.shared = `i,/position=${positionText(log, partition, offset)}i,${key}=${protocol}`
  }

  /** @param line without its time */
  append(line: string, record: number, timeUs: number): void {
    const whole = `${line} ${timeText(timeUs, this.#restNs)}\n`
    const most = this.#at + whole.length * 3
    if (most > this.#bytes.length) this.#grow(most)
    this.#at += this.#bytes.write(whole, this.#at)
    const nth = this.#length++
    this.#message[nth] = this.message
    this.#record[nth] = record
    this.#timeUs[nth] = timeUs
    this.#start[nth + 1] = this.#at
  }

  /**
   * Refuses the message begun last, whose lines are taken back.
   *
   * @param record undefined where no record of it is the culprit
   */
  refuse(record: number | undefined, fault: Fault): void {
    this.isRefused = true
    this.#length = this.#firstLine
    this.#at = this.#start[this.#firstLine]!
    this.rejected.set(this.message, { message: this.message, ...(record === undefined ? {} : { record }), ...fault })
  }

  finish(): EncodedLines {
    return {
      length: this.#length,
      bytes: this.#bytes.subarray(0, this.#at),
      start: this.#start,
      message: this.#message,
      record: this.#record,
      timeUs: this.#timeUs,
    }
  }

  #grow(most: number): void {
    const larger = Buffer.allocUnsafe(Math.max(most, this.#bytes.length * 2))
    this.#bytes.copy(larger, 0, 0, this.#at)
    this.#bytes = larger
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
