// A worker's thread: the whole pipeline, from the log to the store, sharing nothing; it reports, and stops on request.

import type { MessagePort } from 'node:worker_threads'
import { Registry } from 'prom-client'
import type { Outages } from '../../../config/outage.ts'
import { SinkError } from '../../../sinks/sink-error.ts'
import { SystemicError } from '../../systemic-error.ts'
import type { Writer, WriterDependency, WriterState } from '../writer.ts'
import { carried, type StopWorker, type WorkerEnd, type WorkerReport } from './messages.ts'
import { postedOutages } from './outages.ts'

/** The open components of a worker. */
export interface OpenWorker {
  readonly writer: Writer
  /** Called after the writer has stopped; closes sources, sinks and dead letters. Logs what does not close, and closes everything else. */
  close(): Promise<void>
}

/** Where the components of a worker report their state, from the time they are being opened. */
export interface WorkerEvents {
  readonly registry: Registry
  readonly outages: Outages<WriterDependency>
  readonly onStateChange: () => void
  /** Called before all are open: the log or the store is down, and is retried. */
  readonly onWaiting: (failure: Error) => void
  /** They could not be opened, and those that are open are about to be closed. */
  readonly onFailure: (error: unknown) => void
}

const reportMs = 1000

/**
 * Opens the components, works until the main thread requests a stop or a systemic error occurs, and closes them. Any other error is thrown, which
 * ends the thread; the main thread then starts another.
 *
 * A systemic error is reported before anything is closed: a part that never closes must not keep the other workers working.
 *
 * @param open ends soon after `signal` aborts
 */
export async function serveWorker(
  port: MessagePort,
  open: (events: WorkerEvents, signal: AbortSignal) => Promise<OpenWorker>,
): Promise<void> {
  const stop = new AbortController()
  const registry = new Registry()
  let opened: OpenWorker | undefined
  let waiting: Error | undefined
  port.on('message', (_stop: StopWorker) => {
    stop.abort()
    // Its end is awaited below, as `done`.
    void opened?.writer.stop()
  })

  let reporting: Promise<void> = Promise.resolve()
  function report(): void {
    reporting = reporting.then(async () => port.postMessage(await reportOf(registry, opened, waiting)))
  }

  let isTold = false
  function onFailure(error: unknown): void {
    if (isTold || stop.signal.aborted || !isSystemic(error)) return
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
    opened = await open({ registry, outages: postedOutages(port), onStateChange: report, onWaiting, onFailure }, stop.signal)
    waiting = undefined
    report()
    if (stop.signal.aborted) await opened.writer.stop()
    await work(opened, onFailure)
    await end(port, { kind: 'stopped' })
  } catch (error) {
    onFailure(error)
    if (!isTold && !stop.signal.aborted) throw error
    await end(port, { kind: 'stopped', failure: carried(error) })
  } finally {
    clearInterval(timer)
  }

  /** Sends the last report, then the end; afterwards nothing keeps the thread alive. */
  async function end(to: MessagePort, last: WorkerEnd): Promise<void> {
    report()
    await reporting
    to.postMessage(last)
    to.close()
  }
}

/**
 * Waits until its writer ends, then closes the parts.
 *
 * @throws what ended the writer, even if a part does not close afterwards
 */
async function work(opened: OpenWorker, onFailure: WorkerEvents['onFailure']): Promise<void> {
  const [worked] = await Promise.allSettled([opened.writer.done])
  if (worked.status === 'rejected') onFailure(worked.reason)
  const [closed] = await Promise.allSettled([opened.close()])
  for (const outcome of [worked, closed]) if (outcome.status === 'rejected') throw outcome.reason
}

async function reportOf(registry: Registry, opened: OpenWorker | undefined, waiting: Error | undefined): Promise<WorkerReport> {
  const state: WriterState = opened?.writer.state() ?? 'retrying'
  const failure = opened === undefined ? waiting : opened.writer.failure()
  return {
    kind: 'report',
    state,
    ...(failure === undefined ? {} : { failure: carried(failure) }),
    held: opened?.writer.held() ?? [],
    counts: opened === undefined ? [] : [...opened.writer.counts()],
    metrics: await registry.getMetricsAsJSON(),
  }
}

function isSystemic(error: unknown): boolean {
  return error instanceof SystemicError || (error instanceof SinkError && error.errorClass === 'systemic')
}
