// Batches for the tests of sinks, written as short as what they say.

import type { SenmlRow } from '../../readers/reader.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { type JsonObject, RecordBatch, ValueKind } from '../../transformers/record-batch.ts'

/** The fields of a record, without those of its message. */
export type RecordField = Exclude<keyof SenmlRow, 'kind' | 'channel' | 'subtopic' | 'publisher' | 'protocol' | 'position' | 'index'>
export type TestRecord = { [Field in RecordField]?: Exclude<SenmlRow[Field], undefined> }

/** Every field that a record can have beside its value: tsc asks for a new one here, and the tests of all sinks store it. */
export const fullRecord = {
  name: 'urn:dev:1:full',
  unit: 'Cel',
  timeUs: 1_772_366_400_000_001,
  value: 21.5,
  sum: 2.5,
  updateTime: 60,
} satisfies Required<Omit<TestRecord, 'stringValue' | 'boolValue' | 'dataValue'>>

export interface TestMessage {
  offset: number
  /** The index of its log. */
  log?: number
  partition?: number
  channel?: string
  subtopic?: string
  publisher?: string
  protocol?: string
  /** Neither these nor documents: an empty message. */
  records?: TestRecord[]
  documents?: { format: string; payload: JsonObject; createdUs?: number; createdRestNs?: number }[]
  outcome?: 'filtered' | 'deadLettered'
}

/** 2026-03-01T12:00:00Z */
export const noonUs = 1_772_366_400_000_000

/** A batch of one partition that covers `[from, to)`. */
export function batchOf(from: number, to: number, messages: readonly TestMessage[], partition = 0): RecordBatch {
  const batch = new RecordBatch()
  for (const message of messages) append(batch, { partition, ...message })
  batch.cover(logPartition(0, partition), from, to)
  return batch
}

/** One message with one record at each offset of `[from, to)`; its value is the offset. */
export function plainBatch(from: number, to: number, partition = 0): RecordBatch {
  const messages: TestMessage[] = []
  for (let offset = from; offset < to; offset++) messages.push(plain(offset))
  return batchOf(from, to, messages, partition)
}

export function plain(offset: number): TestMessage {
  return { offset, records: [{ name: 'temperature', value: offset }] }
}

/** Ordinals of records run from 0 in the order given. */
export function append(batch: RecordBatch, message: TestMessage): void {
  const { channel = 'channel-1', subtopic = 'room', publisher = 'thing-1', protocol = 'http', log = 0, partition = 0 } = message
  batch.beginMessage({ at: logPartition(log, partition), offset: message.offset, channel, subtopic, publisher, protocol })
  for (const [index, record] of (message.records ?? []).entries()) appendRecord(batch, index, record)
  for (const [index, document] of (message.documents ?? []).entries()) {
    batch.appendDocument(index, document.format, document.createdUs ?? noonUs, document.createdRestNs ?? 0, document.payload)
  }
  if (message.outcome === undefined) batch.endMessage()
  else batch.dropRows(message.outcome === 'filtered' ? 2 : 3)
}

function appendRecord(batch: RecordBatch, index: number, record: TestRecord): void {
  const { value, stringValue, boolValue, dataValue } = record
  let kind: ValueKind = ValueKind.none
  if (value !== undefined) kind = ValueKind.number
  if (stringValue !== undefined) kind = ValueKind.string
  if (boolValue !== undefined) kind = ValueKind.boolean
  if (dataValue !== undefined) kind = ValueKind.data
  const number = value ?? (boolValue === undefined ? Number.NaN : Number(boolValue))
  batch.appendRecord(
    index,
    record.name ?? 'temperature',
    record.unit,
    record.timeUs ?? noonUs,
    kind,
    number,
    stringValue ?? dataValue,
    record.sum ?? Number.NaN,
    record.updateTime ?? Number.NaN,
  )
}
