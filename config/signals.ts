// Stopping: the first SIGTERM or SIGINT aborts a signal, and a second one, or a deadline, ends the process.

/** Exit codes by the shell's convention: 128 and the signal's number. */
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const
type StopSignal = keyof typeof exitCodes

/** npm passes a Ctrl-C on that the terminal has sent to the whole group already: within this time it is the same one. */
const repeatMs = 500

export interface StopOptions {
  /** Milliseconds from the first signal to an end that nothing delays. */
  readonly deadlineMs?: number
  /** Called once, with the first signal. */
  readonly onStop?: (signal: StopSignal) => void
  /** Called when the deadline has passed, before the process ends with code 1: what was not stored is taken again by the next start. */
  readonly onDeadline?: () => void
}

export interface Stop {
  /** Aborts with the first signal. */
  readonly signal: AbortSignal
  /** Lets go of the signals' handlers and the deadline: everything is closed. */
  dispose(): void
}

/** Listens for SIGTERM and SIGINT from here on. Call once in a process, before anything that takes long. */
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
