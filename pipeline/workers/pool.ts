// The pool of a writer's workers: threads that share nothing. The main thread starts them, starts one again that died, and stops them.
//
//   starting ──► working ──► stopped          the pool was told to stop
//      ▲            │
//      └── waiting ◄┤                         the thread died, or was silent so long that it was ended: started again, after a wait
//                   │                         that doubles from death to death, until one has worked
//                   └──► systemic             no retry can mend it: the whole pool stops with that error

import type { Logger } from '../../config/logger.ts'
import type { Outages } from '../../config/outage.ts'
import type { PartitionCounts } from '../ledger.ts'
import { type BackOff, defaultBackOff, waitBefore } from '../retry.ts'
import { SystemicError } from '../systemic-error.ts'
import type { WriterDependency, WriterState } from '../writer.ts'
import { arrived, type Metrics, type StopWorker, type WorkerEnd, type WorkerOutage, type WorkerReport } from './messages.ts'
import { openWorkerOutages } from './outages.ts'
import { defaultSilence, type SilenceLimits } from './silence.ts'
import { addCounts, keepCounters, textOfMetrics, withoutInFlight } from './sums.ts'

/** Of a thread, what the pool uses: a `Worker`, or one that works in the main thread. */
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
  /** What any worker met, told as one. */
  readonly outages: Outages<WriterDependency>
  readonly logger: Logger
  readonly backOff?: BackOff
  /** How long a stop waits for the workers; those that still work then are ended, and what they had not stored stays in the log. */
  readonly stopMsMax?: number
  readonly silence?: SilenceLimits
}

export interface WorkerPool {
  /** `running` when every worker is. */
  state(): WriterState
  /** Why a worker is not running, where it said so. */
  failure(): Error | undefined
  /** By partition, what became of the messages since the pool was opened. Up to a second old. */
  counts(): ReadonlyMap<number, PartitionCounts>
  /** The metrics of all workers as one, in the text form of Prometheus. Up to a second old. */
  metrics(): Promise<string>
  /** Resolves when every worker runs for the first time. */
  readonly started: Promise<void>
  /** Resolves when the pool has stopped; rejects with the SystemicError that ended it. */
  readonly done: Promise<void>
  /** Lets each worker store what it took, and ends the threads. Never rejects. */
  stop(): Promise<void>
}

interface Place {
  readonly number: number
  thread: WorkerThread | undefined
  report: WorkerReport | undefined
  /** Why the thread is not there. */
  failure: Error | undefined
  /** Since the last report, or the start. */
  silentMs: number
  beganMs: number
  /** Deaths in a row, of workers that had not worked. */
  deaths: number
  restart: NodeJS.Timeout | undefined
}

