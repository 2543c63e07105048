// The source of an embedded log: runs out of the log's file, awake as soon as the log of the same process commits.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Positions } from '../../sinks/sink.ts'
import type { OnStart, RawRun, Source, StartAt } from '../source.ts'
import { startOffset } from '../start-offset.ts'
import { SystemicError } from '../systemic-error.ts'
import { logFailure, partition } from './file.ts'
import type { EmbeddedLog } from './log.ts'
import { openRunReader } from './run.ts'

export interface EmbeddedSourceOptions {
  /** Open for longer than the source. */
  readonly log: EmbeddedLog
  /** Its committed offset is kept under this name, and retention waits for it: `relational`. */
  readonly consumer: string
  /** Of a store that keeps its positions itself; without it the committed offset is the place to go on. */
  readonly startAt?: StartAt
  /** A run ends with the message that reaches this. */
  readonly runBytesMax: number
  readonly runMessagesMax: number
  /** As in `RunLimits`. */
  readonly damaged?: 'error' | 'dead-letter'
  /** Go on although the log deleted messages unread. */
  readonly acceptLost?: boolean
  /** Told how many messages the log deleted unread, once for each time that the source goes on behind them. */
  readonly onLost?: (partition: number, messages: number) => void
}

/** There is one partition, and one who reads it. */
const neverRevoked = new AbortController().signal

export function openEmbeddedSource(options: EmbeddedSourceOptions): Source {
  const { log, consumer, damaged = 'error' } = options
  const { file } = log
  const { database } = file
  const reader = openRunReader(file, { bytesMax: options.runBytesMax, messagesMax: options.runMessagesMax, damaged })
  const committed = database.prepare('SELECT committed FROM consumers WHERE name = ?')
  const advance = database.prepare('UPDATE consumers SET committed = ? WHERE name = ? AND committed < ?')
  const goBack = database.prepare('UPDATE consumers SET committed = ? WHERE name = ?')
  const registered = database.prepare('INSERT INTO consumers (name, committed) VALUES (?, ?) ON CONFLICT DO NOTHING')
  registered.run(consumer, file.start)
  const closing = new AbortController()

  /** Where to go on: asked of the store at each call. */
  async function position(): Promise<{ from: number; next: number }> {
    const stored = (await options.startAt?.([partition]))?.get(partition)
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
    if (lost > 0) options.onLost?.(partition, lost)
    // A store that lost its last writes goes back, and retention must not delete what it has yet to read.
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

  /** Resolves at the next commit that brings messages, or when `signal` aborts. */
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
    async *runs(signal: AbortSignal, onStart?: OnStart): AsyncGenerator<RawRun> {
      const ending = AbortSignal.any([signal, closing.signal])
      if (ending.aborted) return
      let { from, next } = await guarded(position)
      onStart?.(new Map([[partition, from]]), neverRevoked, new Map([[partition, file.end]]))
      while (!ending.aborted) {
        const run = await guarded(async () => reader.read(from, next))
        if (run === undefined) {
          await appended(ending)
          continue
        }
        from = run.to
        next = run.to
        yield run
        // A long catch-up is work without waiting; HTTP in the same process has its turn after each run.
        await nextTurn()
      }
    },

    async bounds(asked) {
      if (asked !== partition) throw new RangeError(`the log ${log.name} has the partition ${partition} only, not ${asked}`)
      return { start: file.start, end: file.end }
    },

    ends: async () => new Map([[partition, file.end]]),

    async commit(positions: Positions) {
      const offset = positions.get(partition)
      if (offset === undefined) return
      if (offset > file.end) {
        throw new SystemicError(
          `consumer ${consumer} commits offset ${offset} of the log ${log.name}, which ends at ${file.end}: look which log its store belongs to`,
        )
      }
      await guarded(async () => void advance.run(offset, consumer, offset))
    },

    async close() {
      closing.abort()
    },
  }
}
