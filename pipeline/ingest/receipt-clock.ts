// The clock for times of receipt: the system's clock, extended to microseconds.

/**
 * Opens a clock in whole microseconds since 1970. Its millisecond is always that of the system's clock, so it follows every
 * adjustment; within the millisecond the process's own clock distinguishes messages.
 */
export function openReceiptClock(): () => number {
  let offsetMs = Date.now() - performance.now()

  return () => {
    const wallMs = Date.now()
    const fineMs = performance.now() + offsetMs
    if (fineMs >= wallMs && fineMs < wallMs + 1) return Math.floor(fineMs * 1000)
    offsetMs += wallMs - fineMs
    return wallMs * 1000
  }
}
