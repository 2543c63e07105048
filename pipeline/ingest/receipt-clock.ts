// When a message was received: the system's clock, with the microseconds that it does not show.

/**
 * Opens a clock in whole microseconds since 1970. It never leaves the millisecond of the system's clock, so it follows every
 * adjustment; within the millisecond the process's own clock tells messages apart.
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
