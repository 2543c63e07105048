// The rows of a message that was not stored yet, in the canonical form of stored ones: made once, for all who follow its channel.

import type { LiveMessage } from '../../pipeline/live/messages.ts'
import { jsonText } from '../../transformers/json/json-text.ts'
import { type DocumentColumns, type RecordBatch, type RecordColumns, ValueKind } from '../../transformers/record-batch.ts'
import { type Json, parsePayload } from '../payload-json.ts'
import { type DocumentRow, type Row, type SenmlRow, senmlFormat } from '../reader.ts'
import { documentJson, recordJson } from '../record-json.ts'

export interface LiveRow {
  readonly row: Row
  /** `messages` for SenML. */
  readonly format: string
  /** As a page prints it. */
  json(): string
}

/** Bits of an offset in a position; the store's number of the log, above the partition, is not known here. */
const offsetBits = 44n

/** @returns what gives the rows of a message, in the order of its batch. The message that was asked for last is kept. */
export function openRows(): (message: LiveMessage) => readonly LiveRow[] {
  let last: LiveMessage | undefined
  let rows: readonly LiveRow[] = []
  return message => {
    if (message !== last) {
      rows = rowsOf(message)
      last = message
    }
    return rows
  }
}

function rowsOf({ batch, partition, offset }: LiveMessage): LiveRow[] {
  const { records, documents } = batch
  const position = (BigInt(partition) << offsetBits) + BigInt(offset)
  const rows: LiveRow[] = []
  for (let at = 0; at < records.length; at++) {
    const row = senmlRow(batch, records, at, position)
    rows.push(openRow(row, senmlFormat, () => recordJson(row)))
  }
  for (let at = 0; at < documents.length; at++) {
    const row = documentRow(batch, documents, at, position)
    rows.push(openRow(row, documents.format[at]!, () => documentJson(row)))
  }
  return rows
}

function openRow(row: Row, format: string, print: () => string): LiveRow {
  let text: string | undefined
  return { row, format, json: () => (text ??= print()) }
}

const payloads = new WeakMap<DocumentRow, Json>()

/** Parsed for the first who asks: the rows of a message are the same for all who follow its channel. */
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
