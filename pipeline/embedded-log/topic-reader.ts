// The topic reader of an embedded log: reads chunks from the log's file, in the process that has it open.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { chunkBelow, type TopicReader } from '../topic-reader.ts'
import { openChunkReader } from './chunk.ts'
import { logFailure, partition } from './file.ts'
import type { EmbeddedLog } from './log.ts'

const limits = { bytesMax: 1024 * 1024, messagesMax: 1000 }

/**
 * @param log owned by the caller; must stay open longer than the reader
 * @param damaged as in `ChunkLimits`
 */
export function openEmbeddedTopicReader(
  log: Pick<EmbeddedLog, 'name' | 'id' | 'file'>,
  damaged: 'error' | 'dead-letter' = 'error',
): TopicReader {
  const { file } = log
  const reader = openChunkReader(file, { ...limits, damaged })
  return {
    name: log.name,
    id: log.id,
    partitions: 1,
    bounds: async () => new Map([[partition, { start: file.start, end: file.end }]]),
    async *read(asked, from, to) {
      if (asked !== partition) throw new RangeError(`the log ${log.name} has only the partition ${partition}, not ${asked}`)
      let next = from
      while (next < to) {
        // Lets publishes to the same process run between chunks.
        if (next > from) await nextTurn()
        // Skip messages that were deleted in the meantime.
        if (next < file.start) next = Math.min(file.start, to)
        let chunk: ReturnType<typeof reader.read>
        try {
          chunk = next < to ? reader.read(next, next, to) : undefined
        } catch (error) {
          throw logFailure(error, file)
        }
        if (chunk === undefined) return
        yield chunkBelow(chunk, to)
        next = chunk.to
      }
    },
    close: async () => undefined,
  }
}
