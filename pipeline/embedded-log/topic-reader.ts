// The topic reader of an embedded log: runs out of the log's file, in the process that has it open.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { runBelow, type TopicReader } from '../topic-reader.ts'
import { logFailure, partition } from './file.ts'
import type { EmbeddedLog } from './log.ts'
import { openRunReader } from './run.ts'

const limits = { bytesMax: 1024 * 1024, messagesMax: 1000 }

/**
 * @param log stays the caller's, and is open for longer than its reader
 * @param damaged as in `RunLimits`
 */
export function openEmbeddedTopicReader(log: EmbeddedLog, damaged: 'error' | 'dead-letter' = 'error'): TopicReader {
  const { file } = log
  const reader = openRunReader(file, { ...limits, damaged })
  return {
    name: log.name,
    id: log.id,
    partitions: 1,
    bounds: async () => new Map([[partition, { start: file.start, end: file.end }]]),
    async *read(asked, from, to) {
      if (asked !== partition) throw new RangeError(`the log ${log.name} has the partition ${partition} only, not ${asked}`)
      let next = from
      while (next < to) {
        // Who publishes to the same process has a turn between runs.
        if (next > from) await nextTurn()
        // What was deleted meanwhile is passed over.
        if (next < file.start) next = Math.min(file.start, to)
        let run: ReturnType<typeof reader.read>
        try {
          run = next < to ? reader.read(next, next) : undefined
        } catch (error) {
          throw logFailure(error, file)
        }
        if (run === undefined) return
        yield runBelow(run, to)
        next = run.to
      }
    },
    close: async () => undefined,
  }
}
