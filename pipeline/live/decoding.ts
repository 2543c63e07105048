// Decodes messages as a writer does, each once for all who follow its channel: those that were used last are kept.

import { RecordBatch } from '../../transformers/record-batch.ts'
import { type DecoderOptions, openDecoder } from '../decode.ts'
import type { RawMessage } from '../source.ts'
import type { LiveMessage } from './messages.ts'

export interface Decoding {
  /** @returns the message without rows where there is nothing to give out: it is empty, undecodable, or not subscribed to */
  decode(message: RawMessage, partition: number): LiveMessage
  /** A message that was decoded before, where it is still kept. */
  kept(partition: number, offset: number): LiveMessage | undefined
}

/** Of half of the messages that are kept, with what readers make of them. One message is kept whatever its size. */
const generationBytesMax = 16 * 1024 * 1024
/** Few, since small messages that outlive a garbage collection cost more than to decode them again. */
const generationMessagesMax = 64
/** Columns begin with room for a few rows, since most messages have no more. */
const initialRows = 8
const messageBytes = 4096
/** A row in the columns, as an object, and as JSON without its texts. */
const rowBytes = 500
/** A payload of documents as a tree, twice, and as text. */
const bytesPerPayloadByte = 8

interface Kept {
  readonly message: LiveMessage
  readonly bytes: number
}

export function openDecoding(options: DecoderOptions): Decoding {
  const decoder = openDecoder(options)
  // Two generations: when the younger one is full the older one goes, with what was not used since.
  let young = new Map<string, Kept>()
  let old = young
  let youngBytes = 0

  function kept(partition: number, offset: number): LiveMessage | undefined {
    const key = `${partition} ${offset}`
    let found = young.get(key)
    if (found === undefined) {
      found = old.get(key)
      if (found === undefined) return undefined
      keep(key, found)
    }
    return found.message
  }

  function keep(key: string, message: Kept): void {
    if (youngBytes + message.bytes > generationBytesMax || young.size >= generationMessagesMax) {
      old = young
      young = new Map()
      youngBytes = 0
    }
    young.set(key, message)
    youngBytes += message.bytes
  }

  return {
    kept,
    decode(raw, partition) {
      const found = kept(partition, raw.offset)
      if (found !== undefined) return found
      const batch = new RecordBatch(initialRows)
      // A rejection leaves no rows, and its dead letter is the writer's to write.
      decoder.decode(raw, partition, batch)
      const message = { batch, partition, offset: raw.offset }
      keep(`${partition} ${raw.offset}`, { message, bytes: bytesOf(batch, raw) })
      return message
    },
  }
}

/** About what it takes in memory. */
function bytesOf({ rowCount, records }: RecordBatch, { channel, subtopic, publisher, protocol, payload }: RawMessage): number {
  let names = 0
  for (let at = 0; at < records.length; at++) names += records.name[at]!.length
  const row = rowBytes + channel.length + subtopic.length + publisher.length + protocol.length
  // A name is kept twice: in its column, and in the JSON.
  return messageBytes + rowCount * row + 2 * names + payload.byteLength * bytesPerPayloadByte
}
