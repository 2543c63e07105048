// Encodes a record batch as lines of the file: pure and synchronous, so that it can be done while the previous batch is written.

import { type KeyedBatch, keyedBatch } from '../../sinks/keyed-sink.ts'
import { type LogNumbers, packedPosition } from '../../sinks/sink.ts'
import { jsonText } from '../../transformers/json/json-text.ts'
import { logOf, partitionOf } from '../../transformers/log-partition.ts'
import { type RecordBatch, senmlFormat, ValueKind } from '../../transformers/record-batch.ts'
import type { FileRow } from './file.ts'

/** A longer line is refused, and its message becomes a dead letter. */
export const lineLengthMax = 256 * 1024
const int64Max = 2n ** 63n - 1n

export interface EncodedRow {
  /** The index of its message in the batch. */
  readonly message: number
  readonly channel: string
  readonly format: string
  readonly line: string
}

export interface EncodedBatch extends KeyedBatch {
  readonly rows: readonly EncodedRow[]
}

export function encode(batch: RecordBatch, logNumbers: LogNumbers): EncodedBatch {
  const { messages, records, documents } = batch
  const rows: EncodedRow[] = []
  const encoded: EncodedBatch = { ...keyedBatch(batch), rows }

  function add(message: number, fields: Omit<FileRow, 'position' | 'channel' | 'subtopic' | 'publisher' | 'protocol'>): void {
    const at = messages.at[message]!
    const row: FileRow = {
      ...fields,
      position: String(packedPosition(logNumbers[logOf(at)]!, partitionOf(at), messages.offset[message]!)),
      channel: messages.channel[message]!,
      subtopic: messages.subtopic[message]!,
      publisher: messages.publisher[message]!,
      protocol: messages.protocol[message]!,
    }
    const line = JSON.stringify({ row })
    if (line.length > lineLengthMax) reject(message, row.index, `the row has ${line.length} characters, and ${lineLengthMax} are allowed`)
    rows.push({ message, channel: row.channel, format: row.format, line })
  }

  function reject(message: number, record: number, reason: string): void {
    if (!encoded.rejected.has(message)) encoded.rejected.set(message, { message, rule: 'store-refused', record, reason })
  }

  for (let at = 0; at < records.length; at++) {
    const kind = records.valueKind[at]
    const number = records.number[at]!
    const content = records.content[at]
    add(records.message[at]!, {
      format: senmlFormat,
      index: records.index[at]!,
      timeUs: records.timeUs[at]!,
      name: records.name[at]!,
      unit: records.unit[at],
      value: kind === ValueKind.number ? number : undefined,
      boolValue: kind === ValueKind.boolean ? number === 1 : undefined,
      stringValue: typeof content === 'string' ? content : undefined,
      dataValue: typeof content === 'object' ? Buffer.from(content).toString('base64') : undefined,
      sum: presentOf(records.sum[at]!),
      updateTime: presentOf(records.updateTime[at]!),
    })
  }
  for (let at = 0; at < documents.length; at++) {
    const message = documents.message[at]!
    const index = documents.index[at]!
    const timeUs = documents.createdUs[at]!
    const restNs = documents.createdRestNs[at]!
    const ns = BigInt(timeUs) * 1000n + BigInt(restNs)
    if (ns > int64Max || ns < -int64Max) reject(message, index, 'nanoseconds of its time do not fit an int64')
    add(message, { format: documents.format[at]!, index, timeUs, restNs, payloadText: jsonText(documents.payload[at]!) })
  }
  return encoded
}

/** A column of numbers has NaN for a missing one. */
function presentOf(number: number): number | undefined {
  return Number.isNaN(number) ? undefined : number
}
