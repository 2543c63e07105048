// Encodes a record batch as CQL values, row by row, grouped by partition. Pure, and the sink's hot path.
//
// Everything except numbers and booleans is encoded to bytes here, which the driver accepts as they are. The driver would encode a message's texts
// once for each row; here they are encoded once for each message, and sizes are known before anything is sent.

import { jsonText } from '../../transformers/json/json-text.ts'
import {
  type DocumentColumns,
  Outcome,
  type RecordBatch,
  type RecordColumns,
  senmlFormat,
  ValueKind,
} from '../../transformers/record-batch.ts'
import { type KeyedBatch, keyedBatch } from '../keyed-sink.ts'
import { beyondInt64, longIdentifiers, type Refusal } from '../rejections.ts'
import { type LogNumbers, positionHighAt, positionLow, type Rejection } from '../sink.ts'
import { type DayRegistry, type DaysOfPublisher, dateBytes, type NotedDay } from './day-registry.ts'

/** A row to insert, in the form that the driver's batches accept. */
export interface EncodedRow {
  readonly query: string
  /** By column; the primary key comes first. */
  readonly params: unknown[]
  /** Its message, by the index in the message columns. */
  readonly message: number
  /** The ordinal of the record in its message. */
  readonly record: number
}

/** Rows of one partition that are sent together: a single row, or a batch, which costs a node less than its rows one by one. */
export type EncodedRequest = readonly EncodedRow[]

export interface EncodedTable {
  readonly format: string
  /** The channels whose messages are in it, in case the table has to be created. */
  readonly channels: ReadonlySet<string>
  readonly requests: readonly EncodedRequest[]
}

export interface EncodedBatch extends KeyedBatch {
  readonly tables: readonly EncodedTable[]
  /** All days on which the batch has rows; `DayRegistry` knows which of them have to be written. */
  readonly days: readonly NotedDay[]
}

const dayUs = 86_400_000_000

/** A node logs a warning for batches over 5 KB, and refuses them over 50 KB. */
const requestBytesMax = 5_000
const requestRowsMax = 32
/** A channel with fewer partitions than this is searched one by one, one with more by a map, which few channels need. */
const chainMax = 9
/** What a node counts for a row besides its values: measured for rows of every kind, and rounded up. */
const rowOverheadBytes = 24

/**
 * Most bytes of channel, publisher and format together. Two of them at a time form a partition key, which holds at most 65,535 bytes, including some
 * for their lengths.
 */
const identifiersBytesMax = 65_500

/** The same for all batches of a sink. */
export interface Encoding {
  readonly logNumbers: LogNumbers
  readonly bucketDays: number
  readonly dayRegistry: DayRegistry
  /** Returns the statement that inserts into the table of a format. */
  readonly insert: (format: string) => string
  /** The driver's value for a column that is left out. */
  readonly unset: unknown
  /** The largest row that the server accepts; infinity if it does not say. */
  readonly rowBytesMax: number
}

/** The rows of a channel and day that are not in a request yet. */
class Partition {
  readonly day: number
  readonly dayBytes: Buffer
  rows: EncodedRow[] = []
  bytes = 0
  /** The next partition of the same channel, on another day. */
  next: Partition | undefined
  /** Only in a channel's first partition: how many it has, and a map by day once there are many. */
  count = 1
  byDay: Map<number, Partition> | undefined

  constructor(day: number, next: Partition | undefined) {
    this.day = day
    this.dayBytes = dateBytes(day)
    this.next = next
  }
}

/** A table while it is being filled. */
class TableRows {
  readonly format: string
  readonly query: string
  readonly requests: EncodedRequest[] = []
  readonly partitions = new Map<string, Partition>()
  // The message written last, and the columns that its rows share.
  message = -1
  refused = false
  channelText = ''
  channel = nothing
  subtopic = nothing
  publisher = nothing
  protocol = nothing
  position = nothing
  sharedBytes = 0
  partition: Partition | undefined
  days: DaysOfPublisher | undefined

  constructor(format: string, query: string) {
    this.format = format
    this.query = query
  }
}

const nothing = Buffer.alloc(0)

/** The result lists all days on which the batch has rows. */
export function encode(batch: RecordBatch, encoding: Encoding): EncodedBatch {
  const { records, documents } = batch
  encoding.dayRegistry.begin()
  const tables: EncodedTable[] = []
  const encoded = {
    ...keyedBatch(batch),
    tables,
    days: [] as NotedDay[],
  } satisfies EncodedBatch
  if (records.length > 0) {
    const table = new TableRows(senmlFormat, encoding.insert(senmlFormat))
    for (let at = 0; at < records.length; at++) {
      if (beginRow(table, batch, records.message[at]!, encoding, encoded.rejected)) encodeRecord(table, records, at, encoding, encoded)
    }
    tables.push(finish(table))
  }
  if (documents.length > 0) tables.push(...encodeDocuments(batch, encoding, encoded).map(finish))
  return encoded
}

