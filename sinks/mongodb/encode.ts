// Encodes a record batch as the documents of each collection it goes to, in BSON. Pure, and the sink's hot path.

import { type DocumentColumns, type RecordBatch, type RecordColumns, senmlFormat, ValueKind } from '../../transformers/record-batch.ts'
import type { Rejection } from '../sink.ts'
import type { EncodedBatch, EncodedTable } from './encoded-batch.ts'
import { documentHeads, recordHeads } from './heads.ts'
import { writePayload } from './payload.ts'
import { beyondInt64, documentBytesMax, halfPair, type Refusal, tooLarge, Unwritable } from './refusals.ts'
import { beginRow, endRow, finish, headBytes, refuse, TableRows, takeBackRow, textBytes } from './table-rows.ts'

const heads = { ...recordHeads, ...documentHeads } as const

/** Of a record's row behind its beginning, every field but the texts: two times, two numbers, a value; and the last byte. */
const recordBytes = 5 * (headBytes + 8) + 1
/** Of a document's: two times and the head of its payload. */
const documentBytes = 2 * (headBytes + 8) + headBytes

/** @param logNumber the first part of every position */
export function encode(batch: RecordBatch, logNumber: number): EncodedBatch {
  const { messages, records, documents } = batch
  const rejected = new Map<number, Rejection>()
  const tables: EncodedTable[] = []
  if (records.length > 0) {
    const table = new TableRows(senmlFormat, records.length * 384)
    for (let at = 0; at < records.length; at++) encodeRecord(table, batch, records, at, logNumber, rejected)
    if (table.rowMessage.length > 0) tables.push(finish(table))
  }
  if (documents.length > 0) {
    const byFormat = new Map<string, TableRows>()
    for (let at = 0; at < documents.length; at++) {
      const format = documents.format[at]!
      let table = byFormat.get(format)
      if (table === undefined) byFormat.set(format, (table = new TableRows(format, 1024)))
      encodeDocument(table, batch, documents, at, logNumber, rejected)
    }
    for (const table of byFormat.values()) if (table.rowMessage.length > 0) tables.push(finish(table))
  }
  return {
    messages: { length: messages.length, partition: messages.partition, offset: messages.offset, outcome: messages.outcome },
    ranges: batch.ranges.map(range => ({ ...range })),
    tables,
    originals: batch.originals === undefined ? undefined : new Map(batch.originals),
    rejected,
    acknowledged: new Set(),
    leftovers: new Set(),
  }
}

function encodeRecord(
  table: TableRows,
  batch: RecordBatch,
  records: RecordColumns,
  at: number,
  logNumber: number,
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
  if (!beginRow(table, batch, message, index, logNumber, rejected)) return

  const bson = table.bson
  const contentBytesMax = content === undefined ? 0 : typeof content === 'string' ? content.length * 3 : content.length
  bson.reserve(recordBytes + 3 * textBytes + name.length * 3 + (unit === undefined ? 0 : unit.length * 3) + contentBytesMax)
  bson.head(heads.name)
  bson.string(name)
  if (unit !== undefined) {
    bson.head(heads.unit)
    bson.string(unit)
  }
  const timeUs = records.timeUs[at]!
  bson.head(heads.time)
  bson.integer(Math.floor(timeUs / 1000))
  bson.head(heads.timeUs)
  bson.integer(timeUs)

  const kind = records.valueKind[at]
  if (kind === ValueKind.number) {
    bson.head(heads.value)
    bson.double(records.number[at]!)
  } else if (kind === ValueKind.string) {
    bson.head(heads.stringValue)
    bson.string(content as string)
  } else if (kind === ValueKind.boolean) {
    bson.head(heads.boolValue)
    bson.boolean(records.number[at]!)
  } else if (kind === ValueKind.data) {
    bson.head(heads.dataValue)
    bson.binary(content as Uint8Array)
  }
  const sum = records.sum[at]!
  if (!Number.isNaN(sum)) {
    bson.head(heads.sum)
    bson.double(sum)
  }
  const updateTime = records.updateTime[at]!
  if (!Number.isNaN(updateTime)) {
    bson.head(heads.updateTime)
    bson.double(updateTime)
  }
  endRow(table, message, index, rejected)
}

function encodeDocument(
  table: TableRows,
  batch: RecordBatch,
  documents: DocumentColumns,
  at: number,
  logNumber: number,
  rejected: Map<number, Rejection>,
): void {
  const message = documents.message[at]!
  if (rejected.size > 0 && rejected.has(message)) return
  const index = documents.index[at]!
  // created = us × 1000 + rest, by its halves: the upper 32 bits of the microseconds, and the lower.
  const us = documents.createdUs[at]!
  const lower = (us >>> 0) * 1000 + documents.createdRestNs[at]!
  const high = Math.floor(us / 0x1_0000_0000) * 1000 + Math.floor(lower / 0x1_0000_0000)
  if (high > 0x7fff_ffff || high < -0x8000_0000) return refuse(rejected, message, index, beyondInt64)
  if (!beginRow(table, batch, message, index, logNumber, rejected)) return

  const bson = table.bson
  bson.reserve(documentBytes)
  bson.head(heads.created)
  bson.int64(high, lower >>> 0)
  bson.head(heads.createdAt)
  bson.integer(Math.floor(us / 1000))
  bson.head(heads.payload)
  try {
    writePayload(bson, documents.payload[at]!)
  } catch (error) {
    if (!(error instanceof Unwritable)) throw error
    takeBackRow(table)
    return refuse(rejected, message, index, error.refusal)
  }
  bson.reserve(1)
  endRow(table, message, index, rejected)
}

/** Ids and texts that would be altered, and texts that fit into no document, whatever stands beside them. */
function refusalOfRecord(name: string, unit: string | undefined, content: string | Uint8Array | undefined): Refusal | undefined {
  if (!name.isWellFormed()) return halfPair('the name')
  if (unit !== undefined && !unit.isWellFormed()) return halfPair('the unit')
  if (content !== undefined && content.length > documentBytesMax) return tooLarge
  if (typeof content === 'string' && !content.isWellFormed()) return halfPair('the text')
  if (name.length + (unit?.length ?? 0) > documentBytesMax) return tooLarge
  return undefined
}
