// How many rows a question has, counted beside its page: for as long as somebody waits, and not longer where nobody insists.

import type { Total } from './cursor.ts'
import type { Selection } from './query.ts'
import type { CountMode } from './question.ts'
import { QueryTooLargeError, type Reader } from './reader.ts'

/** A page waits no longer for a total that nobody asked for. */
const boundedMsMax = 1000

export interface Counting {
  readonly total: Promise<Total>
  /** Ends it: nobody waits any more. */
  stop(): void
}

/**
 * `exact` counts to the end or throws; otherwise it is counted up to `countMax` and for a second, and what has taken longer, or would
 * cost too much, is a lower bound of 0: the page shows more.
 */
export function startCounting(
  reader: Pick<Reader, 'count'>,
  selection: Selection,
  mode: CountMode,
  countMax: number,
  signal: AbortSignal,
): Counting {
  const ending = new AbortController()
  const stop = (): void => ending.abort(signal.reason)

  async function count(): Promise<Total> {
    signal.throwIfAborted()
    signal.addEventListener('abort', stop, { once: true })
    const timer = mode === 'exact' ? undefined : setTimeout(stop, boundedMsMax)
    const max = mode === 'exact' ? Number.MAX_SAFE_INTEGER - 1 : countMax
    try {
      const counted = await reader.count(selection, max, ending.signal)
      return { total: Math.min(counted, max), isExact: counted <= max }
    } catch (error) {
      signal.throwIfAborted()
      // The page is there: that its total costs too much is no reason to withhold it, where nobody insists on the total.
      if (mode === 'exact' || !(ending.signal.aborted || error instanceof QueryTooLargeError)) throw error
      return { total: 0, isExact: false }
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
    }
  }

  return { total: count(), stop }
}