type Noting = Pick<EncodedBatch, 'rejected'> & { readonly days: NotedDay[] }

function encodeRecord(table: TableRows, records: RecordColumns, at: number, encoding: Encoding, noting: Noting): void {
  const { unset, rowBytesMax } = encoding
  const content = records.content[at]
  const unit = records.unit[at]
  const kind = records.valueKind[at]
  const text = kind === ValueKind.string ? (content as string) : undefined
  const index = records.index[at]!
  const name = records.name[at]!
  const atLeast = name.length + (unit?.length ?? 0) + (content?.length ?? 0)
  if (atLeast > rowBytesMax) {
    refuse(table, noting.rejected, index, tooLarge(atLeast, rowBytesMax))
    return
  }

  const timeUs = records.timeUs[at]!
  const fixed = Buffer.allocUnsafe(12)
  fixed.writeInt32BE(Math.floor(timeUs / 0x1_0000_0000), 0)
  fixed.writeUInt32BE(timeUs >>> 0, 4)
  fixed.writeInt32BE(index, 8)
  const nameBytes = Buffer.from(name)
  const unitBytes = unit === undefined ? undefined : Buffer.from(unit)
  const contentBytes = content === undefined ? undefined : typeof content === 'string' ? Buffer.from(content) : viewOf(content)
  const bytes = table.sharedBytes + nameBytes.length + (unitBytes?.length ?? 0) + (contentBytes?.length ?? 0) + 44
  if (bytes > rowBytesMax) {
    refuse(table, noting.rejected, index, tooLarge(bytes, rowBytesMax))
    return
  }

  const sum = records.sum[at]!
  const updateTime = records.updateTime[at]!
  const partition = partitionOf(table, Math.floor(timeUs / dayUs), encoding, noting.days)
  add(table, partition, index, bytes, [
    table.channel,
    partition.dayBytes,
    fixed.subarray(0, 8),
    table.position,
    fixed.subarray(8),
    table.subtopic,
    table.publisher,
    table.protocol,
    nameBytes,
    unitBytes ?? unset,
    kind === ValueKind.number ? records.number[at]! : unset,
    text === undefined ? unset : contentBytes,
    kind === ValueKind.boolean ? records.number[at] === 1 : unset,
    kind === ValueKind.data ? contentBytes : unset,
    Number.isNaN(sum) ? unset : sum,
    Number.isNaN(updateTime) ? unset : updateTime,
  ])
}

function encodeDocuments(batch: RecordBatch, encoding: Encoding, noting: Noting): TableRows[] {
  const { documents } = batch
  const tables = new Map<string, TableRows>()
  for (let at = 0; at < documents.length; at++) {
    const format = documents.format[at]!
    const message = documents.message[at]!
    let table = tables.get(format)
    if (table === undefined) tables.set(format, (table = new TableRows(format, encoding.insert(format))))
    if (beginRow(table, batch, message, encoding, noting.rejected)) encodeDocument(table, documents, at, encoding, noting)
  }
  return [...tables.values()]
}

function encodeDocument(table: TableRows, documents: DocumentColumns, at: number, encoding: Encoding, noting: Noting): void {
  const index = documents.index[at]!
  const createdUs = documents.createdUs[at]!
  // Nanoseconds as an int64, in two halves: us × 1000 + rest, where the lower half carries into the upper one.
  const upperUs = Math.floor(createdUs / 0x1_0000_0000)
  const low = (createdUs - upperUs * 0x1_0000_0000) * 1000 + documents.createdRestNs[at]!
  const high = upperUs * 1000 + Math.floor(low / 0x1_0000_0000)
  if (high > 0x7fff_ffff || high < -0x8000_0000) {
    refuse(table, noting.rejected, index, beyondInt64)
    return
  }
  const payload = Buffer.from(jsonText(documents.payload[at]!))
  const bytes = table.sharedBytes + payload.length + 28
  if (bytes > encoding.rowBytesMax) {
    refuse(table, noting.rejected, index, tooLarge(bytes, encoding.rowBytesMax))
    return
  }
  const fixed = Buffer.allocUnsafe(12)
  fixed.writeInt32BE(high, 0)
  fixed.writeUInt32BE(low % 0x1_0000_0000, 4)
  fixed.writeInt32BE(index, 8)
  const partition = partitionOf(table, Math.floor(createdUs / dayUs), encoding, noting.days)
  add(table, partition, index, bytes, [
    table.channel,
    partition.dayBytes,
    fixed.subarray(0, 8),
    table.position,
    fixed.subarray(8),
    table.subtopic,
    table.publisher,
    table.protocol,
    payload,
  ])
}

