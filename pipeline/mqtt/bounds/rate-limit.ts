// How often one connection may do what costs the server something and stores nothing. Beyond that its client waits: it is not read.

import { pause } from '../../../config/aborting.ts'

export type RateLimit = ReturnType<typeof openRateLimit>

/**
 * @param burst how often at once
 * @param nowMs a monotonic clock
 */
export function openRateLimit(perSecond: number, burst: number, nowMs: () => number = () => performance.now()) {
  let left = burst
  let atMs = nowMs()
  return {
    spend(): void {
      const now = nowMs()
      left = Math.min(burst, left + ((now - atMs) * perSecond) / 1000) - 1
      atMs = now
    },
    /** Resolves when the next packet may be read. */
    async ready(closed: AbortSignal): Promise<void> {
      const waitMs = (-left * 1000) / perSecond - (nowMs() - atMs)
      if (waitMs > 0) await pause(waitMs, closed)
    },
  }
}
