// The messages of followed channels, each once for all followers: copied from the log, and decoded like a writer does when the first of them asks for rows.
// The most recently used ones are kept.

import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import type { RawCursor, RawMessage } from '../source.ts'
import { type DecoderOptions, openDecoder } from '../writer/decode.ts'
import type { LiveMessage } from './messages.ts'

export interface Decoding {
  /** The message that the cursor has moved to. */
  messageOf(cursor: Pick<RawCursor, 'message' | 'isRetained'>, partition: number): LiveMessage
  /** A message that was asked for before, if it is still kept. */
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
  bytes: number
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

  function keep(key: string, message: LiveMessage, size: number): void {
    messages.set(key, { message, bytes: size })
    bytes += size
    drop(message)
  }

  /** Its rows, which now exist as well. */
  function grow(key: string, message: LiveMessage, size: number): void {
    const own = messages.get(key)
    if (own?.message !== message) return
    own.bytes += size
    bytes += size
    drop(message)
  }

  function drop(latest: LiveMessage): void {
    for (const [oldest, { message, bytes: freed }] of messages) {
      if (bytes <= keptBytesMax && messages.size <= keptMessagesMax) return
      if (message === latest) continue
      messages.delete(oldest)
      bytes -= freed
    }
  }

  return {
    kept,
    messageOf(cursor, partition) {
      const { message: raw } = cursor
      const found = kept(partition, raw.offset)
      if (found !== undefined) return found
      const key = `${partition} ${raw.offset}`
      let batch: RecordBatch | undefined
      const message: LiveMessage = {
        partition,
        offset: raw.offset,
        raw: { ...raw, payload: Uint8Array.from(raw.payload) },
        isRetained: cursor.isRetained?.() === true,
        made: [],
        get batch() {
          if (batch === undefined) {
            batch = new RecordBatch(initialRows)
            // A rejected message has no rows; the writer writes its dead letter.
            decoder.decode(message.raw, logPartition(0, partition), batch)
            grow(key, message, decodedBytesOf(batch, message.raw))
          }
          return batch
        },
      }
      keep(key, message, messageBytes + raw.payload.byteLength)
      return message
    },
  }
}

/** The estimated memory of its rows. */
function decodedBytesOf({ rowCount, records }: RecordBatch, { channel, subtopic, publisher, protocol, payload }: RawMessage): number {
  let names = 0
  for (let at = 0; at < records.length; at++) names += records.name[at]!.length
  const row = rowBytes + channel.length + subtopic.length + publisher.length + protocol.length
  // A name is stored twice: in its column, and in the JSON.
  return rowCount * row + 2 * names + payload.byteLength * (bytesPerPayloadByte - 1)
}
