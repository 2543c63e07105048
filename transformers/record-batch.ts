// A batch of decoded messages in columns, filled by transformers and written by sinks.
//
// Columns, because a row object per record costs as much as parsing it: numbers are unboxed in typed arrays, and a
// sink's encoder is a plain loop over an index. Missing values need no extra column: every number of a record is finite
// (RFC 8428 allows no other), so NaN means "none". A column has spare capacity: elements beyond `length` are meaningless.
//
// Longer than most files, because the columns and the code that grows and shrinks them belong together.

import { DecodeError } from './decode-error.ts'
import { type LogPartition, type LogPartitions, partitionName } from './log-partition.ts'

/** Any JSON value; integers beyond 2^53 are bigints, so that none loses digits. */
export type JsonValue = null | boolean | number | bigint | string | readonly JsonValue[] | JsonObject
export interface JsonObject {
  readonly [key: string]: JsonValue
}

/** The format under which SenML records are stored; no JSON format has this name. */
export const senmlFormat = 'messages'

/** The outcome of decoding a message. */
export const Outcome = { stored: 0, empty: 1, filtered: 2, deadLettered: 3 } as const

/** Which of the value columns a record uses. */
export const ValueKind = { none: 0, number: 1, string: 2, boolean: 3, data: 4 } as const
export type ValueKind = (typeof ValueKind)[keyof typeof ValueKind]

/** Every message in the ranges of the batch, with or without rows, in log order within each partition. */
export interface MessageColumns {
  length: number
  at: LogPartitions
  offset: Float64Array
  /** One of Outcome. */
  outcome: Uint8Array
  channel: string[]
  subtopic: string[]
  publisher: string[]
  protocol: string[]
}

/**
 * Resolved SenML records: absolute names and times, no base fields. The records of a message are adjacent and ordered by time. No text is a part of a larger
 * one, which it would keep in memory: sinks keep the names that they have seen.
 */
export interface RecordColumns {
  length: number
  /** The record's message: an index into the message columns. */
  message: Uint32Array
  /** The record's ordinal in the message as received, from 0; with the message's position it identifies the row. */
  index: Uint32Array
  name: string[]
  /** undefined: no unit. */
  unit: (string | undefined)[]
  /** Microseconds since 1970, whole, may be negative. */
  timeUs: Float64Array
  /** One of ValueKind. */
  valueKind: Uint8Array
  /** The number; a boolean as 0 or 1; else NaN. */
  number: Float64Array
  /** The string value, or the bytes of a data value; else undefined. */
  content: (string | Uint8Array | undefined)[]
  /** NaN: no sum. */
  sum: Float64Array
  /** Seconds; NaN: no update time. */
  updateTime: Float64Array
}

/** JSON documents. The documents of a message are adjacent, in the order received. */
export interface DocumentColumns {
  length: number
  message: Uint32Array
  index: Uint32Array
  /** The last part of the subtopic, or the writer's default format: names a table, collection or measurement. Untrusted: devices choose it. */
  format: string[]
  /** With createdRestNs: the document's instant, nanoseconds = createdUs × 1000 + createdRestNs. */
  createdUs: Float64Array
  createdRestNs: Uint16Array
  payload: JsonObject[]
}

/** The half-open range of offsets `[from, to)` of one partition that a batch covers; `from` is the `to` of the previous batch. */
export interface Range {
  readonly at: LogPartition
  readonly from: number
  to: number
  /** Number of messages, from `from` on, that the log deleted unread. */
  readonly lost: number
}

/** The position of a message in the log. */
export interface MessageOrigin {
  readonly at: LogPartition
  readonly offset: number
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
}

/** Enough for a batch of default size. A batch rarely contains both records and documents, so documents start small. */
export const initialCapacity = 2048
const initialDocuments = 64

/** A text column with preallocated capacity: an array that grows from zero is copied a dozen times until it holds a batch. */
function capacity<T>(length: number, nothing: T): T[] {
  // oxlint-disable-next-line unicorn/no-new-array -- Array.from takes several times as long, for each row of a batch.
  return new Array<T>(length).fill(nothing)
}

