// Which tables can be asked for one publisher's rows by the index that the sink makes.
//
// Whether there is one is found out by asking: a cluster may know no such index, a writer may not be allowed to make it, and nodes that are
// still making it refuse to look by it. Those tables are walked, and asked again after a while.

import type { Direction } from '../query.ts'
import type { Source } from './source.ts'

const askAgainMs = 60_000
const missingMax = 10_000
/** Nodes leave texts that are longer than a limit of theirs out of an index, by default 8 KiB: well below it none is missing. */
const publisherBytesMax = 1_024

export interface PublisherIndex {
  /** Whether to ask by it: what is found by an index comes newest first, and in no other order. */
  isThere(source: Source, publisher: string, direction: Direction): boolean
  /** It was asked for, and the store could not look by it. */
  miss(source: Source): void
}

/** @param nowMs of a clock that only goes forward */
export function openPublisherIndex(nowMs: () => number = () => performance.now()): PublisherIndex {
  /** By table, until when it is not asked again. */
  const missing = new Map<string, number>()
  return {
    isThere({ table }, publisher, direction) {
      if (direction === 'asc' || Buffer.byteLength(publisher) > publisherBytesMax) return false
      const untilMs = missing.get(table)
      return untilMs === undefined || nowMs() >= untilMs
    },
    miss({ table }) {
      if (missing.size >= missingMax) missing.clear()
      missing.set(table, nowMs() + askAgainMs)
    },
  }
}
