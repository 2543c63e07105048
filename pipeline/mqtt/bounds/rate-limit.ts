// How often one connection may do what costs the server something and stores nothing. Beyond that its client waits: it is not read.

import { pause } from '../../../config/aborting.ts'
import type { Link } from '../link.ts'

export type RateLimit = ReturnType<typeof openRateLimit>

/** @param burst how often at once */
export function openRateLimit(perSecond: number, burst: number) {
  let left = burst
  let atMs = performance.now()
  return {
    spend(): void {
      const nowMs = performance.now()
      left = Math.min(burst, left + ((nowMs - atMs) * perSecond) / 1000) - 1
      atMs = nowMs
    },
    /** undefined if the next packet may be read; otherwise resolves when it may. */
    ready(link: Pick<Link, 'closed'>): Promise<void> | undefined {
      if (left >= 0) return undefined
      const waitMs = (-left * 1000) / perSecond - (performance.now() - atMs)
      return waitMs > 0 ? pause(waitMs, link.closed()) : undefined
    },
  }
}