function doubled<T extends Uint8Array | Uint16Array | Uint32Array | Float64Array>(column: T): T {
  const larger = new (column.constructor as new (length: number) => T)(column.length * 2)
  larger.set(column)
  return larger
}

export class RecordBatch {
  readonly messages: MessageColumns
  readonly records: RecordColumns
  readonly documents: DocumentColumns

  /** One per partition in the batch. */
  readonly ranges: Range[] = []

  #recordsBefore = 0
  #documentsBefore = 0
  /** End of the highest dropped record: beyond it the columns contain no references. */
  #droppedRecords = 0

  /** @param rows initial capacity in messages and rows; it grows */
  constructor(rows = initialCapacity) {
    this.messages = {
      length: 0,
      at: new Uint32Array(rows) as LogPartitions,
      offset: new Float64Array(rows),
      outcome: new Uint8Array(rows),
      channel: capacity(rows, ''),
      subtopic: capacity(rows, ''),
      publisher: capacity(rows, ''),
      protocol: capacity(rows, ''),
    }
    this.records = {
      length: 0,
      message: new Uint32Array(rows),
      index: new Uint32Array(rows),
      name: capacity(rows, ''),
      unit: capacity<string | undefined>(rows, undefined),
      timeUs: new Float64Array(rows),
      valueKind: new Uint8Array(rows),
      number: new Float64Array(rows),
      content: capacity<string | Uint8Array | undefined>(rows, undefined),
      sum: new Float64Array(rows),
      updateTime: new Float64Array(rows),
    }
    const documents = Math.min(rows, initialDocuments)
    this.documents = {
      length: 0,
      message: new Uint32Array(documents),
      index: new Uint32Array(documents),
      format: [],
      createdUs: new Float64Array(documents),
      createdRestNs: new Uint16Array(documents),
      payload: [],
    }
  }

  get rowCount(): number {
    return this.records.length + this.documents.length
  }

  /** The largest capacity of the message, record and document columns. */
  get capacity(): number {
    return Math.max(this.messages.offset.length, this.records.timeUs.length, this.documents.createdUs.length)
  }

