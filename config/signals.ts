// Handles SIGTERM and SIGINT: the first one aborts a signal; a second one, or a deadline, ends the process.

/** Exit codes by shell convention: 128 plus the signal's number. */
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const
type StopSignal = keyof typeof exitCodes

/** npm forwards a Ctrl-C that the terminal already sent to the whole process group: a second signal within this time is the same one. */
const repeatMs = 500

export interface StopOptions {
  /** Milliseconds from the first signal until the process is ended regardless. */
  readonly deadlineMs?: number
  /** Called once, with the first signal. */
  readonly onStop?: (signal: StopSignal) => void
  /** Called when the deadline has passed, before the process exits with 1. Messages that were not stored are read again by the next start. */
  readonly onDeadline?: () => void
}

export interface Stop {
  /** Aborts with the first signal. */
  readonly signal: AbortSignal
  /** Removes the signal handlers and the deadline; call it when everything is closed. */
  dispose(): void
}

/** Starts to listen for SIGTERM and SIGINT. Call it once in a process, before anything slow. */
export function stopOnSignals({ deadlineMs = 5000, onStop, onDeadline }: StopOptions = {}): Stop {
  const controller = new AbortController()
  let first: { signal: StopSignal; atMs: number } | undefined
  let deadline: NodeJS.Timeout | undefined

  const handle = (signal: StopSignal): void => {
    const nowMs = performance.now()
    if (first === undefined) {
      first = { signal, atMs: nowMs }
      deadline = setTimeout(() => {
        onDeadline?.()
        process.exit(1)
      }, deadlineMs).unref()
      onStop?.(signal)
      controller.abort(new DOMException(`stopped by ${signal}`, 'AbortError'))
      return
    }
    if (first.signal === signal && nowMs - first.atMs < repeatMs) return
    process.exit(exitCodes[signal])
  }

  process.on('SIGINT', handle)
  process.on('SIGTERM', handle)
  return {
    signal: controller.signal,
    dispose() {
      clearTimeout(deadline)
      process.off('SIGINT', handle)
      process.off('SIGTERM', handle)
    },
  }
}
