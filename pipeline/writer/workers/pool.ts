// The pool of a writer's workers: threads that share nothing. The main thread starts, restarts and stops them.
//
//   starting ──► working ──► stopped          the pool was stopped
//      ▲            │
//      └── waiting ◄┤                         the thread died, or was terminated for being silent: restarted after a wait that
//                   │                         doubles with each death, until a worker has worked
//                   └──► systemic             a systemic error: the whole pool stops with it

import type { Logger } from '../../../config/logger.ts'
import type { Outages } from '../../../config/outage.ts'
import type { LogPartition } from '../../../transformers/log-partition.ts'
import { SystemicError } from '../../systemic-error.ts'
import type { PartitionCounts } from '../ledger.ts'
import { type BackOff, defaultBackOff, waitBefore } from '../retry.ts'
import type { WriterDependency, WriterState } from '../writer.ts'
import { arrived, type Metrics, type StopWorker, type WorkerEnd, type WorkerOutage, type WorkerReport } from './messages.ts'
import { openWorkerOutages } from './outages.ts'
import { addCounts, keepCounters, textOfMetrics, withoutInFlight } from './sums.ts'

/** For a worker's reports, of which one is due each second. */
interface LivenessLimits {
  /** How often reports are checked. */
  readonly lookMs: number
  /** A worker that was silent for longer is not ready. */
  readonly readyMsMax: number
  /** A worker that was silent for longer is terminated, and replaced by a new one. */
  readonly aliveMsMax: number
}

/**
 * Reports come from a thread's event loop, like its heartbeats to the group: silent for the 10 s of a session, it has lost its share of the log to
 * others, and counts as not ready. It is terminated only after being silent for much longer. A healthy worker is silent for some seconds at most, for
 * a batch that expands to 64 MiB; on a machine with ten times as many threads as cores that takes most of a minute.
 */
const defaultLiveness: LivenessLimits = { lookMs: 1_000, readyMsMax: 10_000, aliveMsMax: 60_000 }

/** The part of a thread that the pool uses: of a `Worker`, or of one that runs in the main thread. */
export interface WorkerThread {
  on(event: 'message', listener: (message: WorkerReport | WorkerOutage | WorkerEnd) => void): unknown
  on(event: 'error', listener: (error: unknown) => void): unknown
  on(event: 'exit', listener: (code: number) => void): unknown
  postMessage(message: StopWorker): void
  terminate(): Promise<number>
}

export interface WorkerPoolOptions {
  readonly count: number
  /** Starts the thread of a worker, whose file calls `serveWorker`. */
  readonly start: (worker: number) => WorkerThread
  /** The outages of all workers, combined. */
  readonly outages: Outages<WriterDependency>
  readonly logger: Logger
  readonly backOff?: BackOff
  /** How long a stop waits for the workers; those still working are then terminated, and what they had not stored stays in the log. */
  readonly stopMsMax?: number
  readonly liveness?: LivenessLimits
}

export interface WorkerPool {
  /** `running` if every worker is. */
  state(): WriterState
  /** Why a worker is not running, if it reported that. */
  failure(): Error | undefined
  /** By log and partition, what became of the messages since the pool was opened. Up to a second old. */
  counts(): ReadonlyMap<LogPartition, PartitionCounts>
  /** The partitions that workers have. Up to a second old. */
  held(): ReadonlySet<LogPartition>
  /** The metrics of all workers, and these, as one, in the text form of Prometheus. Those of workers are up to a second old. */
  metrics(more?: Metrics): Promise<string>
  /** Resolves when every worker runs for the first time. */
  readonly started: Promise<void>
  /** Resolves when the pool has stopped; rejects with the SystemicError that ended it. */
  readonly done: Promise<void>
  /** Lets each worker store what it has taken, and starts its thread again: `start` has other settings now. */
  restart(): void
  /** Lets each worker store what it has taken, and ends the threads. Never rejects. */
  stop(): Promise<void>
}

