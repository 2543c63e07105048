// Runs one job of a kind at a time in the background of this process, and reports its status.

import type { Logger } from '../config/logger.ts'
import { SystemicError } from './systemic-error.ts'

export interface JobStatus<Report> {
  /** `none`: no such job since the process started. */
  readonly state: 'none' | 'running' | 'done' | 'failed'
  /** Number of the job in this process. */
  readonly job: number
  /** What it has done so far, and the total. */
  readonly done: number
  readonly total: number
  /** Set when it is done. */
  readonly report?: Report
  /** Why it failed; what it has done before stays done. */
  readonly error?: string
}

export interface Job<Filter, Report> {
  /** @throws SystemicError while another one runs */
  start(filter: Filter, options: { readonly dryRun: boolean }): JobStatus<Report>
  status(): JobStatus<Report>
  /** Aborts a running job and waits for its end. */
  close(): Promise<void>
}

interface RunOptions {
  readonly dryRun: boolean
  readonly onProgress: (done: number, total: number) => void
  readonly signal: AbortSignal
}

export interface JobParts<Filter, Report> {
  /** For sentences: `a replay`. */
  readonly what: string
  readonly run: (filter: Filter, options: RunOptions) => Promise<Report>
  /** What the log says of it. */
  readonly summaryOf: (report: Report) => object
  readonly logger: Logger
}

export function openJob<Filter, Report>({ what, run, summaryOf, logger }: JobParts<Filter, Report>): Job<Filter, Report> {
  const closing = new AbortController()
  let status: JobStatus<Report> = { state: 'none', job: 0, done: 0, total: 0 }
  let underWay = Promise.resolve()

  async function begin(job: number, filter: Filter, dryRun: boolean): Promise<void> {
    const onProgress = (done: number, total: number): void => {
      status = { state: 'running', job, done, total }
    }
    try {
      const report = await run(filter, { dryRun, onProgress, signal: closing.signal })
      status = { ...status, state: 'done', report }
      logger.info({ ...summaryOf(report), dry_run: dryRun }, `${what} has ended`)
    } catch (error) {
      status = { ...status, state: 'failed', error: error instanceof Error ? error.message : String(error) }
      if (!closing.signal.aborted) logger.error({ err: error }, `${what} has failed`)
    }
  }

  return {
    start(filter, { dryRun }) {
      if (status.state === 'running') throw new SystemicError(`${what} is running: retry when it has finished`)
      status = { state: 'running', job: status.job + 1, done: 0, total: 0 }
      underWay = begin(status.job, filter, dryRun)
      return status
    },
    status: () => status,
    async close() {
      closing.abort()
      await underWay
    },
  }
}
