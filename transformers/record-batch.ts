// A batch of decoded messages, column by column: what transformers fill, and what sinks write.
//
// Columns, because a row object for each record costs as much as parsing it: numbers lie unboxed in typed arrays, and a
// sink's encoder is a plain loop over an index. Absence needs no second column: every number of a record is finite
// (RFC 8428 allows no other), so NaN means "none". A column has more room than rows: what lies behind `length` is of no meaning.
//
// Longer than most files: the columns and the few ways in which they grow and shrink together belong side by side.

import { DecodeError } from './decode-error.ts'

/** Any JSON value; integers beyond 2^53 are bigints, so that none loses digits. */
export type JsonValue = null | boolean | number | bigint | string | readonly JsonValue[] | JsonObject
export interface JsonObject {
  readonly [key: string]: JsonValue
}

/** The format under which SenML records are stored; no JSON format has this name. */
export const senmlFormat = 'messages'

/** What became of a message on its way into the batch. */
export const Outcome = { stored: 0, empty: 1, filtered: 2, deadLettered: 3 } as const

/** Which of the value columns a record uses. */
export const ValueKind = { none: 0, number: 1, string: 2, boolean: 3, data: 4 } as const
export type ValueKind = (typeof ValueKind)[keyof typeof ValueKind]

/** Every message received within the ranges of the batch, in the order of the log within each partition, with or without rows. */
export interface MessageColumns {
  length: number
  partition: Uint16Array
  offset: Float64Array
  /** One of Outcome. */
  outcome: Uint8Array
  channel: string[]
  subtopic: string[]
  publisher: string[]
  protocol: string[]
}

/** SenML records, resolved: absolute names and times, no base fields. The records of a message lie together, ordered by time. */
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

/** JSON documents. The documents of a message lie together, in the order received. */
export interface DocumentColumns {
  length: number
  message: Uint32Array
  index: Uint32Array
  /** The last part of the subtopic; names the table, collection or measurement. Device data: hostile. */
  format: string[]
  /** With createdRestNs: the document's instant, nanoseconds = createdUs × 1000 + createdRestNs. */
  createdUs: Float64Array
  createdRestNs: Uint16Array
  payload: JsonObject[]
}

/** The half-open range of offsets `[from, to)` of one partition that a batch covers; `from` is the `to` of the batch before. */
export interface Range {
  readonly partition: number
  readonly from: number
  to: number
  /** So many offsets from `from` on held messages that the log deleted unread. */
  readonly lost: number
}

/** Where a message that was dead-lettered and replayed lay at first: that stays its position. */
export interface Original {
  /** The number under which the store knows that log. */
  readonly log: number
  readonly partition: number
  readonly offset: number
}

/** Where a message lies in the log, as the batch names it. */
export interface MessageOrigin {
  readonly partition: number
  readonly offset: number
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
}

/** A batch of the default size fits without growing. A batch holds records or documents, seldom both: documents begin small. */
export const initialRoom = 2048
const initialDocuments = 64

