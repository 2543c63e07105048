// The contract of a topic reader, which reads messages of a topic from one offset to another, and leaves no trace.

import type { RawChunk, RawCursor } from './source.ts'

/** The first offset that a partition still has, and the offset of its next message. */
export interface TopicBounds {
  readonly start: number
  readonly end: number
}

/** For tools: it joins no consumer group, commits nothing, and has at most a fetch and a chunk in memory. */
export interface TopicReader {
  /** The topic: `messages`. */
  readonly name: string
  /** Changes when the topic is recreated. */
  readonly id: string
  readonly partitions: number

  /**
   * For every partition. What is below an `end` can be read now: on Kafka, no transaction is open there.
   *
   * @throws LogUnavailableError, SystemicError
   */
  bounds(): Promise<ReadonlyMap<number, TopicBounds>>

  /**
   * The messages of a partition with an offset in `[from, to)`, chunk by chunk: the first begins at `from`, the last one ends at `to`, and each
   * begins where the previous one ended. Only if the log deletes messages meanwhile, or the reader skips some, does a chunk begin later; if nothing
   * else is left there is no chunk. A chunk may have no message, and is of log 0.
   *
   * @param to at most the partition's end
   * @throws LogUnavailableError if the log cannot be read now
   * @throws SystemicError if its content is corrupt, or the topic was recreated
   */
  read(partition: number, from: number, to: number): AsyncIterable<RawChunk>

  close(): Promise<void>
}

/** The chunk without messages at `to` and above. */
export function chunkBelow(chunk: RawChunk, to: number): RawChunk {
  if (chunk.to <= to) return chunk
  const { at, from, byteLength, markers } = chunk
  const below = markers?.filter(marker => marker.from < to).map(marker => ({ ...marker, to: Math.min(marker.to, to) }))
  return { at, from, to, byteLength, ...(below === undefined ? {} : { markers: below }), cursor: () => cursorBelow(chunk.cursor(), to) }
}

function cursorBelow(cursor: RawCursor, to: number): RawCursor {
  return { ...cursor, next: () => cursor.next() && cursor.message.offset < to }
}
