// Encodes a record batch as BSON documents, by collection. Pure, and the sink's hot path.

import { logOf, partitionOf } from '../../transformers/log-partition.ts'
import {
  type DocumentColumns,
  type JsonObject,
  type JsonValue,
  Outcome,
  type RecordBatch,
  type RecordColumns,
  senmlFormat,
  ValueKind,
} from '../../transformers/record-batch.ts'
import { type KeyedBatch, keyedBatch } from '../keyed-sink.ts'
import { beyondInt64, longIdentifiers, type Refusal } from '../rejections.ts'
import type { LogNumbers, Rejection } from '../sink.ts'
import { BsonBytes, documentFields, elementType, originFields, recordFields, writeRowId } from './bson.ts'
import { documentBytesMax, identifiersBytesMax, notFinite, nulInKey, tooLarge, Unwritable } from './errors.ts'

/** The rows of one collection, in the order of the batch. */
export interface EncodedTable {
  readonly format: string
  /** The channels whose messages are in it, in case the format has to be registered. */
  readonly channels: ReadonlySet<string>
  /** The documents, one after another. */
  readonly bytes: Uint8Array
  /** By row, where its document begins; one more number for the end of the last. */
  readonly rowStart: readonly number[]
  /** By row, its message: the index in the message columns. */
  readonly rowMessage: readonly number[]
}

export interface EncodedBatch extends KeyedBatch {
  readonly tables: readonly EncodedTable[]
}

/** Names of fields have at most 11 characters; type, name and end together have 13 bytes. */
const headBytes = 13
/** A text field without its characters: its head, its length, its end. */
const textBytes = headBytes + 5
/** The beginning of a row: its length and its `_id`. */
const beginningBytes = 4 + 22

const fields = { ...recordFields, ...documentFields } as const

/** All fields of a record's row after its beginning, except texts: two times, two numbers, a value; and the last byte. */
const recordBytes = 5 * (headBytes + 8) + 1
/** The same for a document's row: two times and the head of its payload. */
const documentBytes = 2 * (headBytes + 8) + headBytes

/** @param logNumbers as in `Sink` */
export function encode(batch: RecordBatch, logNumbers: LogNumbers): EncodedBatch {
  const { records, documents } = batch
  const encoded = keyedBatch(batch)
  const { rejected } = encoded
  const tables: EncodedTable[] = []
  if (records.length > 0) {
    const table = new TableRows(senmlFormat, records.length * 384)
    for (let at = 0; at < records.length; at++) encodeRecord(table, batch, records, at, logNumbers, rejected)
    if (table.rowMessage.length > 0) tables.push(finish(table))
  }
  if (documents.length > 0) {
    const byFormat = new Map<string, TableRows>()
    for (let at = 0; at < documents.length; at++) {
      const format = documents.format[at]!
      let table = byFormat.get(format)
      if (table === undefined) byFormat.set(format, (table = new TableRows(format, 1024)))
      encodeDocument(table, batch, documents, at, logNumbers, rejected)
    }
    for (const table of byFormat.values()) if (table.rowMessage.length > 0) tables.push(finish(table))
  }
  return { ...encoded, tables }
}

function encodeRecord(
  table: TableRows,
  batch: RecordBatch,
  records: RecordColumns,
  at: number,
  logNumbers: LogNumbers,
  rejected: Map<number, Rejection>,
): void {
  const message = records.message[at]!
  if (rejected.size > 0 && rejected.has(message)) return
  const name = records.name[at]!
  const unit = records.unit[at]
  const content = records.content[at]
  const refusal = refusalOfRecord(name, unit, content)
  if (refusal !== undefined) return refuse(rejected, message, records.index[at]!, refusal)
  const index = records.index[at]!
  if (!beginRow(table, batch, message, index, logNumbers, rejected)) return

  const bson = table.bson
  const contentBytesMax = content === undefined ? 0 : typeof content === 'string' ? content.length * 3 : content.length
  bson.reserve(recordBytes + 3 * textBytes + name.length * 3 + (unit === undefined ? 0 : unit.length * 3) + contentBytesMax)
  bson.head(fields.name)
  bson.string(name)
  if (unit !== undefined) {
    bson.head(fields.unit)
    bson.string(unit)
  }
  const timeUs = records.timeUs[at]!
  bson.head(fields.time)
  bson.integer(Math.floor(timeUs / 1000))
  bson.head(fields.timeUs)
  bson.integer(timeUs)

  const kind = records.valueKind[at]
  if (kind === ValueKind.number) {
    bson.head(fields.value)
    bson.double(records.number[at]!)
  } else if (kind === ValueKind.string) {
    bson.head(fields.stringValue)
    bson.string(content as string)
  } else if (kind === ValueKind.boolean) {
    bson.head(fields.boolValue)
    bson.boolean(records.number[at]!)
  } else if (kind === ValueKind.data) {
    bson.head(fields.dataValue)
    bson.binary(content as Uint8Array)
  }
  const sum = records.sum[at]!
  if (!Number.isNaN(sum)) {
    bson.head(fields.sum)
    bson.double(sum)
  }
  const updateTime = records.updateTime[at]!
  if (!Number.isNaN(updateTime)) {
    bson.head(fields.updateTime)
    bson.double(updateTime)
  }
  endRow(table, message, index, rejected)
}

