// A worker's thread: the whole pipeline, from the log to the store, sharing nothing; it reports, and stops when it is told to.

import type { MessagePort } from 'node:worker_threads'
import { Registry } from 'prom-client'
import type { Outages } from '../../config/outage.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { SystemicError } from '../systemic-error.ts'
import type { Writer, WriterDependency, WriterState } from '../writer.ts'
import { carried, type StopWorker, type WorkerEnd, type WorkerReport } from './messages.ts'
import { postedOutages } from './outages.ts'

/** What the worker is made of, open. */
export interface OpenWorker {
  /** Its flows: of the messages, first, and of what is replayed. */
  readonly writers: readonly [Writer, ...Writer[]]
  /** After the writers have stopped: sources, sinks and dead letters. What does not close is its own to log, and keeps no other from closing. */
  close(): Promise<void>
}

/** Where the parts of a worker report how they are, from when they are being opened. */
export interface WorkerEvents {
  readonly registry: Registry
  readonly outages: Outages<WriterDependency>
  readonly onStateChange: () => void
  /** Before all are open: the log or the store is away, and is tried again. */
  readonly onWaiting: (failure: Error) => void
  /** They could not be opened, and those that are open are about to be closed. */
  readonly onFailure: (error: unknown) => void
}

const reportMs = 1000

/**
 * Opens the parts, works until the main thread says stop or something systemic comes, and closes them. Anything else that goes
 * wrong is thrown, which ends the thread; the main thread starts another.
 *
 * Something systemic is told before anything is closed: a part that never closes must not keep the others at work.
 *
 * @param open ends soon after `signal` aborts
 */
export async function serveWorker(
  port: MessagePort,
  open: (events: WorkerEvents, signal: AbortSignal) => Promise<OpenWorker>,
): Promise<void> {
  const stopping = new AbortController()
  const registry = new Registry()
  let opened: OpenWorker | undefined
  let waiting: Error | undefined
  port.on('message', (_stop: StopWorker) => {
    stopping.abort()
    // Its end is awaited below, as `done`.
    for (const writer of opened?.writers ?? []) void writer.stop()
  })

  let reporting: Promise<void> = Promise.resolve()
  function report(): void {
    reporting = reporting.then(async () => port.postMessage(await reportOf(registry, opened, waiting)))
  }

  let isTold = false
  function onFailure(error: unknown): void {
    if (isTold || stopping.signal.aborted || !isSystemic(error)) return
    isTold = true
    port.postMessage({ kind: 'systemic', failure: carried(error) } satisfies WorkerEnd)
  }
  function onWaiting(failure: Error): void {
    waiting = failure
    report()
  }

  const timer = setInterval(report, reportMs)
  try {
    report()
    opened = await open({ registry, outages: postedOutages(port), onStateChange: report, onWaiting, onFailure }, stopping.signal)
    waiting = undefined
    report()
    if (stopping.signal.aborted) await stopAll(opened)
    await work(opened, onFailure)
    await end(port, { kind: 'stopped' })
  } catch (error) {
    onFailure(error)
    if (!isTold && !stopping.signal.aborted) throw error
    await end(port, { kind: 'stopped', failure: carried(error) })
  } finally {
    clearInterval(timer)
  }

  /** The last report, then the end; then nothing keeps the thread. */
  async function end(to: MessagePort, last: WorkerEnd): Promise<void> {
    report()
    await reporting
    to.postMessage(last)
    to.close()
  }
}

/**
 * Until one of its writers ends; then the others are stopped and the parts closed.
 *
 * @throws what ended the writer: a part that does not close after it is not the news
 */
async function work(opened: OpenWorker, onFailure: WorkerEvents['onFailure']): Promise<void> {
  const [worked] = await Promise.allSettled([Promise.race(opened.writers.map(writer => writer.done))])
  if (worked.status === 'rejected') onFailure(worked.reason)
  await stopAll(opened)
  const [closed] = await Promise.allSettled([opened.close()])
  for (const outcome of [worked, closed]) if (outcome.status === 'rejected') throw outcome.reason
}

async function stopAll({ writers }: OpenWorker): Promise<void> {
  await Promise.all(writers.map(writer => writer.stop()))
}

async function reportOf(registry: Registry, opened: OpenWorker | undefined, waiting: Error | undefined): Promise<WorkerReport> {
  // The least of its flows counts: a worker whose replays cannot be stored is not running.
  const states = opened?.writers.map(writer => writer.state()) ?? ['retrying']
  const state: WriterState = states.find(state => state !== 'running') ?? 'running'
  const failure = opened === undefined ? waiting : opened.writers.map(writer => writer.failure()).find(failure => failure !== undefined)
  return {
    kind: 'report',
    state,
    ...(failure === undefined ? {} : { failure: carried(failure) }),
    counts: opened === undefined ? [] : [...opened.writers[0].counts()],
    metrics: await registry.getMetricsAsJSON(),
  }
}

function isSystemic(error: unknown): boolean {
  return error instanceof SystemicError || (error instanceof SinkError && error.errorClass === 'systemic')
}
