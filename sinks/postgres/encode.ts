// Encodes a record batch as binary COPY files, one for each table. Pure, and the sink's hot path.

import { jsonText } from '../../transformers/json/json-text.ts'
import {
  type DocumentColumns,
  Outcome,
  type Range,
  type RecordBatch,
  type RecordColumns,
  senmlFormat,
  ValueKind,
} from '../../transformers/record-batch.ts'
import type { CountedMessages } from '../counts.ts'
import { beyondInt64, longIdentifiers, type Rejections } from '../rejections.ts'
import { type LogNumbers, positionHighAt, positionLow, type Rejection } from '../sink.ts'
import { CopyBytes, type EncodedTable } from './copy.ts'

/** What `write` needs of a batch, without its strings, and what earlier attempts have found out, for the next one. */
export interface EncodedBatch extends Rejections {
  readonly messages: CountedMessages
  readonly ranges: readonly Range[]
  readonly tables: readonly EncodedTable[]
}

// The columns that are the same for all rows of a message come first, so that they can be copied in one piece.
export const recordColumns =
  '(channel, subtopic, publisher, protocol, position, time, name, unit, value, string_value, bool_value, data_value, sum, update_time, index)'
export const documentColumns = '(channel, subtopic, publisher, protocol, position, created, payload, index)'
const recordFields = 15
const documentFields = 8

/** Microseconds from 1970-01-01 to 2000-01-01, where PostgreSQL's timestamps begin. */
const postgresEpochUs = 946_684_800_000_000

/**
 * Most bytes of channel, publisher and format together. The channel is part of an index row, which holds at most 2,704 bytes, and so is the format's
 * name, in another index.
 */
const identifiersBytesMax = 2048

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

export function encode(batch: RecordBatch, logNumbers: LogNumbers): EncodedBatch {
  const { messages, records, documents } = batch
  const encoded = {
    messages: { length: messages.length, at: messages.at, offset: messages.offset, outcome: messages.outcome },
    ranges: batch.ranges.map(range => ({ ...range })),
    tables: [] as EncodedTable[],
    rejected: new Map<number, Rejection>(),
    acknowledged: new Set<number>(),
  }
  if (records.length > 0) {
    const table = new TableRows(senmlFormat, records.length * 320)
    for (let at = 0; at < records.length; at++) {
      if (beginRow(table, batch, records.message[at]!, recordFields, logNumbers, encoded.rejected)) encodeRecord(table, records, at)
    }
    if (table.rows > 0) encoded.tables.push(finish(table))
  }
  if (documents.length > 0) {
    for (const table of encodeDocuments(batch, logNumbers, encoded.rejected)) encoded.tables.push(finish(table))
  }
  return encoded
}

/** The rest of a record's row. */
function encodeRecord(table: TableRows, records: RecordColumns, at: number): void {
  const copy = table.copy
  const name = records.name[at]!
  const unit = records.unit[at]
  const content = records.content[at]
  const contentBytesMax = content === undefined ? 0 : typeof content === 'string' ? content.length * 3 : content.length
  // Every field has a length (10 × 4), and the fixed-size ones have their bytes: time, two numbers, a value, the index (5 × 8).
  copy.reserve(80 + name.length * 3 + (unit === undefined ? 0 : unit.length * 3) + contentBytesMax)

  const timeUs = records.timeUs[at]!
  const sincePostgresEpochUs = timeUs - postgresEpochUs
  copy.int64(Math.floor(sincePostgresEpochUs / 0x1_0000_0000), sincePostgresEpochUs >>> 0)
  copy.text(name)
  if (unit === undefined) copy.none()
  else copy.text(unit)

  const kind = records.valueKind[at]
  if (kind === ValueKind.number) copy.float64(records.number[at]!)
  else copy.none()
  if (kind === ValueKind.string) copy.text(content as string)
  else copy.none()
  if (kind === ValueKind.boolean) copy.boolean(records.number[at]!)
  else copy.none()
  if (kind === ValueKind.data) copy.data(content as Uint8Array)
  else copy.none()

  const sum = records.sum[at]!
  if (Number.isNaN(sum)) copy.none()
  else copy.float64(sum)
  const updateTime = records.updateTime[at]!
  if (Number.isNaN(updateTime)) copy.none()
  else copy.float64(updateTime)
  copy.int32(records.index[at]!)
  table.recordIndex.push(records.index[at]!)
  table.rows++
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
    if (beginRow(table, batch, message, documentFields, logNumbers, rejected)) encodeDocument(table, documents, at)
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
 * Starts a row with the columns that all rows of its message share, which are encoded once.
 *
 * @returns false if the message is refused
 */
function beginRow(
  table: TableRows,
  { messages }: RecordBatch,
  message: number,
  fields: number,
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
  copy.fields(fields)
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
