// Encodes a record batch as binary COPY files, one for each table: the sink's hot path.

import { jsonText } from '../../transformers/json/json-text.ts'
import {
  type DocumentColumns,
  type MessageColumns,
  Outcome,
  type Range,
  type RecordBatch,
  type RecordColumns,
  senmlFormat,
  ValueKind,
} from '../../transformers/record-batch.ts'
import type { CountedMessages } from '../counts.ts'
import { beyondInt64, longIdentifiers, noRejections, type Rejections } from '../rejections.ts'
import { type LogNumbers, positionHighAt, positionLow, type Rejection } from '../sink.ts'
import { CopyBytes, type EncodedTable } from './copy.ts'
import { identifiersBytesMax, type RecordNumbers } from './series/numbers.ts'
import type { DictionaryState } from './series/store.ts'

/** What `write` needs of a batch, without its strings, and what earlier attempts have found out, for the next one. */
export interface EncodedBatch extends Rejections {
  readonly messages: CountedMessages
  readonly ranges: readonly Range[]
  readonly tables: EncodedTable[]
  /** The batch, while its records are not encoded: their series have to be looked up first. */
  pending: RecordBatch | undefined
  /** What the numbers of its series depend on; undefined without records. */
  state: DictionaryState | undefined
  /** Records whose rows have their texts. */
  unnumbered: number
}

// Of the columns that `targetOf` names.
const recordFields = 15
const documentFields = 8

/** Microseconds from 1970-01-01 to 2000-01-01, where PostgreSQL's timestamps begin. */
const postgresEpochUs = 946_684_800_000_000

/** A table while it is being filled. */
class TableRows {
  readonly format: string
  readonly copy: CopyBytes
  readonly channels = new Set<string>()
  rows = 0
  readonly unitMessage: number[] = []
  readonly unitRow: number[] = []
  readonly unitByte: number[] = []
  readonly recordIndex: number[] = []
  // The message written last, and where the part is that its rows share.
  message = -1
  sharedStart = 0
  sharedEnd = 0
  channel: string | undefined

  constructor(format: string, bytes: number) {
    this.format = format
    this.copy = new CopyBytes(bytes)
  }
}

/**
 * Encodes all but the records, whose series may have to be looked up first: `addRecords` does.
 */
export function encode(batch: RecordBatch, logNumbers: LogNumbers): EncodedBatch {
  const { messages, documents } = batch
  const encoded: EncodedBatch = {
    messages: { length: messages.length, at: messages.at, offset: messages.offset, outcome: messages.outcome },
    ranges: batch.ranges.map(range => ({ ...range })),
    tables: [],
    pending: batch.records.length > 0 ? batch : undefined,
    state: undefined,
    unnumbered: 0,
    ...noRejections(),
  }
  if (documents.length > 0) {
    for (const table of encodeDocuments(batch, logNumbers, encoded.rejected)) encoded.tables.push(finish(table))
  }
  return encoded
}

/** Encodes the records, in the order of the series of each message's first record: then neighbors in the table have the same series. */
export function addRecords(encoded: EncodedBatch, batch: RecordBatch, numbers: RecordNumbers, logNumbers: LogNumbers): void {
  encoded.pending = undefined
  encoded.unnumbered = 0
  if (numbers.length === 0) return
  const { messages, records } = batch
  const table = new TableRows(senmlFormat, records.length * 140)
  const { copy, unitMessage, unitRow, unitByte } = table
  const order = bySeries(numbers)
  for (let nth = 0; nth < numbers.length; nth++) {
    const unit = order[nth]!
    const message = numbers.message[unit]!
    const offset = messages.offset[message]!
    const high = positionHighAt(logNumbers, messages.at[message]!, offset)
    const low = positionLow(offset)
    const channel = numbers.channel[unit]!
    const end = numbers.end[unit]!
    unitMessage.push(message)
    unitRow.push(table.rows)
    unitByte.push(copy.at)
    for (let at = numbers.start[unit]!; at < end; at++) {
      const content = records.content[at]
      // Every field has a length (15 × 4), and the fixed-size ones have their bytes: three times 4, and up to 5 times 8.
      copy.reserve(2 + 60 + 12 + 40 + (content === undefined ? 0 : typeof content === 'string' ? content.length * 3 : content.length))
      copy.fields(recordFields)
      copy.int32(channel)
      copy.int64(high, low)
      encodeRecord(table, records, at, numbers.series[at]!)
      if (numbers.series[at]! < 0) {
        encodeTexts(copy, messages, message, records.name[at]!, records.unit[at])
        encoded.unnumbered++
      } else {
        copy.none()
        copy.none()
        copy.none()
        copy.none()
      }
    }
  }
  encoded.state = numbers.state
  encoded.tables.unshift(finish(table))
}

/** The messages with rows, by the series of their first record and, within it, in the order of the log. */
function bySeries({ length, start, series }: RecordNumbers): Uint32Array {
  // Both in one number, which a typed array sorts without a function: 31 and 22 bits.
  const keys = new Float64Array(length)
  for (let unit = 0; unit < length; unit++) keys[unit] = Math.abs(series[start[unit]!]!) * unitsMax + unit
  keys.sort()
  const order = new Uint32Array(length)
  for (let nth = 0; nth < length; nth++) order[nth] = keys[nth]! - Math.floor(keys[nth]! / unitsMax) * unitsMax
  return order
}

/** Many more than a batch has. */
const unitsMax = 0x40_0000

