// A writer: one worker in the main thread, with its state, its books and its end.

import type { Logger } from '../config/logger.ts'
import { factOf, type Outages } from '../config/outage.ts'
import type { Sink } from '../sinks/sink.ts'
import type { Transformer } from '../transformers/transformer.ts'
import type { DeadLetters } from './dead-letters.ts'
import { openDecoder } from './decode.ts'
import { openLagWatch } from './lag.ts'
import { openLedger, type PartitionCounts } from './ledger.ts'
import type { PipelineMetrics } from './metrics.ts'
import type { BatchOptions, MessageOptions, SubscriberOptions } from './options.ts'
import { type BackOff, defaultBackOff } from './retry.ts'
import { run, type Watch } from './run.ts'
import type { Source } from './source.ts'
import { subjectFilter } from './subject-filter.ts'

/**
 * Ready is a writer that runs. One that starts has not yet compared the store's positions with the log; one that retries has its log, store or
 * dead letters away; one that failed needs a person.
 */
export type WriterState = 'starting' | 'running' | 'retrying' | 'stopping' | 'stopped' | 'failed'

/** What a writer needs to be there. */
export type WriterDependency = 'log' | 'store' | 'dead_letters'

export interface WriterParts<Encoded> {
  /** `relational`; for log lines. */
  readonly name: string
  /** These four stay the caller's: closed after the writer has stopped, the sink before the source. */
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
  /** How long a stop waits for the store to take what is in flight; what it has not taken then stays in the log. */
  readonly drainMsMax?: number
  /** Told of each change of the state, after it. */
  readonly onStateChange?: () => void
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

export interface Writer {
  state(): WriterState
  /** Why it is retrying or failed; else undefined. */
  failure(): Error | undefined
  /** By partition, what became of the messages since it was opened. */
  counts(): ReadonlyMap<number, PartitionCounts>
  /** For the source's `onLost`. */
  lost(partition: number, messages: number): void
  /** Resolves when it runs for the first time, or was stopped before; rejects with the SystemicError that ended it before. */
  readonly started: Promise<void>
  /** Resolves when it has stopped; rejects with the SystemicError that ended it. */
  readonly done: Promise<void>
  /** Takes no more from the log, stores what was taken, and ends within the time of a drain. Never rejects. */
  stop(): Promise<void>
}

/** @throws RangeError for a subject that can never match */
export function openWriter<Encoded>(parts: WriterParts<Encoded>): Writer {
  const { name, source, sink, transformer, deadLetters, options, metrics, outages, clock } = parts
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
  const stopping = new AbortController()
  const abandoning = new AbortController()
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
      metrics.settled(pending, counts)
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
      if (what !== 'fenced') reports[what].failed(error, { waitMs })
      else logger.warn({ attempt: failures, next_ms: Math.round(waitMs) }, `asking the store again where to go on (${factOf(error)})`)
      failure = error instanceof Error ? error : new Error(String(error))
      if (state === 'starting' || state === 'running') enter('retrying')
    },
    recovered(what) {
      const waited = lag.messages()
      reports.log.recovered(waited)
      // What failed at the last share may fail still: the next write will tell.
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
      await run({ source, decoder, sink, deadLetters, batch: options.batch, backOff, watch }, stopping.signal, abandoning.signal)
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
  // Who watches the state need not wait for the start or the end as well.
  for (const promise of [started.promise, done]) promise.catch(() => undefined)

  return {
    state: () => state,
    failure: () => failure,
    counts: () => ledger.counts(),
    lost(partition, messages) {
      ledger.lost(partition, messages)
      metrics.lost(messages)
      logger.error({ partition, messages }, 'messages were deleted unread')
    },
    started: started.promise,
    done,
    async stop() {
      if (state !== 'stopped' && state !== 'failed') enter('stopping')
      stopping.abort()
      const deadline = setTimeout(() => abandoning.abort(), drainMsMax)
      await done.catch(() => undefined)
      clearTimeout(deadline)
    },
  }
}