/**
 * Starts a row with the columns that all rows of its message share, which are encoded once.
 *
 * @returns false if the message is refused
 */
function beginRow(table: TableRows, batch: RecordBatch, message: number, encoding: Encoding, rejected: Map<number, Rejection>): boolean {
  if (message === table.message) return !table.refused
  const { messages } = batch
  if (messages.outcome[message] !== Outcome.stored) throw new RangeError(`message ${message} has rows and is not to be stored`)
  table.message = message
  table.refused = false
  const channel = messages.channel[message]!
  const subtopic = messages.subtopic[message]!
  const publisher = messages.publisher[message]!
  const protocol = messages.protocol[message]!
  const refusal = longIdentifiers(messages, message, table.format, identifiersBytesMax)
  if (refusal !== undefined) {
    refuse(table, rejected, undefined, refusal)
    return false
  }
  if (channel !== table.channelText || table.partition === undefined) {
    table.channelText = channel
    table.channel = Buffer.from(channel)
    table.partition = table.partitions.get(channel)
    table.days = undefined
  }
  if (table.days === undefined || table.days.publisher !== publisher) table.days = encoding.dayRegistry.of(channel, publisher, table.format)
  table.subtopic = Buffer.from(subtopic)
  table.publisher = Buffer.from(publisher)
  table.protocol = Buffer.from(protocol)
  const offset = messages.offset[message]!
  table.position = Buffer.allocUnsafe(8)
  table.position.writeUInt32BE(positionHighAt(encoding.logNumbers, messages.at[message]!, offset), 0)
  table.position.writeUInt32BE(positionLow(offset), 4)
  table.sharedBytes = table.channel.length + table.subtopic.length + table.publisher.length + table.protocol.length
  return true
}

/** Returns the partition of a row of this channel, and adds its day to `noted`. */
function partitionOf(table: TableRows, day: number, { bucketDays }: Encoding, noted: NotedDay[]): Partition {
  const bucket = bucketDays === 1 ? day : Math.floor(day / bucketDays) * bucketDays
  table.days!.note(bucket, noted)
  const first = table.partition
  if (first === undefined) {
    table.partition = new Partition(bucket, undefined)
    table.partitions.set(table.channelText, table.partition)
    return table.partition
  }
  if (first.day === bucket) return first
  return first.byDay?.get(bucket) ?? nextOf(first, bucket)
}

/** Finds or adds a partition of the channel that is not its first one. Most rows of a channel are from today, so this is rare. */
function nextOf(first: Partition, day: number): Partition {
  if (first.byDay === undefined) {
    for (let partition = first.next; partition !== undefined; partition = partition.next) if (partition.day === day) return partition
  }
  const added = new Partition(day, first.next)
  first.next = added
  if (++first.count === chainMax) {
    first.byDay = new Map()
    for (let partition: Partition | undefined = added; partition !== undefined; partition = partition.next) {
      first.byDay.set(partition.day, partition)
    }
  } else first.byDay?.set(day, added)
  return added
}

function add(table: TableRows, partition: Partition, record: number, bytes: number, params: unknown[]): void {
  const counted = bytes + rowOverheadBytes
  if (partition.bytes + counted > requestBytesMax || partition.rows.length === requestRowsMax) flush(table, partition)
  partition.rows.push({ query: table.query, params, message: table.message, record })
  partition.bytes += counted
}

function flush(table: TableRows, partition: Partition): void {
  if (partition.rows.length > 0) table.requests.push(partition.rows)
  partition.rows = []
  partition.bytes = 0
}

/** The result still contains rows of a refused message that were encoded before its refused row; they are left out when the batch is written. */
function finish(table: TableRows): EncodedTable {
  for (const first of table.partitions.values()) {
    for (let partition: Partition | undefined = first; partition !== undefined; partition = partition.next) flush(table, partition)
  }
  return { format: table.format, channels: new Set(table.partitions.keys()), requests: table.requests }
}

function refuse(table: TableRows, rejected: Map<number, Rejection>, record: number | undefined, refusal: Refusal): void {
  table.refused = true
  rejected.set(table.message, { message: table.message, ...(record === undefined ? {} : { record }), ...refusal })
}

function tooLarge(bytes: number, most: number): Refusal {
  return {
    rule: 'store-refused',
    reason: `the row has at least ${bytes} bytes, and Cassandra accepts at most ${most} in a mutation`,
    hint: 'send smaller values, or raise max_mutation_size of the nodes',
  }
}

function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
