// Runs one replay at a time in the background of this process, and reports its status.

import type { Logger } from '../../config/logger.ts'
import { SystemicError } from '../systemic-error.ts'
import type { DeadLetterFilter } from './filter.ts'
import type { Replay, ReplayReport } from './replay.ts'

export interface ReplayStatus {
  /** `none`: no replay since the process started. */
  readonly state: 'none' | 'running' | 'done' | 'failed'
  /** Number of the replay in this process. */
  readonly job: number
  /** Offsets of the dead-letter topic read so far, and the total. */
  readonly done: number
  readonly total: number
  /** Set when it is done. */
  readonly report?: ReplayReport
  /** Why it failed; letters stored before are resolved. */
  readonly error?: string
}

export interface ReplayJob {
  /** @throws SystemicError while another replay runs */
  start(filter: DeadLetterFilter, options: { readonly dryRun: boolean }): ReplayStatus
  status(): ReplayStatus
  /** Aborts a running replay and waits for its end. */
  close(): Promise<void>
}

export function openReplayJob(replay: Replay, logger: Logger): ReplayJob {
  const closing = new AbortController()
  let status: ReplayStatus = { state: 'none', job: 0, done: 0, total: 0 }
  let underWay = Promise.resolve()

  async function run(job: number, filter: DeadLetterFilter, dryRun: boolean): Promise<void> {
    const onProgress = (done: number, total: number): void => {
      status = { state: 'running', job, done, total }
    }
    try {
      const report = await replay(filter, { dryRun, onProgress, signal: closing.signal })
      status = { ...status, state: 'done', report }
      logger.info({ replayed: report.replayed, left: report.left, dry_run: dryRun }, 'dead letters replayed')
    } catch (error) {
      status = { ...status, state: 'failed', error: error instanceof Error ? error.message : String(error) }
      if (!closing.signal.aborted) logger.error({ err: error }, 'replay of dead letters failed')
    }
  }

  return {
    start(filter, { dryRun }) {
      if (status.state === 'running') throw new SystemicError('a replay is running: retry when it has finished')
      status = { state: 'running', job: status.job + 1, done: 0, total: 0 }
      underWay = run(status.job, filter, dryRun)
      return status
    },
    status: () => status,
    async close() {
      closing.abort()
      await underWay
    },
  }
}
