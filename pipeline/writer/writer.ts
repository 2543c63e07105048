// A writer: one worker in the main thread, with its state, its ledger and its shutdown.

import type { Logger } from '../../config/logger.ts'
import { factOf, type Outages } from '../../config/outage.ts'
import type { Sink } from '../../sinks/sink.ts'
import { type LogPartition, logOf, partitionOf } from '../../transformers/log-partition.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import type { BatchOptions, MessageOptions, SubscriberOptions } from '../options.ts'
import type { Source } from '../source.ts'
import type { DeadLetters } from './dead-letters.ts'
import { openDecoder } from './decode.ts'
import { openLagWatch } from './lag.ts'
import { openLedger, type PartitionCounts } from './ledger.ts'
import { run, type Watch } from './loop.ts'
import type { PipelineMetrics } from './metrics.ts'
import { type BackOff, defaultBackOff } from './retry.ts'
import { subjectFilter } from './subject-filter.ts'

/**
 * A writer is ready while it runs. While it starts, it has not yet compared the store's positions with the log; while it retries, its log, store or
 * dead letters are down; once it has failed, it needs a person.
 */
export type WriterState = 'starting' | 'running' | 'retrying' | 'stopping' | 'stopped' | 'failed'

/** What a writer depends on. */
export type WriterDependency = 'log' | 'store' | 'dead_letters'

export interface WriterParts<Encoded> {
  /** `relational`; for log lines. */
  readonly name: string
  /** The names of its logs, by their index. */
  readonly topics: readonly string[]
  /** The caller closes these four after the writer has stopped, the sink before the source. */
  readonly source: Source
  readonly sink: Sink<Encoded>
  readonly transformer: Transformer
  readonly deadLetters: DeadLetters
  readonly options: { readonly batch: BatchOptions; readonly message: MessageOptions; readonly subscriber: SubscriberOptions }
  readonly metrics: PipelineMetrics
  /** Several writers of a process may share them. */
  readonly outages: Outages<WriterDependency>
  readonly logger: Logger
  readonly backOff?: BackOff
  /** How long a stop waits for the store to accept what is in flight; the rest stays in the log. */
  readonly drainMsMax?: number
  /** Called after each change of the state. */
  readonly onStateChange?: () => void
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

export interface Writer {
  state(): WriterState
  /** Why it is retrying or failed; otherwise undefined. */
  failure(): Error | undefined
  /** The partitions of the present share. */
  held(): LogPartition[]
  /** By log and partition, what became of the messages since it was opened. */
  counts(): ReadonlyMap<LogPartition, PartitionCounts>
  /** For the source's `onLost`. */
  lost(at: LogPartition, messages: number): void
  /** Resolves when it runs for the first time, or was stopped before; rejects with the SystemicError that ended it before. */
  readonly started: Promise<void>
  /** Resolves when it has stopped; rejects with the SystemicError that ended it. */
  readonly done: Promise<void>
  /** Takes no more from the log, stores what was taken, and ends within the drain time. Never rejects. */
  stop(): Promise<void>
  /** Ends as a crash would: what was taken and is not stored yet stays in the log. Never rejects. */
  abort(): Promise<void>
}

/** @throws RangeError for a subject that can never match */
export function openWriter<Encoded>(parts: WriterParts<Encoded>): Writer {
  const { name, topics, source, sink, transformer, deadLetters, options, metrics, outages, clock } = parts
  const { backOff = defaultBackOff, drainMsMax = 4000 } = parts
  const logger = parts.logger.child({ writer: name })
  const decoder = openDecoder({
    transformer,
    subscribed: subjectFilter(options.subscriber.subjects),
    message: options.message,
    ...(clock === undefined ? {} : { clock }),
  })
  const ledger = openLedger()
  const lag = openLagWatch(source, lags => metrics.lagging(lags), logger)
  const reports = { log: outages.report('log'), store: outages.report('store'), 'dead letters': outages.report('dead_letters') }
  const stop = new AbortController()
  const abort = new AbortController()
  const started = Promise.withResolvers<void>()
  let state: WriterState = 'starting'
  let failure: Error | undefined

  function enter(next: WriterState): void {
    state = next
    parts.onStateChange?.()
  }

  const watch: Watch = {
    assigned: (...of) => lag.assigned(...of),
    started: (...of) => lag.started(...of),
    taken(pending) {
      ledger.taken(pending.batch)
      lag.taken(pending)
      metrics.taken(pending)
    },
    settled(pending, counts) {
      ledger.settled(pending.batch, counts)
      lag.settled(pending)
      metrics.settled(pending, counts, sink.unnumbered?.())
    },
    dropped() {
      ledger.dropped()
      lag.dropped()
      metrics.dropped()
    },
    deadLettered(rejections, stage) {
      const rules = new Set<string>()
      for (const { rule } of rejections) {
        metrics.deadLettered(rule, stage)
        rules.add(rule)
      }
      logger.warn({ stage, messages: rejections.length, rules: [...rules] }, 'messages dead-lettered')
    },
    failed(error, what, failures, waitMs) {
      metrics.failed(what)
      if (what !== 'fenced' && what !== 'stale') reports[what].failed(error, { waitMs })
      else logger.warn({ attempt: failures, next_ms: Math.round(waitMs) }, `reading the offsets of the store again (${factOf(error)})`)
      failure = error instanceof Error ? error : new Error(String(error))
      if (state === 'starting' || state === 'running') enter('retrying')
    },
    recovered(what) {
      const waited = lag.messages()
      reports.log.recovered(waited)
      // What failed in the last share may still fail: the next write shows it.
      for (const report of [reports.store, reports['dead letters']]) {
        if (what === 'all' || (report === reports.store && sink.positions !== undefined)) report.recovered(waited)
        else report.close()
      }
      failure = undefined
      if (state === 'retrying') enter('running')
    },
    began() {
      if (state === 'starting') enter('running')
      started.resolve()
    },
  }

  async function work(): Promise<void> {
    try {
      await run({ source, decoder, sink, deadLetters, batch: options.batch, backOff, watch }, stop.signal, abort.signal)
      enter('stopped')
      started.resolve()
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error))
      enter('failed')
      metrics.failed('writer')
      started.reject(error)
      throw error
    } finally {
      lag.close()
      for (const report of Object.values(reports)) report.close()
    }
  }

  const done = work()
  // A caller that watches the state need not handle the promises as well.
  for (const promise of [started.promise, done]) promise.catch(() => undefined)

  return {
    state: () => state,
    failure: () => failure,
    held: () => lag.held(),
    counts: () => ledger.counts(),
    lost(at, messages) {
      ledger.lost(at, messages)
      metrics.lost(messages)
      logger.error({ topic: topics[logOf(at)], partition: partitionOf(at), messages }, 'messages were deleted unread, or skipped')
    },
    started: started.promise,
    done,
    async stop() {
      if (state !== 'stopped' && state !== 'failed') enter('stopping')
      stop.abort()
      const deadline = setTimeout(() => abort.abort(), drainMsMax)
      await done.catch(() => undefined)
      clearTimeout(deadline)
    },
    async abort() {
      if (state !== 'stopped' && state !== 'failed') enter('stopping')
      stop.abort()
      abort.abort()
      await done.catch(() => undefined)
    },
  }
}