/** A record's own columns. */
function encodeRecord(table: TableRows, records: RecordColumns, at: number, series: number): void {
  const copy = table.copy
  copy.int32(Math.abs(series))
  const sincePostgresEpochUs = records.timeUs[at]! - postgresEpochUs
  copy.int64(Math.floor(sincePostgresEpochUs / 0x1_0000_0000), sincePostgresEpochUs >>> 0)
  copy.int32(records.index[at]!)

  const kind = records.valueKind[at]
  if (kind === ValueKind.number) copy.float64(records.number[at]!)
  else copy.none()
  if (kind === ValueKind.string) copy.text(records.content[at] as string)
  else copy.none()
  if (kind === ValueKind.boolean) copy.boolean(records.number[at]!)
  else copy.none()
  if (kind === ValueKind.data) copy.data(records.content[at] as Uint8Array)
  else copy.none()

  const sum = records.sum[at]!
  if (Number.isNaN(sum)) copy.none()
  else copy.float64(sum)
  const updateTime = records.updateTime[at]!
  if (Number.isNaN(updateTime)) copy.none()
  else copy.float64(updateTime)
  table.recordIndex.push(records.index[at]!)
  table.rows++
}

/** The texts of a row whose series has none. */
function encodeTexts(copy: CopyBytes, messages: MessageColumns, message: number, name: string, unit: string | undefined): void {
  const subtopic = messages.subtopic[message]!
  const protocol = messages.protocol[message]!
  copy.reserve(16 + (subtopic.length + protocol.length + name.length + (unit?.length ?? 0)) * 3)
  copy.text(subtopic)
  copy.text(protocol)
  copy.text(name)
  if (unit === undefined) copy.none()
  else copy.text(unit)
}

function encodeDocuments(batch: RecordBatch, logNumbers: LogNumbers, rejected: Map<number, Rejection>): TableRows[] {
  const { documents } = batch
  const tables = new Map<string, TableRows>()
  for (let at = 0; at < documents.length; at++) {
    const format = documents.format[at]!
    const message = documents.message[at]!
    if (!isInt64(documents, at)) {
      rejected.set(message, { message, record: documents.index[at]!, ...beyondInt64 })
      continue
    }
    let table = tables.get(format)
    if (table === undefined) tables.set(format, (table = new TableRows(format, 1024)))
    if (beginDocument(table, batch, message, logNumbers, rejected)) encodeDocument(table, documents, at)
  }
  return [...tables.values()].filter(table => table.rows > 0)
}

/** False if the document's creation time in nanoseconds does not fit into the column. */
function isInt64({ createdUs, createdRestNs }: DocumentColumns, at: number): boolean {
  const us = createdUs[at]!
  // The range of int64 reaches a little further, and there the exact number decides.
  if (Number.isSafeInteger(us)) return true
  const ns = BigInt(us) * 1000n + BigInt(createdRestNs[at]!)
  return BigInt.asIntN(64, ns) === ns
}

/** The rest of a document's row. */
function encodeDocument(table: TableRows, documents: DocumentColumns, at: number): void {
  const copy = table.copy
  const createdUs = documents.createdUs[at]!
  copy.reserve(12)
  // Nanoseconds as an int64, in two halves: us × 1000 + rest, where the lower half carries into the upper one.
  const high = Math.floor(createdUs / 0x1_0000_0000)
  const low = (createdUs - high * 0x1_0000_0000) * 1000 + documents.createdRestNs[at]!
  copy.int64(high * 1000 + Math.floor(low / 0x1_0000_0000), low >>> 0)
  copy.json(jsonText(documents.payload[at]!))
  copy.reserve(8)
  copy.int32(documents.index[at]!)
  table.recordIndex.push(documents.index[at]!)
  table.rows++
}

/**
 * Starts the row of a document with the columns that all rows of its message share, which are encoded once.
 *
 * @returns false if the message is refused
 */
function beginDocument(
  table: TableRows,
  { messages }: RecordBatch,
  message: number,
  logNumbers: LogNumbers,
  rejected: Map<number, Rejection>,
): boolean {
  const copy = table.copy
  if (message === table.message) {
    if (table.sharedEnd === 0) return false
    copy.reserve(table.sharedEnd - table.sharedStart)
    const start = copy.at
    copy.again(table.sharedStart, table.sharedEnd)
    table.sharedStart = start
    table.sharedEnd = copy.at
    return true
  }
  if (messages.outcome[message] !== Outcome.stored) throw new RangeError(`message ${message} has rows and is not to be stored`)
  table.message = message
  const channel = messages.channel[message]!
  const subtopic = messages.subtopic[message]!
  const publisher = messages.publisher[message]!
  const protocol = messages.protocol[message]!
  const refusal = longIdentifiers(messages, message, table.format, identifiersBytesMax)
  if (refusal !== undefined) {
    rejected.set(message, { message, ...refusal })
    table.sharedEnd = 0
    return false
  }
  if (table.channel !== channel) {
    table.channel = channel
    table.channels.add(channel)
  }
  table.unitMessage.push(message)
  table.unitRow.push(table.rows)
  table.unitByte.push(copy.at)
  copy.reserve(30 + (channel.length + subtopic.length + publisher.length + protocol.length) * 3)
  table.sharedStart = copy.at
  copy.fields(documentFields)
  copy.text(channel)
  copy.text(subtopic)
  copy.text(publisher)
  copy.text(protocol)
  const offset = messages.offset[message]!
  copy.int64(positionHighAt(logNumbers, messages.at[message]!, offset), positionLow(offset))
  table.sharedEnd = copy.at
  return true
}

function finish(table: TableRows): EncodedTable {
  const { format, channels, rows, unitMessage, unitRow, unitByte, recordIndex } = table
  return { format, channels, rows, bytes: table.copy.finish(), unitMessage, unitRow, unitByte, recordIndex }
}
