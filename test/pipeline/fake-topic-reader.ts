// A topic reader of the fake log. It passes the conformance suite.

import { chunkBelow, type TopicReader } from '../../pipeline/topic-reader.ts'
import type { FakeLog } from './fake-log.ts'
import { openFakeSource } from './fake-source.ts'
import { positionsOf } from './positions.ts'

export function openFakeTopicReader(log: FakeLog): TopicReader {
  return {
    name: log.name,
    id: log.id,
    partitions: 1,
    bounds: async () => new Map([[0, { start: log.start, end: log.start + log.messages.length }]]),
    async *read(_partition, from, to) {
      let next = Math.max(from, log.start)
      while (next < to) {
        const ending = new AbortController()
        const source = openFakeSource(log, { startAt: async () => positionsOf({ 0: next }), chunkMessagesMax: 3 })
        for await (const chunk of source.chunks(ending.signal)) {
          yield chunkBelow(chunk, to)
          next = chunk.to
          break
        }
        ending.abort()
        // Skip messages that were deleted in the meantime.
        next = Math.max(next, log.start)
      }
    },
    close: async () => undefined,
  }
}
