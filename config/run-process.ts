// The life of a process: its parts open in order, it works until a signal, and the parts close in the reverse order.

import { setTimeout as wait } from 'node:timers/promises'
import { unlessAborted } from './aborting.ts'
import type { Logger } from './logger.ts'
import type { OutageReport } from './outage.ts'
import { stopOnSignals } from './signals.ts'

export interface ProcessScope {
  /** Aborts with the first SIGTERM or SIGINT. */
  readonly signal: AbortSignal
  /** To be called right after a part is open: what is registered last is closed first, also when the rest does not open. */
  readonly closeLater: (close: () => Promise<void>) => void
}

/**
 * Calls `work`, which opens the parts and resolves when the process is to stop, and closes what it opened. A part that does not
 * close keeps no other from closing.
 *
 * @throws what `work` threw, else what the first part that did not close threw
 */
export async function runProcess(logger: Logger, work: (scope: ProcessScope) => Promise<void>): Promise<void> {
  const stop = stopOnSignals({
    onStop: signal => logger.info({ signal }, 'stopping'),
    onDeadline: () => logger.error('stop took too long: what was not stored is taken again by the next start'),
  })
  const closings: (() => Promise<void>)[] = []
  let failed: unknown
  try {
    await work({ signal: stop.signal, closeLater: close => void closings.push(close) })
  } catch (error) {
    failed = error
  }
  for (const close of closings.toReversed()) {
    try {
      await close()
    } catch (error) {
      failed ??= error
      logger.error({ err: error }, 'a part did not close')
    }
  }
  stop.dispose()
  if (failed !== undefined) throw failed
  logger.info('stopped')
}

export interface Waiting<Part> {
  readonly open: () => Promise<Part>
  /** Closes a part that opens when the process is to stop already: nobody else knows of it. */
  readonly closeLate?: (part: Part) => Promise<void>
  /** Whether what it needs is only away, and the opening worth another try. */
  readonly isAway: (error: unknown) => boolean
  readonly outage: OutageReport
  readonly signal: AbortSignal
}

/** A start before what it needs is there, as containers do, comes again after this time. */
const retryMs = 1_000

/**
 * Opens a part, again and again while what it needs is away. The stop does not wait for an attempt: what says nothing would hold it up.
 *
 * @returns undefined when the process is to stop before
 * @throws what no waiting mends
 */
export async function openWhenThere<Part>({ open, closeLate, isAway, outage, signal }: Waiting<Part>): Promise<Part | undefined> {
  while (!signal.aborted) {
    const opening = open()
    try {
      const part = await unlessAborted(opening, signal)
      outage.recovered()
      return part
    } catch (error) {
      if (signal.aborted) {
        // The process ends: an attempt that fails now, or a part that does not close, is nobody's concern.
        opening.then(closeLate).catch(() => undefined)
        return undefined
      }
      if (!isAway(error)) throw error
      outage.failed(error, { waitMs: retryMs, meanwhile: 'the start waits for it' })
      // Aborted by the stop, which the loop looks at.
      await wait(retryMs, undefined, { signal }).catch(() => undefined)
    }
  }
  return undefined
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
