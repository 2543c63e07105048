// The rows of a new message in the same canonical form as stored ones, created once for all clients that follow its channel.

import type { LiveMessage } from '../../pipeline/live/messages.ts'
import { type Json, parsePayload } from '../../transformers/json/canonical.ts'
import { jsonText } from '../../transformers/json/json-text.ts'
import { type DocumentColumns, type RecordBatch, type RecordColumns, ValueKind } from '../../transformers/record-batch.ts'
import { rowJson } from '../answers/record-json.ts'
import { type DocumentRow, type Row, type SenmlRow, senmlFormat } from '../reader.ts'

/** A row of a message, and its JSON, which is created once. */
export interface LiveRow {
  readonly row: Row
  /** `messages` for SenML. */
  readonly format: string
  /** The JSON as in a page. */
  json(): string
}

/** Bits of an offset in a position; the log's number in the store, in the bits above the partition, is not known here. */
const offsetBits = 44n

/** The rows of a message, in the order of its batch. */
export interface LiveRows {
  at(index: number): LiveRow | undefined
}

export function rowsOf({ batch, partition, offset }: LiveMessage): LiveRows {
  const { records, documents, rowCount } = batch
  const position = (BigInt(partition) << offsetBits) + BigInt(offset)
  const rows: LiveRow[] = []

  function rowAt(index: number): LiveRow {
    if (index < records.length) {
      return openRow(senmlRow(batch, records, index, position), senmlFormat)
    }
    const at = index - records.length
    return openRow(documentRow(batch, documents, at, position), documents.format[at]!)
  }

  return { at: index => (index < rowCount ? (rows[index] ??= rowAt(index)) : undefined) }
}

function openRow(row: Row, format: string): LiveRow {
  let text: string | undefined
  return { row, format, json: () => (text ??= rowJson(row)) }
}

const payloads = new WeakMap<DocumentRow, Json>()

/** The parsed payload, cached: all clients that follow a channel share the rows of a message. */
export function payloadOf(row: DocumentRow): Json {
  let payload = payloads.get(row)
  if (payload === undefined) {
    payload = parsePayload(row.payloadText)
    payloads.set(row, payload)
  }
  return payload
}

function senmlRow({ messages }: RecordBatch, records: RecordColumns, at: number, position: bigint): SenmlRow {
  const message = records.message[at]!
  const kind = records.valueKind[at]
  const number = records.number[at]!
  const content = records.content[at]
  const sum = records.sum[at]!
  const updateTime = records.updateTime[at]!
  return {
    kind: 'senml',
    channel: messages.channel[message]!,
    subtopic: messages.subtopic[message]!,
    publisher: messages.publisher[message]!,
    protocol: messages.protocol[message]!,
    position,
    index: records.index[at]!,
    name: records.name[at]!,
    unit: records.unit[at],
    timeUs: records.timeUs[at]!,
    value: kind === ValueKind.number ? number : undefined,
    stringValue: kind === ValueKind.string ? (content as string) : undefined,
    boolValue: kind === ValueKind.boolean ? number === 1 : undefined,
    dataValue: kind === ValueKind.data ? (content as Uint8Array) : undefined,
    sum: Number.isNaN(sum) ? undefined : sum,
    updateTime: Number.isNaN(updateTime) ? undefined : updateTime,
  }
}

function documentRow({ messages }: RecordBatch, documents: DocumentColumns, at: number, position: bigint): DocumentRow {
  const message = documents.message[at]!
  return {
    kind: 'document',
    channel: messages.channel[message]!,
    subtopic: messages.subtopic[message]!,
    publisher: messages.publisher[message]!,
    protocol: messages.protocol[message]!,
    position,
    index: documents.index[at]!,
    createdNs: BigInt(documents.createdUs[at]!) * 1000n + BigInt(documents.createdRestNs[at]!),
    payloadText: jsonText(documents.payload[at]!),
  }
}
