// Encodes a record batch as the bytes of binary COPYs, one for each table it goes to. Pure, and the sink's hot path.
//
// Longer than most files: the fields of a row, shared and its own, stand together in the order of their columns.

import {
  type DocumentColumns,
  type JsonObject,
  type MessageColumns,
  Outcome,
  type RecordBatch,
  type RecordColumns,
  senmlFormat,
  ValueKind,
} from '../../transformers/record-batch.ts'
import { positionHigh, positionLow, type Rejection } from '../sink.ts'
import { CopyBytes } from './copy-bytes.ts'
import type { EncodedBatch, EncodedTable } from './encoded-batch.ts'
import { replaysOf } from './replays.ts'

// What is the same for all rows of a message stands first, in one piece that can be copied.
export const recordColumns =
  '(channel, subtopic, publisher, protocol, position, time, name, unit, value, string_value, bool_value, data_value, sum, update_time, index)'
export const documentColumns = '(channel, subtopic, publisher, protocol, position, created, payload, index)'
const recordFields = 15
const documentFields = 8

/** Microseconds from 1970-01-01 to 2000-01-01, where PostgreSQL's timestamps begin. */
const postgresEpochUs = 946_684_800_000_000

/**
 * Bytes of channel, publisher and format together: the channel is a part of an index row, which holds 2,704 bytes, and the format's name one of
 * another.
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
  // The message written last, and where the part that its rows share lies.
  message = -1
  sharedStart = 0
  sharedEnd = 0
  channel: string | undefined

  constructor(format: string, bytes: number) {
    this.format = format
    this.copy = new CopyBytes(bytes)
  }
}

export function encode(batch: RecordBatch, logNumber: number): EncodedBatch {
  const { messages, records, documents } = batch
  const encoded = {
    messages: { length: messages.length, partition: messages.partition, offset: messages.offset, outcome: messages.outcome },
    ranges: batch.ranges.map(range => ({ ...range })),
    tables: [] as EncodedTable[],
    replays: replaysOf(batch),
    rejected: new Map<number, Rejection>(),
    acknowledged: new Set<number>(),
  }
  if (records.length > 0) {
    const table = new TableRows(senmlFormat, records.length * 320)
    for (let at = 0; at < records.length; at++) {
      if (beginRow(table, batch, records.message[at]!, recordFields, logNumber, encoded.rejected)) encodeRecord(table, records, at)
    }
    if (table.rows > 0) encoded.tables.push(finish(table))
  }
  if (documents.length > 0) {
    for (const table of encodeDocuments(batch, logNumber, encoded.rejected)) encoded.tables.push(finish(table))
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
  // Every field has its length (10 × 4), and the fixed ones their bytes: time, two numbers, a value, the index (5 × 8).
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

function encodeDocuments(batch: RecordBatch, logNumber: number, rejected: Map<number, Rejection>): TableRows[] {
  const { documents } = batch
  const tables = new Map<string, TableRows>()
  const holdsRecords = new Set(batch.records.message.subarray(0, batch.records.length))
  let messageBefore = -1
  let formatBefore = ''
  for (let at = 0; at < documents.length; at++) {
    const format = documents.format[at]!
    const message = documents.message[at]!
    if (message === messageBefore && format !== formatBefore) throw twoTables(message)
    if (message !== messageBefore && holdsRecords.has(message)) throw twoTables(message)
    messageBefore = message
    formatBefore = format
    if (!isInt64(documents, at)) {
      rejected.set(message, { message, record: documents.index[at]!, ...beyondInt64 })
      continue
    }
    let table = tables.get(format)
    if (table === undefined) tables.set(format, (table = new TableRows(format, 1024)))
    if (beginRow(table, batch, message, documentFields, logNumber, rejected)) encodeDocument(table, documents, at)
  }
  return [...tables.values()].filter(table => table.rows > 0)
}

/** A refused row takes its whole message with it, which this sink does within one table only. */
function twoTables(message: number): RangeError {
  return new RangeError(`message ${message} has rows for two tables: a transformer gives all rows of a message one format`)
}

/** False where the nanoseconds at which a document was created are more than the column holds. */
function isInt64({ createdUs, createdRestNs }: DocumentColumns, at: number): boolean {
  const us = createdUs[at]!
  // It ends a little beyond, where it takes the exact number to tell.
  if (Number.isSafeInteger(us)) return true
  const ns = BigInt(us) * 1000n + BigInt(createdRestNs[at]!)
  return BigInt.asIntN(64, ns) === ns
}

const beyondInt64: Omit<Rejection, 'message'> = {
  rule: 'store-refused',
  reason: 'its time is more than a bigint of nanoseconds holds, which is from 1677 to 2262',
  hint: 'check the clock of the device, or the format of the time field',
}

/** The rest of a document's row. */
function encodeDocument(table: TableRows, documents: DocumentColumns, at: number): void {
  const copy = table.copy
  const createdUs = documents.createdUs[at]!
  copy.reserve(12)
  // Nanoseconds as an int64, by halves: us × 1000 + rest, where the lower half carries into the upper one.
  const high = Math.floor(createdUs / 0x1_0000_0000)
  const low = (createdUs - high * 0x1_0000_0000) * 1000 + documents.createdRestNs[at]!
  copy.int64(high * 1000 + Math.floor(low / 0x1_0000_0000), low >>> 0)
  copy.json(payloadText(documents.payload[at]!))
  copy.reserve(8)
  copy.int32(documents.index[at]!)
  table.recordIndex.push(documents.index[at]!)
  table.rows++
}

/**
 * Begins a row with what all rows of its message share, which is encoded once.
 *
 * @returns false where the message has been refused
 */
function beginRow(
  table: TableRows,
  { messages, originals }: RecordBatch,
  message: number,
  fields: number,
  logNumber: number,
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
  const identifiers = channel.length + publisher.length + table.format.length
  if (identifiers * 3 > identifiersBytesMax && refuseIdentifiers(table.format, messages, message, rejected)) {
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
  const original = originals?.get(message)
  if (original === undefined) {
    const offset = messages.offset[message]!
    copy.int64(positionHigh(logNumber, messages.partition[message]!, offset), positionLow(offset))
  } else {
    copy.int64(positionHigh(original.log, original.partition, original.offset), positionLow(original.offset))
  }
  table.sharedEnd = copy.at
  return true
}

function refuseIdentifiers(format: string, messages: MessageColumns, message: number, rejected: Map<number, Rejection>): boolean {
  const bytes = Buffer.byteLength(messages.channel[message]!) + Buffer.byteLength(messages.publisher[message]!) + Buffer.byteLength(format)
  if (bytes <= identifiersBytesMax) return false
  rejected.set(message, {
    message,
    rule: 'identifier-length',
    reason: `channel, publisher and format have ${bytes} bytes together, and the store's indexes hold ${identifiersBytesMax}`,
    hint: 'use shorter ids and subtopics',
  })
  return true
}

function finish(table: TableRows): EncodedTable {
  const { format, channels, rows, unitMessage, unitRow, unitByte, recordIndex } = table
  return { format, channels, rows, bytes: table.copy.finish(), unitMessage, unitRow, unitByte, recordIndex }
}

/** JSON text with every digit: bigints, which JSON.stringify refuses, are rare enough to try without a replacer first. */
function payloadText(payload: JsonObject): string {
  try {
    return JSON.stringify(payload)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    return JSON.stringify(payload, (_key, value: unknown) => (typeof value === 'bigint' ? rawJson(value) : value))
  }
}

/** Node has `JSON.rawJSON`, the library's types do not yet. */
function rawJson(value: bigint): unknown {
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(String(value))
}
