// The contract of a topic reader: looks at messages that are in a topic, from one offset to another, and leaves no trace of it.

import type { RawCursor, RawRun } from './source.ts'

/** The first offset that a partition still holds, and the one that its next message will get. */
export interface TopicBounds {
  readonly start: number
  readonly end: number
}

/** For tools: it joins no consumer group, commits nothing, and holds no more than a fetch and a run in memory. */
export interface TopicReader {
  /** The topic: `messages`. */
  readonly name: string
  /** Changes when the topic is made anew. */
  readonly id: string
  readonly partitions: number

  /**
   * Of every partition. What lies below an `end` can be read now: on Kafka, no transaction is open there.
   *
   * @throws LogUnavailableError, SystemicError
   */
  bounds(): Promise<ReadonlyMap<number, TopicBounds>>

  /**
   * The messages of a partition with an offset in `[from, to)`, run after run: the first begins at `from`, the last one ends at `to`,
   * and each begins where the one before ended. Only where the log deletes messages while it is being read a run begins later, and where
   * it deleted all that are left there is none. A run may hold no message.
   *
   * @param to at most the partition's end
   * @throws LogUnavailableError when the log cannot be read now
   * @throws SystemicError where what it holds is corrupt, or the topic is another one by now
   */
  read(partition: number, from: number, to: number): AsyncIterable<RawRun>

  close(): Promise<void>
}

/** The run without what lies at `to` and above. */
export function runBelow(run: RawRun, to: number): RawRun {
  if (run.to <= to) return run
  const { partition, from, byteLength } = run
  return { partition, from, to, byteLength, cursor: () => cursorBelow(run.cursor(), to) }
}

function cursorBelow(cursor: RawCursor, to: number): RawCursor {
  const { message } = cursor
  return { message, next: () => cursor.next() && message.offset < to, key: () => cursor.key(), headers: () => cursor.headers() }
}
