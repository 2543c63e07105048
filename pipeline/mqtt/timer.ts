// A timer that can begin again, so that a connection needs one for all its packets.

export interface Timer {
  /** Begins again, also after it has fired. */
  restart(): void
  stop(): void
}

export type StartTimer = (waitMs: number, call: () => void) => Timer

/** Timers of the process, which do not keep it running. */
export const startTimer: StartTimer = (waitMs, call) => {
  const timer = setTimeout(call, waitMs).unref()
  return { restart: () => void timer.refresh(), stop: () => clearTimeout(timer) }
}
