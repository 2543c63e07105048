// Notices when the machine stood still: a paused virtual machine, or a laptop that slept. Whatever ran then says nothing.

export interface Standstill {
  /** As of `performance.now()`. */
  readonly fromMs: number
  readonly toMs: number
}

export interface StandstillWatch {
  /** All so far. */
  readonly seen: readonly Standstill[]
  stop(): void
}

/** A longer pause between two ticks is one in which the machine did not run. */
const pauseMsMax = 5_000
const tickMs = 1_000

/**
 * Two clocks, because the monotonic one of Linux does not advance while a laptop sleeps. A clock that was set back is none.
 *
 * @param report gets each, when it is over
 */
export function watchStandstills(
  report: (seconds: number) => void,
  clocks: () => { wallMs: number; monotonicMs: number } = () => ({ wallMs: Date.now(), monotonicMs: performance.now() }),
): StandstillWatch {
  const seen: Standstill[] = []
  let last = clocks()
  const timer = setInterval(() => {
    const now = clocks()
    const pausedMs = Math.max(now.wallMs - last.wallMs, now.monotonicMs - last.monotonicMs)
    if (pausedMs > pauseMsMax) {
      seen.push({ fromMs: last.monotonicMs, toMs: now.monotonicMs })
      report(pausedMs / 1000)
    }
    last = now
  }, tickMs)
  timer.unref()
  return { seen, stop: () => clearInterval(timer) }
}

/** True if one of them began or ended while it ran. */
export function stoodStill({ startMs, endMs }: { startMs: number; endMs: number }, standstills: readonly Standstill[]): boolean {
  return standstills.some(({ fromMs, toMs }) => fromMs <= endMs && toMs >= startMs)
}
