// A topic reader of the fake log. It passes the conformance suite.

import { runBelow, type TopicReader } from '../../pipeline/topic-reader.ts'
import type { FakeLog } from './fake-log.ts'
import { openFakeSource } from './fake-source.ts'

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
        const source = openFakeSource(log, { startAt: async () => new Map([[0, next]]), runMessagesMax: 3 })
        for await (const run of source.runs(ending.signal)) {
          yield runBelow(run, to)
          next = run.to
          break
        }
        ending.abort()
        // What was deleted meanwhile is passed over.
        next = Math.max(next, log.start)
      }
    },
    close: async () => undefined,
  }
}
