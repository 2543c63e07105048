// The newest messages of the log, decoded for people: few of them, with few records and short texts.

import type { RawMessage } from '../pipeline/source.ts'
import type { TopicReader } from '../pipeline/topic-reader.ts'
import type { Decoder } from '../pipeline/writer/decode.ts'
import { logPartition } from '../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../transformers/record-batch.ts'

/** The only one of an embedded log. */
const partition = 0
const messagesMax = 20
const recordsMax = 5
const textCharactersMax = 200
/** Payloads that are decoded for one event, besides that of the newest message; messages beyond it are left out. */
const payloadBytesMax = 256 * 1024

export interface NewestMessage {
  readonly id: string
  /** Seconds since 1970. */
  readonly time: number
  readonly channel: string
  readonly publisher: string
  readonly subtopic: string
  readonly protocol: string
  /** The first ones: `{"Name": "t", "Unit": "Cel", "Time": …, "Value": 1}`, and `{"Payload": "{\"tmp\":1}"}` for JSON documents. */
  readonly records: readonly object[]
  /** How many records there are besides. */
  readonly more: number
  /** Why it becomes a dead letter. */
  readonly rule?: string
}

/**
 * @param idOf the id of a message by its offset
 * @returns a function that reads the newest messages with an offset in `[from, to)`, newest first
 */
export function openNewest(reader: TopicReader, decoder: Decoder, idOf: (offset: number) => string) {
  return async (from: number, to: number): Promise<NewestMessage[]> => {
    const messages: RawMessage[] = []
    for await (const chunk of reader.read(partition, Math.max(from, to - messagesMax), to)) {
      const cursor = chunk.cursor()
      while (cursor.next()) messages.push({ ...cursor.message })
    }
    const newest: NewestMessage[] = []
    let bytes = 0
    for (const message of messages.toReversed()) {
      bytes += message.payload.byteLength
      if (newest.length > 0 && bytes > payloadBytesMax) break
      newest.push(shown(message, decoder, idOf(message.offset)))
    }
    return newest
  }
}

function shown(message: RawMessage, decoder: Decoder, id: string): NewestMessage {
  const batch = new RecordBatch(recordsMax)
  const rejection = decoder.decode(message, logPartition(0, partition), batch)
  const { channel, publisher, subtopic, protocol, createdUs } = message
  const records = recordsOf(batch, message.payload)
  return {
    id,
    time: createdUs / 1e6,
    channel: shortened(channel),
    publisher: shortened(publisher),
    subtopic: shortened(subtopic),
    protocol: shortened(protocol),
    records,
    more: batch.rowCount - records.length,
    ...(rejection === undefined ? {} : { rule: rejection.rule }),
  }
}

function recordsOf({ records, documents }: RecordBatch, payload: Uint8Array): object[] {
  if (documents.length > 0) return [{ Payload: shortened(Buffer.from(payload.subarray(0, textCharactersMax + 1)).toString()) }]
  return Array.from({ length: Math.min(records.length, recordsMax) }, (_, at) => {
    const unit = records.unit[at]
    const sum = records.sum[at]!
    return {
      Name: shortened(records.name[at]!),
      ...(unit === undefined ? {} : { Unit: shortened(unit) }),
      Time: records.timeUs[at]! / 1e6,
      ...valueOf(records.valueKind[at]!, records.number[at]!, records.content[at]),
      ...(Number.isNaN(sum) ? {} : { Sum: sum }),
    }
  })
}

function valueOf(kind: number, number: number, content: string | Uint8Array | undefined): object {
  if (kind === ValueKind.number) return { Value: number }
  if (kind === ValueKind.boolean) return { BoolValue: number === 1 }
  if (kind === ValueKind.string) return { StringValue: shortened(content as string) }
  if (kind === ValueKind.data)
    return {
      DataValue: shortened(
        Buffer.from(content as Uint8Array)
          .subarray(0, textCharactersMax)
          .toString('base64'),
      ),
    }
  return {}
}

/** Not cut in the middle of a surrogate pair. */
function shortened(text: string): string {
  return text.length <= textCharactersMax ? text : `${text.slice(0, textCharactersMax).replace(/[\ud800-\udbff]$/, '')}…`
}