export function openWorkerPool(options: WorkerPoolOptions): WorkerPool {
  const { count, start, outages, logger, backOff = defaultBackOff, stopMsMax = 4500, silence = defaultSilence } = options
  const places: Place[] = Array.from({ length: count }, (_, number) => ({
    number,
    thread: undefined,
    report: undefined,
    failure: undefined,
    silentMs: 0,
    beganMs: 0,
    deaths: 0,
    restart: undefined,
  }))
  /** What the threads that are gone had counted. */
  const goneCounts = new Map<number, PartitionCounts>()
  let goneMetrics: Promise<Metrics> = Promise.resolve([])
  let stopping = false
  let systemic: SystemicError | undefined
  let deadline: NodeJS.Timeout | undefined
  const started = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  // Who watches the state need not wait for the end as well.
  ended.promise.catch(() => undefined)

  function begin(place: Place): void {
    const thread = start(place.number)
    let crash: Error | undefined
    const met = openWorkerOutages(outages)
    place.thread = thread
    place.silentMs = 0
    place.beganMs = performance.now()
    thread.on('message', message => {
      if (message.kind === 'report') take(place, message)
      else if (message.kind === 'outage') met.take(message)
      // It has closed its parts. What a driver has left open would keep the thread until the deadline of a stop.
      else if (message.kind === 'stopped') void thread.terminate()
      // Not at its exit: a part that never closes must not keep the others at work.
      else if (message.kind === 'systemic')
        stopAll(new SystemicError(message.failure?.message ?? 'a worker stopped', { cause: arrivedCause(message) }))
    })
    thread.on('error', error => {
      crash = error instanceof Error ? error : new Error(String(error))
    })
    thread.on('exit', code => {
      const failure = crash ?? silenceOf(place) ?? new Error(`its thread ended with code ${code}`)
      if (hasWorked(place)) place.deaths = 0
      settle(place)
      met.close()
      if (!stopping) again(place, failure)
      if (places.every(({ thread }) => thread === undefined) && stopping) finish()
    })
  }

  function take(place: Place, report: WorkerReport): void {
    place.report = report
    place.silentMs = 0
    if (report.state === 'running') place.failure = undefined
    if (state() === 'running') started.resolve()
  }

  /** To say that it runs is not enough: that is said before anything was read. */
  function hasWorked({ report, beganMs }: Place): boolean {
    const settled = report?.counts.some(([, { received, inFlight }]) => received > inFlight) ?? false
    return settled || performance.now() - beganMs > backOff.waitMsMax
  }

  /**
   * Adds up what this thread has seen of each worker's silence, and not by the clock: it may have stood still itself, with the whole
   * process, and have the reports of that time still before it.
   */
  function look(): void {
    for (const place of places) {
      if (place.thread === undefined) continue
      const before = silenceOf(place)
      place.silentMs += silence.lookMs
      const now = silenceOf(place)
      if (before === undefined && now !== undefined) logger.warn({ worker: place.number }, `${now.message}: not ready`)
      if (place.silentMs <= silence.aliveMsMax) continue
      logger.error({ worker: place.number, silent_ms: place.silentMs }, 'a worker does nothing any more, and is ended')
      void place.thread.terminate()
    }
  }

  function silenceOf({ silentMs, number }: Place): Error | undefined {
    return silentMs > silence.readyMsMax ? new Error(`worker ${number} has said nothing for ${Math.round(silentMs / 1000)} s`) : undefined
  }

  /** The thread is gone; what it counted stays. */
  function settle(place: Place): void {
    place.thread = undefined
    place.silentMs = 0
    const { report } = place
    if (report === undefined) return
    addCounts(goneCounts, withoutInFlight(report.counts))
    goneMetrics = goneMetrics.then(kept => keepCounters(kept, report.metrics))
    place.report = undefined
  }

  function again(place: Place, failure: Error): void {
    place.failure = failure
    place.deaths++
    const waitMs = waitBefore(place.deaths, backOff)
    logger.error(
      { err: failure, worker: place.number, deaths: place.deaths, wait_ms: Math.round(waitMs) },
      'a worker died and is started again',
    )
    place.restart = setTimeout(begin, waitMs, place)
  }

  function stopAll(error?: SystemicError): void {
    systemic ??= error
    if (stopping) return
    stopping = true
    for (const place of places) {
      clearTimeout(place.restart)
      place.thread?.postMessage({ kind: 'stop' } satisfies StopWorker)
    }
    deadline = setTimeout(endAll, stopMsMax)
    if (places.every(({ thread }) => thread === undefined)) finish()
  }

  function endAll(): void {
    for (const { thread, number, report } of places) {
      if (thread === undefined) continue
      // One that took nothing, since it waited for its log or its store, say, has nothing that the next start would take again.
      if (report?.counts.some(([, { received }]) => received > 0))
        logger.error({ worker: number }, 'a worker did not stop in time: what it had not stored is taken again by the next start')
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
    if (stopping) return places.every(({ thread }) => thread === undefined) ? 'stopped' : 'stopping'
    return places.every(place => place.report?.state === 'running' && silenceOf(place) === undefined) ? 'running' : 'retrying'
  }

  for (const place of places) begin(place)
  const looking = setInterval(look, silence.lookMs)

  return {
    state,
    failure() {
      if (systemic !== undefined) return systemic
      for (const place of places) {
        const met = place.report?.failure
        const failure = silenceOf(place) ?? (met === undefined ? place.failure : arrived(met))
        if (failure !== undefined) return failure
      }
      return undefined
    },
    counts() {
      const sums = new Map(goneCounts)
      for (const { report } of places) if (report !== undefined) addCounts(sums, report.counts)
      return sums
    },
    async metrics() {
      const kept = await goneMetrics
      return textOfMetrics([kept, ...places.flatMap(({ report }) => (report === undefined ? [] : [report.metrics]))])
    },
    started: started.promise,
    done: ended.promise,
    async stop() {
      stopAll()
      await ended.promise.catch(() => undefined)
    },
  }
}

function arrivedCause({ failure }: WorkerEnd): Error | undefined {
  return failure === undefined ? undefined : arrived(failure)
}