interface Slot {
  readonly number: number
  thread: WorkerThread | undefined
  report: WorkerReport | undefined
  /** It stops to be started again. */
  isRestarting: boolean
  /** Why the thread is gone. */
  failure: Error | undefined
  /** Since the last report, or the start. */
  silentMs: number
  beganMs: number
  /** Consecutive deaths of workers that had not worked. */
  deaths: number
  restart: NodeJS.Timeout | undefined
}

export function openWorkerPool(options: WorkerPoolOptions): WorkerPool {
  const { count, start, outages, logger, backOff = defaultBackOff, stopMsMax = 4500, liveness = defaultLiveness } = options
  const slots: Slot[] = Array.from({ length: count }, (_, number) => ({
    number,
    thread: undefined,
    report: undefined,
    isRestarting: false,
    failure: undefined,
    silentMs: 0,
    beganMs: 0,
    deaths: 0,
    restart: undefined,
  }))
  /** The counts of threads that are gone. */
  const goneCounts = new Map<LogPartition, PartitionCounts>()
  let goneMetrics: Promise<Metrics> = Promise.resolve([])
  let isStopped = false
  let systemic: SystemicError | undefined
  let deadline: NodeJS.Timeout | undefined
  const started = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  // A caller that watches the state need not handle the promise as well.
  ended.promise.catch(() => undefined)

  function begin(slot: Slot): void {
    const thread = start(slot.number)
    let crash: Error | undefined
    const met = openWorkerOutages(outages)
    slot.thread = thread
    slot.isRestarting = false
    slot.silentMs = 0
    slot.beganMs = performance.now()
    thread.on('message', message => {
      if (message.kind === 'report') take(slot, message)
      else if (message.kind === 'outage') met.take(message)
      // It has closed its parts. Something that a driver left open would keep the thread until the deadline of the stop.
      else if (message.kind === 'stopped') void thread.terminate()
      // Immediately and not at its exit: a part that never closes must not keep the others working.
      else if (message.kind === 'systemic')
        stopAll(new SystemicError(message.failure?.message ?? 'a worker stopped', { cause: arrivedCause(message) }))
    })
    thread.on('error', error => {
      crash = error instanceof Error ? error : new Error(String(error))
    })
    thread.on('exit', code => {
      const failure = crash ?? unansweredOf(slot) ?? new Error(`its thread ended with code ${code}`)
      if (hasWorked(slot)) slot.deaths = 0
      settle(slot)
      met.close()
      if (!isStopped && slot.isRestarting) begin(slot)
      else if (!isStopped) again(slot, failure)
      if (slots.every(({ thread }) => thread === undefined) && isStopped) finish()
    })
  }

  function take(slot: Slot, report: WorkerReport): void {
    slot.report = report
    slot.silentMs = 0
    if (report.state === 'running') slot.failure = undefined
    if (state() === 'running') started.resolve()
  }

  /** Reporting that it runs is not enough, since a worker reports that before it has read anything. */
  function hasWorked({ report, beganMs }: Slot): boolean {
    const settled = report?.counts.some(([, { received, inFlight }]) => received > inFlight) ?? false
    return settled || performance.now() - beganMs > backOff.waitMsMax
  }

  /**
   * Counts each worker's silence in checks of this thread and not by the clock: the whole process may have been suspended, and the reports of that
   * time may still be queued.
   */
  function look(): void {
    for (const slot of slots) {
      if (slot.thread === undefined) continue
      const before = unansweredOf(slot)
      slot.silentMs += liveness.lookMs
      const now = unansweredOf(slot)
      if (before === undefined && now !== undefined) logger.warn({ worker: slot.number }, `${now.message}: not ready`)
      if (slot.silentMs <= liveness.aliveMsMax) continue
      logger.error({ worker: slot.number, silent_ms: slot.silentMs }, 'a worker is unresponsive and is terminated')
      void slot.thread.terminate()
    }
  }

  function unansweredOf({ silentMs, number }: Slot): Error | undefined {
    return silentMs > liveness.readyMsMax ? new Error(`worker ${number} has not reported for ${Math.round(silentMs / 1000)} s`) : undefined
  }

  /** The thread is gone; its counts are kept. */
  function settle(slot: Slot): void {
    slot.thread = undefined
    slot.silentMs = 0
    const { report } = slot
    if (report === undefined) return
    addCounts(goneCounts, withoutInFlight(report.counts))
    goneMetrics = goneMetrics.then(kept => keepCounters(kept, report.metrics))
    slot.report = undefined
  }

  function again(slot: Slot, failure: Error): void {
    slot.failure = failure
    slot.deaths++
    const waitMs = waitBefore(slot.deaths, backOff)
    logger.error({ err: failure, worker: slot.number, deaths: slot.deaths, wait_ms: Math.round(waitMs) }, 'a worker died and is restarted')
    slot.restart = setTimeout(begin, waitMs, slot)
  }

  function restartAll(): void {
    const running = slots.filter(({ thread }) => thread !== undefined)
    for (const slot of running) {
      slot.isRestarting = true
      slot.thread!.postMessage({ kind: 'stop' } satisfies StopWorker)
    }
    const late = (): void => running.forEach(({ isRestarting, thread }) => isRestarting && void thread?.terminate())
    setTimeout(late, stopMsMax).unref()
  }

  function stopAll(error?: SystemicError): void {
    systemic ??= error
    if (isStopped) return
    isStopped = true
    for (const slot of slots) {
      clearTimeout(slot.restart)
      slot.thread?.postMessage({ kind: 'stop' } satisfies StopWorker)
    }
    deadline = setTimeout(endAll, stopMsMax)
    if (slots.every(({ thread }) => thread === undefined)) finish()
  }

  function endAll(): void {
    for (const { thread, number, report } of slots) {
      if (thread === undefined) continue
      // A worker that took nothing, for example because it waited for its log or store, has nothing that the next one would take again.
      if (report?.counts.some(([, { received }]) => received > 0))
        logger.error({ worker: number }, 'a worker did not stop in time: the next start reads again what it had not stored')
      void thread.terminate()
    }
  }

  function finish(): void {
    clearTimeout(deadline)
    clearInterval(looking)
    if (systemic === undefined) ended.resolve()
    else ended.reject(systemic)
  }

  function state(): WriterState {
    if (systemic !== undefined) return 'failed'
    if (isStopped) return slots.every(({ thread }) => thread === undefined) ? 'stopped' : 'stopping'
    return slots.every(slot => slot.report?.state === 'running' && unansweredOf(slot) === undefined) ? 'running' : 'retrying'
  }

  for (const slot of slots) begin(slot)
  const looking = setInterval(look, liveness.lookMs)

  return {
    state,
    failure() {
      if (systemic !== undefined) return systemic
      for (const slot of slots) {
        const met = slot.report?.failure
        const failure = unansweredOf(slot) ?? (met === undefined ? slot.failure : arrived(met))
        if (failure !== undefined) return failure
      }
      return undefined
    },
    counts() {
      const sums = new Map(goneCounts)
      for (const { report } of slots) if (report !== undefined) addCounts(sums, report.counts)
      return sums
    },
    held: () => new Set(slots.flatMap(({ report }) => report?.held ?? [])),
    async metrics(more = []) {
      const kept = await goneMetrics
      return textOfMetrics([kept, more, ...slots.flatMap(({ report }) => (report === undefined ? [] : [report.metrics]))])
    },
    started: started.promise,
    done: ended.promise,
    restart: restartAll,
    async stop() {
      stopAll()
      await ended.promise.catch(() => undefined)
    },
  }
}

function arrivedCause({ failure }: WorkerEnd): Error | undefined {
  return failure === undefined ? undefined : arrived(failure)
}
