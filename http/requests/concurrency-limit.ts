// Limits concurrent requests of a kind, in total and per caller, because each takes memory and a connection.

import type { ServerResponse } from 'node:http'
import { HttpError } from '../errors.ts'

/** Slots in total and per caller. */
export interface ConcurrencyLimit {
  /**
   * Takes a slot.
   *
   * @param of the caller
   * @returns releases the slot; a second call does nothing
   * @throws HttpError `too_many_requests`, `unavailable`
   */
  take(of: string): () => void
  /**
   * Takes a slot until the response ends in any way.
   *
   * @throws HttpError like `take`
   */
  hold(of: string, response: ServerResponse): void
}

/** The number of slots, and their name in errors. */
export interface ConcurrencyLimitParts {
  readonly max: number
  /** Slots per caller. */
  readonly eachMax: number
  /** The kind of requests: `live streams`. */
  readonly what: string
  /** Describes the caller in errors. */
  readonly whose?: string
  /** What a caller at the limit can do. */
  readonly advice?: string
}

/** Starts with all slots free. */
export function openConcurrencyLimit({
  max,
  eachMax,
  what,
  whose = 'of yours',
  advice = 'close some of them',
}: ConcurrencyLimitParts): ConcurrencyLimit {
  const taken = new Map<string, number>()
  let total = 0
  const limit: ConcurrencyLimit = {
    take(of) {
      const own = taken.get(of) ?? 0
      if (own >= eachMax) throw new HttpError('too_many_requests', `${own} ${what} ${whose} are open: ${advice}`)
      if (total >= max) throw new HttpError('unavailable', `the limit of ${max} ${what} is reached: retry later`)
      taken.set(of, own + 1)
      total++
      let isHeld = true
      return () => {
        if (!isHeld) return
        isHeld = false
        total--
        const left = taken.get(of)! - 1
        if (left === 0) taken.delete(of)
        else taken.set(of, left)
      }
    },
    hold(of, response) {
      const release = limit.take(of)
      // A disconnected client has already closed the response.
      if (response.destroyed) release()
      else response.once('close', release)
    },
  }
  return limit
}