/** A column of texts with its room made at once: an array that grows from nothing is copied a dozen times on its way to a batch. */
function room<T>(length: number, nothing: T): T[] {
  // oxlint-disable-next-line unicorn/no-new-array -- Array.from takes several times as long, which each row of a batch would pay.
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

  /** One for each partition that the batch touches. */
  readonly ranges: Range[] = []

  /** By message, the original position of each that was replayed; undefined in the ordinary flow, where there is none. */
  originals: Map<number, Original> | undefined

  #recordsBefore = 0
  #documentsBefore = 0
  /** Where the last of the records that were dropped lay: behind it the columns hold nothing. */
  #droppedRecords = 0

  /** @param rows room at the beginning for so many messages and rows; it grows */
  constructor(rows = initialRoom) {
    this.messages = {
      length: 0,
      partition: new Uint16Array(rows),
      offset: new Float64Array(rows),
      outcome: new Uint8Array(rows),
      channel: room(rows, ''),
      subtopic: room(rows, ''),
      publisher: room(rows, ''),
      protocol: room(rows, ''),
    }
    this.records = {
      length: 0,
      message: new Uint32Array(rows),
      index: new Uint32Array(rows),
      name: room(rows, ''),
      unit: room<string | undefined>(rows, undefined),
      timeUs: new Float64Array(rows),
      valueKind: new Uint8Array(rows),
      number: new Float64Array(rows),
      content: room<string | Uint8Array | undefined>(rows, undefined),
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

  /** How many messages, records or documents fit without growing, whichever is most. */
  get room(): number {
    return Math.max(this.messages.offset.length, this.records.timeUs.length, this.documents.createdUs.length)
  }

  /** Empties the batch, which keeps its room: to be filled anew, by the one who owns it, when nobody reads it any more. */
  clear(): void {
    const { messages, records, documents } = this
    // What lies in the room is not read, but it would be kept from the garbage collector.
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
    this.originals = undefined
  }

  /** Begins a message; what is appended next belongs to it. Its outcome is settled by endMessage or dropRows. */
  beginMessage(origin: MessageOrigin): void {
    const messages = this.messages
    const at = messages.length++
    if (at === messages.offset.length) {
      messages.partition = doubled(messages.partition)
      messages.offset = doubled(messages.offset)
      messages.outcome = doubled(messages.outcome)
    }
    messages.partition[at] = origin.partition
    messages.offset[at] = origin.offset
    messages.channel[at] = origin.channel
    messages.subtopic[at] = origin.subtopic
    messages.publisher[at] = origin.publisher
    messages.protocol[at] = origin.protocol
    this.#recordsBefore = this.records.length
    this.#documentsBefore = this.documents.length
  }

  /** Says that the message begun last was replayed: its rows have the position that it had at first. */
  replayOf(original: Original): void {
    this.originals ??= new Map()
    this.originals.set(this.messages.length - 1, original)
  }

  /** Ends the message begun last: stored, or empty where nothing was appended. */
  endMessage(): void {
    const grown = this.records.length > this.#recordsBefore || this.documents.length > this.#documentsBefore
    this.messages.outcome[this.messages.length - 1] = grown ? Outcome.stored : Outcome.empty
  }

  /** Ends the message begun last without its rows, as if nothing had been appended. */
  dropRows(outcome: typeof Outcome.filtered | typeof Outcome.deadLettered): void {
    this.takeBack()
    this.messages.outcome[this.messages.length - 1] = outcome
  }

  /** Takes back the rows of the message begun last, which goes on. */
  takeBack(): void {
    this.#droppedRecords = Math.max(this.#droppedRecords, this.records.length)
    this.records.length = this.#recordsBefore
    this.documents.length = this.#documentsBefore
  }

  /**
   * Appends a SenML record to the message begun last.
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
   * Appends a JSON document to the message begun last.
   *
   * @throws DecodeError `reserved-format` for the format of SenML records: sinks take the name for that of the records
   */
  appendDocument(index: number, format: string, createdUs: number, createdRestNs: number, payload: JsonObject): void {
    if (format === senmlFormat) throw new DecodeError('reserved-format', `a document has the format "${senmlFormat}" of SenML records`)
    const documents = this.documents
    const at = documents.length++
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
   * Says that the batch covers `[from, to)` of a partition, after what it covers already.
   *
   * @param lost how many messages the log deleted unread, all from `from` on: only at the beginning of a range
   * @throws RangeError when `from` is not where the batch's range of that partition ends
   */
  cover(partition: number, from: number, to: number, lost = 0): void {
    const range = this.ranges.find(range => range.partition === partition)
    if (range === undefined) {
      this.ranges.push({ partition, from, to, lost })
      return
    }
    if (lost > 0) throw new RangeError(`partition ${partition}: messages were lost at offset ${from}, inside the batch: begin another`)
    if (range.to !== from) throw new RangeError(`partition ${partition}: the batch ends at offset ${range.to} and cannot go on at ${from}`)
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