function encodeDocument(
  table: TableRows,
  batch: RecordBatch,
  documents: DocumentColumns,
  at: number,
  logNumbers: LogNumbers,
  rejected: Map<number, Rejection>,
): void {
  const message = documents.message[at]!
  if (rejected.size > 0 && rejected.has(message)) return
  const index = documents.index[at]!
  // created = us × 1000 + rest, in two halves: the upper 32 bits of the microseconds, and the lower.
  const us = documents.createdUs[at]!
  const lower = (us >>> 0) * 1000 + documents.createdRestNs[at]!
  const high = Math.floor(us / 0x1_0000_0000) * 1000 + Math.floor(lower / 0x1_0000_0000)
  if (high > 0x7fff_ffff || high < -0x8000_0000) return refuse(rejected, message, index, beyondInt64)
  if (!beginRow(table, batch, message, index, logNumbers, rejected)) return

  const bson = table.bson
  bson.reserve(documentBytes)
  bson.head(fields.created)
  bson.int64(high, lower >>> 0)
  bson.head(fields.createdAt)
  bson.integer(Math.floor(us / 1000))
  bson.head(fields.payload)
  try {
    writeObject(bson, documents.payload[at]!)
  } catch (error) {
    if (!(error instanceof Unwritable)) throw error
    takeBackRow(table)
    return refuse(rejected, message, index, error.refusal)
  }
  bson.reserve(1)
  endRow(table, message, index, rejected)
}

/** Refuses texts that are too long for any document. */
function refusalOfRecord(name: string, unit: string | undefined, content: string | Uint8Array | undefined): Refusal | undefined {
  const isTooLong = (content?.length ?? 0) > documentBytesMax || name.length + (unit?.length ?? 0) > documentBytesMax
  return isTooLong ? tooLarge : undefined
}

/** A collection while it is being filled: each row begins with its `_id` and the fields that all rows of its message share. */
class TableRows {
  readonly format: string
  readonly bson: BsonBytes
  readonly channels = new Set<string>()
  readonly rowStart: number[] = []
  readonly rowMessage: number[] = []
  // The message written last, and where the part is that its rows share.
  message = -1
  sharedStart = 0
  sharedEnd = 0

  constructor(format: string, bytes: number) {
    this.format = format
    this.bson = new BsonBytes(bytes)
  }
}

/**
 * Starts a row with its `_id` and the fields that all rows of its message share, which are encoded once.
 *
 * @returns false if the message is refused
 */
function beginRow(
  table: TableRows,
  { messages }: RecordBatch,
  message: number,
  index: number,
  logNumbers: LogNumbers,
  rejected: Map<number, Rejection>,
): boolean {
  const bson = table.bson
  const isFirst = table.message !== message
  if (isFirst) {
    if (messages.outcome[message] !== Outcome.stored) throw new RangeError(`message ${message} has rows and is not to be stored`)
    const refusal = longIdentifiers(messages, message, table.format, identifiersBytesMax)
    if (refusal !== undefined) {
      rejected.set(message, { message, ...refusal })
      return false
    }
  }
  bson.reserve(beginningBytes + (isFirst ? 0 : table.sharedEnd - table.sharedStart))
  table.rowStart.push(bson.beginDocument())
  const at = messages.at[message]!
  writeRowId(bson, logNumbers[logOf(at)]!, partitionOf(at), messages.offset[message]!, index)
  if (!isFirst) {
    bson.again(table.sharedStart, table.sharedEnd)
    return true
  }
  const channel = messages.channel[message]!
  const subtopic = messages.subtopic[message]!
  const publisher = messages.publisher[message]!
  const protocol = messages.protocol[message]!
  table.message = message
  table.channels.add(channel)
  bson.reserve(4 * textBytes + (channel.length + subtopic.length + publisher.length + protocol.length) * 3)
  table.sharedStart = bson.at
  bson.head(originFields.channel)
  bson.string(channel)
  bson.head(originFields.subtopic)
  bson.string(subtopic)
  bson.head(originFields.publisher)
  bson.string(publisher)
  bson.head(originFields.protocol)
  bson.string(protocol)
  table.sharedEnd = bson.at
  return true
}