  /** Empties the batch for reuse, keeping its capacity. Call it only when the batch is no longer read. */
  clear(): void {
    const { messages, records, documents } = this
    // Stale elements are never read, but would keep their values from being garbage-collected.
    const texts = [messages.channel, messages.subtopic, messages.publisher, messages.protocol]
    for (const column of texts) column.fill('', 0, messages.length)
    const rows = Math.max(records.length, this.#droppedRecords)
    records.name.fill('', 0, rows)
    records.unit.fill(undefined, 0, rows)
    records.content.fill(undefined, 0, rows)
    messages.length = 0
    records.length = 0
    documents.length = 0
    this.#droppedRecords = 0
    documents.format.length = 0
    documents.payload.length = 0
    this.ranges.length = 0
  }

  /** Begins a message; rows appended next belong to it. endMessage or dropRows sets its outcome. */
  beginMessage(origin: MessageOrigin): void {
    const messages = this.messages
    const row = messages.length++
    if (row === messages.offset.length) {
      messages.at = doubled(messages.at)
      messages.offset = doubled(messages.offset)
      messages.outcome = doubled(messages.outcome)
    }
    messages.at[row] = origin.at
    messages.offset[row] = origin.offset
    messages.channel[row] = origin.channel
    messages.subtopic[row] = origin.subtopic
    messages.publisher[row] = origin.publisher
    messages.protocol[row] = origin.protocol
    this.#recordsBefore = this.records.length
    this.#documentsBefore = this.documents.length
  }

  /**
   * Ends the current message: stored, or empty if nothing was appended.
   *
   * @throws RangeError if it has records and documents
   */
  endMessage(): void {
    const hasRecords = this.records.length > this.#recordsBefore
    const hasDocuments = this.documents.length > this.#documentsBefore
    if (hasRecords && hasDocuments) throw severalFormats()
    this.messages.outcome[this.messages.length - 1] = hasRecords || hasDocuments ? Outcome.stored : Outcome.empty
  }

  /** Ends the current message and drops its rows. */
  dropRows(outcome: typeof Outcome.filtered | typeof Outcome.deadLettered): void {
    this.takeBack()
    this.messages.outcome[this.messages.length - 1] = outcome
  }

  /** Drops the rows of the current message, which stays open. */
  takeBack(): void {
    this.#droppedRecords = Math.max(this.#droppedRecords, this.records.length)
    this.records.length = this.#recordsBefore
    this.documents.length = this.#documentsBefore
  }

  /**
   * Appends a SenML record to the current message.
   *
   * @param number the numeric value, or 0 and 1 for a boolean; NaN otherwise
   * @param content the string value, or the bytes of a data value; undefined otherwise
   * @param sum NaN for none
   * @param updateTime seconds; NaN for none
   */
  appendRecord(
    index: number,
    name: string,
    unit: string | undefined,
    timeUs: number,
    valueKind: ValueKind,
    number: number,
    content: string | Uint8Array | undefined,
    sum: number,
    updateTime: number,
  ): void {
    const records = this.records
    const at = records.length++
    if (at === records.timeUs.length) this.#growRecords()
    records.message[at] = this.messages.length - 1
    records.index[at] = index
    records.name[at] = name
    records.unit[at] = unit
    records.timeUs[at] = timeUs
    records.valueKind[at] = valueKind
    records.number[at] = number
    records.content[at] = content
    records.sum[at] = sum
    records.updateTime[at] = updateTime
  }

  /**
   * Appends a JSON document to the current message.
   *
   * @throws DecodeError `reserved-format` for the format of SenML records, by which sinks recognize records
   * @throws RangeError if another document of the message has another format
   */
  appendDocument(index: number, format: string, createdUs: number, createdRestNs: number, payload: JsonObject): void {
    if (format === senmlFormat) throw new DecodeError('reserved-format', `a document has the format "${senmlFormat}" of SenML records`)
    const documents = this.documents
    const at = documents.length++
    if (at > this.#documentsBefore && documents.format[at - 1] !== format) throw severalFormats()
    if (at === documents.createdUs.length) {
      documents.message = doubled(documents.message)
      documents.index = doubled(documents.index)
      documents.createdUs = doubled(documents.createdUs)
      documents.createdRestNs = doubled(documents.createdRestNs)
    }
    documents.message[at] = this.messages.length - 1
    documents.index[at] = index
    documents.format[at] = format
    documents.createdUs[at] = createdUs
    documents.createdRestNs[at] = createdRestNs
    documents.payload[at] = payload
  }

  /**
   * Extends the range that the batch covers in a partition by `[from, to)`.
   *
   * @param lost how many messages the log deleted unread, starting at `from`; allowed only at the start of a range
   * @throws RangeError if `from` is not the end of the batch's range of that partition
   */
  cover(at: LogPartition, from: number, to: number, lost = 0): void {
    const range = this.ranges.find(range => range.at === at)
    if (range === undefined) {
      this.ranges.push({ at, from, to, lost })
      return
    }
    if (lost > 0) throw new RangeError(`${partitionName(at)}: messages were lost at offset ${from}, inside the batch: start another batch`)
    if (range.to !== from) throw new RangeError(`${partitionName(at)}: the batch ends at offset ${range.to} and cannot continue at ${from}`)
    range.to = to
  }

  #growRecords(): void {
    const records = this.records
    records.message = doubled(records.message)
    records.index = doubled(records.index)
    records.timeUs = doubled(records.timeUs)
    records.valueKind = doubled(records.valueKind)
    records.number = doubled(records.number)
    records.sum = doubled(records.sum)
    records.updateTime = doubled(records.updateTime)
  }
}

/** A store that refuses a row rejects the whole message, and sinks do that within one table. */
function severalFormats(): RangeError {
  return new RangeError('a message has rows of several formats: a transformer gives all rows of a message one format')
}
