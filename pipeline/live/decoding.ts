// Decodes messages like a writer, each once for all followers of its channel; the most recently used ones are kept.

import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import type { RawMessage } from '../source.ts'
import { type DecoderOptions, openDecoder } from '../writer/decode.ts'
import type { LiveMessage } from './messages.ts'

export interface Decoding {
  /** @returns the message, without rows if it is empty, undecodable, or not subscribed to */
  decode(message: RawMessage, partition: number): LiveMessage
  /** A message that was decoded before, if it is still kept. */
  kept(partition: number, offset: number): LiveMessage | undefined
}

/** For kept messages, with what readers derive from them. One message is kept whatever its size. */
const keptBytesMax = 32 * 1024 * 1024
/** Few, since small messages that survive a garbage collection cost more than decoding them again. */
const keptMessagesMax = 128
/** Columns start with room for a few rows, since most messages have no more. */
const initialRows = 8
const messageBytes = 4096
/** The estimated memory of a row in the columns, as an object, and as JSON without its texts. */
const rowBytes = 500
/** For a payload of documents as a tree, twice, and as text. */
const bytesPerPayloadByte = 8

interface Kept {
  readonly message: LiveMessage
  readonly bytes: number
}

export function openDecoding(options: DecoderOptions): Decoding {
  const decoder = openDecoder(options)
  /** Ordered by their last use. */
  const messages = new Map<string, Kept>()
  let bytes = 0

  function kept(partition: number, offset: number): LiveMessage | undefined {
    const key = `${partition} ${offset}`
    const found = messages.get(key)
    if (found === undefined) return undefined
    messages.delete(key)
    messages.set(key, found)
    return found.message
  }

  function keep(key: string, message: Kept): void {
    bytes += message.bytes
    for (const [oldest, { bytes: freed }] of messages) {
      if (bytes <= keptBytesMax && messages.size < keptMessagesMax) break
      messages.delete(oldest)
      bytes -= freed
    }
    messages.set(key, message)
  }

  return {
    kept,
    decode(raw, partition) {
      const found = kept(partition, raw.offset)
      if (found !== undefined) return found
      const batch = new RecordBatch(initialRows)
      // A rejected message has no rows; the writer writes its dead letter.
      decoder.decode(raw, logPartition(0, partition), batch)
      const message = { batch, partition, offset: raw.offset }
      keep(`${partition} ${raw.offset}`, { message, bytes: bytesOf(batch, raw) })
      return message
    },
  }
}

/** Its estimated memory. */
function bytesOf({ rowCount, records }: RecordBatch, { channel, subtopic, publisher, protocol, payload }: RawMessage): number {
  let names = 0
  for (let at = 0; at < records.length; at++) names += records.name[at]!.length
  const row = rowBytes + channel.length + subtopic.length + publisher.length + protocol.length
  // A name is stored twice: in its column, and in the JSON.
  return messageBytes + rowCount * row + 2 * names + payload.byteLength * bytesPerPayloadByte
}
