// Runs a process: opens its components in order, works until a signal, and closes the components in reverse order.

import { pause, unlessAborted } from './aborting.ts'
import type { Logger } from './logger.ts'
import type { OutageReport } from './outage.ts'
import type { ProcessOptions } from './process-options.ts'
import { stopOnSignals } from './signals.ts'

export interface ProcessScope {
  /** Aborts with the first SIGTERM or SIGINT. */
  readonly signal: AbortSignal
  /** Call it right after a component is open. The last one registered is closed first, also if a later component fails to open. */
  readonly closeLater: (close: () => Promise<void>) => void
}

/**
 * Calls `work`, which opens the components and resolves when the process should stop; then closes them. If one fails to close, the
 * others are still closed.
 *
 * @throws the error of `work`, else the first error of a close
 */
export async function runProcess(
  logger: Logger,
  { stopSeconds }: ProcessOptions,
  work: (scope: ProcessScope) => Promise<void>,
): Promise<void> {
  const stop = stopOnSignals({
    deadlineMs: stopSeconds * 1000,
    onStop: signal => logger.info({ signal }, 'stopping'),
    onDeadline: () =>
      logger.error(`stop took longer than process.stop_seconds (${stopSeconds}): the next start reads again what was not stored`),
  })
  const cleanup = openCleanup(logger)
  let failed: unknown
  try {
    await work({ signal: stop.signal, closeLater: close => cleanup.add(close) })
  } catch (error) {
    failed = error
  }
  const unclosed = await cleanup.close()
  failed ??= unclosed
  stop.dispose()
  if (failed !== undefined) throw failed
  logger.info('stopped')
}

export interface Waiting<Part> {
  readonly open: () => Promise<Part>
  /** Closes a component that opened after the stop began, since nothing else holds a reference to it. */
  readonly closeLate?: (part: Part) => Promise<void>
  /** Whether the dependency is only away, so that opening is worth a retry. */
  readonly isAway: (error: unknown) => boolean
  readonly outage: Pick<OutageReport, 'failed' | 'recovered'>
  readonly signal: AbortSignal
}

/** The first wait before a retry, which doubles up to the maximum. Containers often start before their dependencies. */
const waitMsMin = 100
const waitMsMax = 1_000

/**
 * Opens a component, and retries while its dependency is away. A stop does not wait for a running attempt, which may hang on a silent server.
 *
 * @returns undefined if the process stops first
 * @throws an error that waiting cannot fix
 */
export async function openWhenThere<Part>({ open, closeLate, isAway, outage, signal }: Waiting<Part>): Promise<Part | undefined> {
  for (let waitMs = waitMsMin; !signal.aborted; waitMs = Math.min(waitMs * 2, waitMsMax)) {
    const opening = open()
    try {
      const part = await unlessAborted(opening, signal)
      outage.recovered()
      return part
    } catch (error) {
      if (signal.aborted) {
        // The process is ending: a failed attempt or close no longer matters.
        opening.then(closeLate).catch(() => undefined)
        return undefined
      }
      if (!isAway(error)) throw error
      outage.failed(error, { waitMs, meanwhile: 'the start waits for it' })
      await pause(waitMs, signal)
    }
  }
  return undefined
}

export interface Cleanup {
  /** Call it right after a part was opened. */
  add(close: () => Promise<void>): void
  /**
   * Closes the parts in reverse order. A failure is logged, and does not prevent the others from closing. Never rejects.
   *
   * @returns the first failure
   */
  close(): Promise<unknown>
}

/** Closes everything that was opened, even if something does not close. */
export function openCleanup(logger: Pick<Logger, 'error'>): Cleanup {
  const cleanup: (() => Promise<void>)[] = []
  return {
    add: close => void cleanup.push(close),
    async close() {
      let failed: unknown
      for (let close = cleanup.pop(); close !== undefined; close = cleanup.pop()) {
        try {
          await close()
        } catch (error) {
          failed ??= error
          logger.error({ err: error }, 'a component failed to close')
        }
      }
      return failed
    },
  }
}
