// A collection of a batch while its rows are being written: each begins with its `_id` and what all rows of its message share.

import { type MessageColumns, Outcome, type RecordBatch } from '../../transformers/record-batch.ts'
import type { Rejection } from '../sink.ts'
import { BsonBytes } from './bson-bytes.ts'
import type { EncodedTable } from './encoded-batch.ts'
import { originHeads as heads } from './heads.ts'
import { documentBytesMax, halfPair, identifiersBytesMax, longIdentifiers, type Refusal, tooLarge } from './refusals.ts'
import { writeRowId } from './row-id.ts'

/** The names of fields have 11 characters at most: with its type and its end a head has 13 bytes. */
export const headBytes = 13
/** Of a text field beside its characters: its head, its length, its end. */
export const textBytes = headBytes + 5
/** Of a row's beginning: its length and its `_id`. */
const beginningBytes = 4 + 22

/** A collection while its rows are being written. */
export class TableRows {
  readonly format: string
  readonly bson: BsonBytes
  readonly channels = new Set<string>()
  readonly rowStart: number[] = []
  readonly rowMessage: number[] = []
  // The message written last, and where the part that its rows share lies.
  message = -1
  sharedStart = 0
  sharedEnd = 0

  constructor(format: string, bytes: number) {
    this.format = format
    this.bson = new BsonBytes(bytes)
  }
}

/**
 * Begins a row with its `_id` and what all rows of its message share, which is encoded once.
 *
 * @returns false where the message is refused
 */
export function beginRow(
  table: TableRows,
  { messages, originals }: RecordBatch,
  message: number,
  index: number,
  logNumber: number,
  rejected: Map<number, Rejection>,
): boolean {
  const bson = table.bson
  const isFirst = table.message !== message
  if (isFirst) {
    if (messages.outcome[message] !== Outcome.stored) throw new RangeError(`message ${message} has rows and is not to be stored`)
    const refusal = refusalOfOrigin(table.format, messages, message)
    if (refusal !== undefined) {
      rejected.set(message, { message, ...refusal })
      return false
    }
  }
  bson.reserve(beginningBytes + (isFirst ? 0 : table.sharedEnd - table.sharedStart))
  table.rowStart.push(bson.beginDocument())
  const original = originals?.get(message)
  if (original === undefined) writeRowId(bson, logNumber, messages.partition[message]!, messages.offset[message]!, index)
  else writeRowId(bson, original.log, original.partition, original.offset, index)
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
  bson.head(heads.channel)
  bson.string(channel)
  bson.head(heads.subtopic)
  bson.string(subtopic)
  bson.head(heads.publisher)
  bson.string(publisher)
  bson.head(heads.protocol)
  bson.string(protocol)
  table.sharedEnd = bson.at
  return true
}

function refusalOfOrigin(format: string, messages: MessageColumns, message: number): Refusal | undefined {
  const channel = messages.channel[message]!
  const subtopic = messages.subtopic[message]!
  const publisher = messages.publisher[message]!
  const protocol = messages.protocol[message]!
  if ((channel.length + publisher.length + format.length) * 3 > identifiersBytesMax) {
    const bytes = Buffer.byteLength(channel) + Buffer.byteLength(publisher) + Buffer.byteLength(format)
    if (bytes > identifiersBytesMax) return longIdentifiers(bytes)
  }
  if (subtopic.length + protocol.length > documentBytesMax) return tooLarge
  if (!channel.isWellFormed()) return halfPair('the channel')
  if (!publisher.isWellFormed()) return halfPair('the publisher')
  if (!subtopic.isWellFormed()) return halfPair('the subtopic')
  if (!protocol.isWellFormed()) return halfPair('the protocol')
  if (!format.isWellFormed()) return halfPair('the format')
  return undefined
}

/** Ends the row, for which the caller has reserved a byte. One that is too large is taken back, and its message refused. */
export function endRow(table: TableRows, message: number, index: number, rejected: Map<number, Rejection>): void {
  const start = table.rowStart.at(-1)!
  table.bson.endDocument(start)
  if (table.bson.at - start <= documentBytesMax) {
    table.rowMessage.push(message)
    return
  }
  takeBackRow(table)
  refuse(rejected, message, index, tooLarge)
}

/** Of a message that is refused: what its rows share is not looked at again. */
export function takeBackRow(table: TableRows): void {
  table.bson.at = table.rowStart.pop()!
}

export function refuse(rejected: Map<number, Rejection>, message: number, record: number, refusal: Refusal): void {
  rejected.set(message, { message, record, ...refusal })
}

export function finish(table: TableRows): EncodedTable {
  const { format, channels, bson, rowStart, rowMessage } = table
  rowStart.push(bson.at)
  return { format, channels, bytes: bson.finish(), rowStart, rowMessage }
}
