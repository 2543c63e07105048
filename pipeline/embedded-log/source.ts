// The source of an embedded log: reads chunks from the log's file, and wakes up when the log of the same process commits.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Positions } from '../../sinks/sink.ts'
import type { LogPartition } from '../../transformers/log-partition.ts'
import type { OnStart, RawChunk, Source, StartAt } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import { startOffset } from '../writer/start-offset.ts'
import { openChunkReader } from './chunk.ts'
import { logFailure, only, partition } from './file.ts'
import type { EmbeddedLog } from './log.ts'

export interface EmbeddedSourceOptions {
  /** Must stay open longer than the source. */
  readonly log: EmbeddedLog
  /** Name under which the committed offset is stored; retention waits for it: `relational`. */
  readonly consumer: string
  /** Start positions from a store that keeps them; without it the source resumes at the committed offset. */
  readonly startAt?: StartAt
  /** A chunk ends with the message that reaches this size. */
  readonly chunkBytesMax: number
  readonly chunkMessagesMax: number
  /** As in `ChunkLimits`. */
  readonly damaged?: 'error' | 'dead-letter'
  /** Continue even if the log has deleted unread messages. */
  readonly acceptLost?: boolean
  /** Called with the number of messages that the log deleted unread, each time the source skips some. */
  readonly onLost?: (at: LogPartition, messages: number) => void
}

/** There is one partition and one consumer, so it is never revoked. */
const neverRevoked = new AbortController().signal

export function openEmbeddedSource(options: EmbeddedSourceOptions): Source {
  const { log, consumer, damaged = 'error' } = options
  const { file } = log
  const { database } = file
  const reader = openChunkReader(file, { bytesMax: options.chunkBytesMax, messagesMax: options.chunkMessagesMax, damaged })
  const committed = database.prepare('SELECT committed FROM consumers WHERE name = ?')
  const advance = database.prepare('UPDATE consumers SET committed = ? WHERE name = ? AND committed < ?')
  const goBack = database.prepare('UPDATE consumers SET committed = ? WHERE name = ?')
  const registered = database.prepare('INSERT INTO consumers (name, committed) VALUES (?, ?) ON CONFLICT DO NOTHING')
  registered.run(consumer, file.start)
  const closing = new AbortController()

  /** The position to resume from; queries the store on each call. */
  async function position(): Promise<{ from: number; next: number }> {
    const stored = (await options.startAt?.([only]))?.get(only)
    const row = committed.get(consumer) as { committed: number } | undefined
    const { from, next, lost } = startOffset({
      log: log.name,
      partition,
      stored,
      committed: options.startAt === undefined ? row?.committed : undefined,
      start: file.start,
      end: file.end,
      acceptLost: options.acceptLost ?? false,
    })
    if (lost > 0) options.onLost?.(only, lost)
    // A store that lost its last writes goes back, so retention must not delete messages that it must read again.
    if (row !== undefined && from < row.committed) goBack.run(from, consumer)
    return { from, next }
  }

  async function guarded<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      throw logFailure(error, file)
    }
  }

  /** Resolves at the next commit with messages, or when `signal` aborts. */
  function appended(signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const wake = (): void => {
        forget()
        signal.removeEventListener('abort', wake)
        resolve()
      }
      const forget = log.onAppend(wake)
      signal.addEventListener('abort', wake)
    })
  }

  return {
    async *chunks(signal: AbortSignal, onStart?: OnStart): AsyncGenerator<RawChunk> {
      const stop = AbortSignal.any([signal, closing.signal])
      if (stop.aborted) return
      let { from, next } = await guarded(position)
      onStart?.(new Map([[only, from]]), neverRevoked, new Map([[only, file.end]]))
      while (!stop.aborted) {
        const chunk = await guarded(async () => reader.read(from, next))
        if (chunk === undefined) {
          await appended(stop)
          continue
        }
        from = chunk.to
        next = chunk.to
        yield chunk
        // A long catch-up never waits for I/O, so this lets HTTP in the same process run after each chunk.
        await nextTurn()
      }
    },

    ends: async () => new Map([[only, file.end]]),

    async commit(positions: Positions) {
      const offset = positions.get(only)
      if (offset === undefined) return
      if (offset > file.end) {
        throw new SystemicError(
          `consumer ${consumer} commits offset ${offset} of the log ${log.name}, which ends at ${file.end}: check which log its store belongs to`,
        )
      }
      await guarded(async () => void advance.run(offset, consumer, offset))
    },

    async close() {
      closing.abort()
    },
  }
}
