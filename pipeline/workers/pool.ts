// The pool of a writer's workers: threads that share nothing. The main thread starts them, starts one again that died, and stops them.
//
//   starting ──► working ──► stopped          the pool was told to stop
//      ▲            │
//      └── waiting ◄┤                         the thread died: started again, after a wait that doubles while it dies at once
//                   └──► systemic             no retry can mend it: the whole pool stops with that error

import type { Logger } from '../../config/logger.ts'
import type { PartitionCounts } from '../ledger.ts'
import { type BackOff, defaultBackOff, waitBefore } from '../retry.ts'
import { SystemicError } from '../systemic-error.ts'
import type { WriterState } from '../writer.ts'
import { arrived, type Metrics, type StopWorker, type WorkerEnd, type WorkerReport } from './messages.ts'
import { addCounts, keepCounters, textOfMetrics, withoutInFlight } from './sums.ts'

/** Of a thread, what the pool uses: a `Worker`, or one that works in the main thread. */
export interface WorkerThread {
  on(event: 'message', listener: (message: WorkerReport | WorkerEnd) => void): unknown
  on(event: 'error', listener: (error: unknown) => void): unknown
  on(event: 'exit', listener: (code: number) => void): unknown
  postMessage(message: StopWorker): void
  terminate(): Promise<number>
}

export interface WorkerPoolOptions {
  readonly count: number
  /** Starts the thread of a worker, whose file calls `serveWorker`. */
  readonly start: (worker: number) => WorkerThread
  readonly logger: Logger
  readonly backOff?: BackOff
  /** How long a stop waits for the workers; those that still work then are ended, and what they had not stored stays in the log. */
  readonly stopMsMax?: number
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
  /** Deaths in a row, since a worker of this place last ran. */
  deaths: number
  restart: NodeJS.Timeout | undefined
}

export function openWorkerPool({ count, start, logger, backOff = defaultBackOff, stopMsMax = 4500 }: WorkerPoolOptions): WorkerPool {
  const places: Place[] = Array.from({ length: count }, (_, number) => ({
    number,
    thread: undefined,
    report: undefined,
    failure: undefined,
    deaths: 0,
    restart: undefined,
  }))
  /** What the threads that are gone had counted. */
  const goneCounts = new Map<number, PartitionCounts>()
  let goneMetrics: Promise<Metrics> = Promise.resolve([])
  let stopping = false
  let systemic: SystemicError | undefined
  const ended = Promise.withResolvers<void>()
  // Who watches the state need not wait for the end as well.
  ended.promise.catch(() => undefined)

  function begin(place: Place): void {
    const thread = start(place.number)
    let end: WorkerEnd | undefined
    let crash: Error | undefined
    place.thread = thread
    thread.on('message', message => {
      if (message.kind === 'report') take(place, message)
      else end = message
    })
    thread.on('error', error => {
      crash = error instanceof Error ? error : new Error(String(error))
    })
    thread.on('exit', code => {
      settle(place)
      if (end?.kind === 'systemic') stopAll(new SystemicError(end.failure?.message ?? 'a worker stopped', { cause: arrivedCause(end) }))
      else if (!stopping) again(place, crash ?? new Error(`its thread ended with code ${code}`))
      if (places.every(({ thread }) => thread === undefined) && stopping) finish()
    })
  }

  function take(place: Place, report: WorkerReport): void {
    place.report = report
    if (report.state === 'running') {
      place.deaths = 0
      place.failure = undefined
    }
  }

  /** The thread is gone; what it counted stays. */
  function settle(place: Place): void {
    place.thread = undefined
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
    if (places.every(({ thread }) => thread === undefined)) finish()
  }

  function finish(): void {
    if (systemic === undefined) ended.resolve()
    else ended.reject(systemic)
  }

  function state(): WriterState {
    if (systemic !== undefined) return 'failed'
    if (stopping) return places.every(({ thread }) => thread === undefined) ? 'stopped' : 'stopping'
    return places.every(({ report }) => report?.state === 'running') ? 'running' : 'retrying'
  }

  for (const place of places) begin(place)

  return {
    state,
    failure() {
      if (systemic !== undefined) return systemic
      for (const { report, failure } of places) {
        if (report?.failure !== undefined) return arrived(report.failure)
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
    done: ended.promise,
    async stop() {
      stopAll()
      const deadline = setTimeout(() => {
        for (const { thread, number } of places) {
          if (thread === undefined) continue
          logger.error({ worker: number }, 'a worker did not stop in time: what it had not stored is taken again by the next start')
          void thread.terminate()
        }
      }, stopMsMax)
      await ended.promise.catch(() => undefined)
      clearTimeout(deadline)
    },
  }
}

function arrivedCause({ failure }: WorkerEnd): Error | undefined {
  return failure === undefined ? undefined : arrived(failure)
}