/** Ends the row; the caller has reserved a byte for it. If the row is too large, removes it and refuses its message. */
function endRow(table: TableRows, message: number, index: number, rejected: Map<number, Rejection>): void {
  const start = table.rowStart.at(-1)!
  table.bson.endDocument(start)
  if (table.bson.at - start <= documentBytesMax) {
    table.rowMessage.push(message)
    return
  }
  takeBackRow(table)
  refuse(rejected, message, index, tooLarge)
}

/** Removes the last row, of a message that is refused: the fields that its rows share are not used again. */
function takeBackRow(table: TableRows): void {
  table.bson.at = table.rowStart.pop()!
}

function refuse(rejected: Map<number, Rejection>, message: number, record: number, refusal: Refusal): void {
  rejected.set(message, { message, record, ...refusal })
}

function finish(table: TableRows): EncodedTable {
  const { format, channels, bson, rowStart, rowMessage } = table
  rowStart.push(bson.at)
  return { format, channels, bytes: bson.finish(), rowStart, rowMessage }
}

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n

/**
 * Appends a JSON object as the value of an element whose head was written: every key and value as it came, whatever its name. The driver would
 * interpret some keys of a payload: it would store `{"_bsontype": "Long", …}` as a number.
 *
 * A whole number that fits becomes an int32 and any other a double, as in MongoDB's own drivers. A bigint becomes an int64 if it fits, otherwise the
 * nearest double.
 *
 * @throws Unwritable for what MongoDB cannot store as it came; the caller removes what was written
 */
function writeObject(bson: BsonBytes, object: JsonObject): void {
  bson.reserve(4)
  const start = bson.beginDocument()
  for (const key of Object.keys(object)) {
    if (key.includes('\0')) throw new Unwritable(nulInKey)
    writeElement(bson, key, object[key]!)
  }
  bson.reserve(1)
  bson.endDocument(start)
}

function writeArray(bson: BsonBytes, values: readonly JsonValue[]): void {
  bson.reserve(4)
  const start = bson.beginDocument()
  for (let at = 0; at < values.length; at++) writeElement(bson, String(at), values[at]!)
  bson.reserve(1)
  bson.endDocument(start)
}

function writeElement(bson: BsonBytes, key: string, value: JsonValue): void {
  // 8 bytes for a number, or what a text has besides its characters.
  reserveText(bson, key.length, 16)
  if (typeof value === 'string') {
    bson.headOf(elementType.string, key)
    reserveText(bson, value.length, 5)
    bson.string(value)
  } else if (typeof value === 'number') writeNumber(bson, key, value)
  else if (typeof value === 'bigint') writeBigint(bson, key, value)
  else if (typeof value === 'boolean') {
    bson.headOf(elementType.boolean, key)
    bson.boolean(value ? 1 : 0)
  } else if (value === null) bson.headOf(elementType.null, key)
  else if (isArray(value)) {
    bson.headOf(elementType.array, key)
    writeArray(bson, value)
  } else {
    bson.headOf(elementType.document, key)
    writeObject(bson, value)
  }
}

/** Refuses what is too large before it reserves space for it. */
function reserveText(bson: BsonBytes, length: number, more: number): void {
  if (length > documentBytesMax) throw new Unwritable(tooLarge)
  bson.reserve(3 * length + more)
}

function writeNumber(bson: BsonBytes, key: string, value: number): void {
  if (!Number.isFinite(value)) throw new Unwritable(notFinite)
  if ((value | 0) === value && !Object.is(value, -0)) {
    bson.headOf(elementType.int32, key)
    bson.int32(value)
  } else {
    bson.headOf(elementType.double, key)
    bson.double(value)
  }
}

function writeBigint(bson: BsonBytes, key: string, value: bigint): void {
  if (value >= int64Min && value <= int64Max) {
    bson.headOf(elementType.int64, key)
    bson.int64(Number(value >> 32n), Number(BigInt.asUintN(32, value)))
    return
  }
  const nearest = Number(value)
  if (!Number.isFinite(nearest)) throw new Unwritable(notFinite)
  bson.headOf(elementType.double, key)
  bson.double(nearest)
}

/** `Array.isArray` does not recognize read-only arrays. */
function isArray(value: readonly JsonValue[] | JsonObject): value is readonly JsonValue[] {
  return Array.isArray(value)
}
