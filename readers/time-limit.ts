// The time limit of one store request, which also ends when its caller disconnects.

import { QueryTooLargeError } from './reader.ts'

/** The remaining time of a request. */
export interface TimeLimit {
  /** Aborts when the caller disconnects, when the time is over, and when the work has ended, so that no part of it continues. */
  readonly signal: AbortSignal
  /**
   * The remaining time, at least 1.
   *
   * @throws the signal's reason if it has aborted
   * @throws QueryTooLargeError if no time is left
   */
  remainingMs(): number
}

/** The time limit of a request, and the conversion of its errors. */
export interface TimeLimitParts {
  readonly timeoutMs: number
  /** Extra time for a store that cancels its statements itself. */
  readonly graceMs?: number
  /**
   * The error after the time limit: by default QueryTooLargeError. Set it if the store can tell whether it is away rather than busy.
   *
   * @param cause the error of the work
   */
  readonly expired?: (cause: unknown) => Error | Promise<Error>
  /** Converts a store's error into one of the contract. */
  readonly explain?: (error: unknown) => unknown
}

/**
 * @throws the reason of the caller's signal, if that has aborted
 * @throws the results of `expired` and `explain`
 */
export async function withinTimeLimit<Result>(
  caller: AbortSignal,
  { timeoutMs, graceMs = 0, expired = tookTooLong, explain = error => error }: TimeLimitParts,
  work: (limit: TimeLimit) => Promise<Result>,
): Promise<Result> {
  caller.throwIfAborted()
  const controller = new AbortController()
  const { signal } = controller
  const endMs = performance.now() + timeoutMs
  const onAbort = (): void => controller.abort(caller.reason)
  caller.addEventListener('abort', onAbort, { once: true })
  let isOver = false
  const timer = setTimeout(() => {
    isOver = true
    controller.abort(new Error('the request has timed out'))
  }, timeoutMs + graceMs)
  try {
    return await work({
      signal,
      remainingMs() {
        signal.throwIfAborted()
        const remainingMs = Math.ceil(endMs - performance.now())
        if (remainingMs < 1) throw tookTooLong()
        return remainingMs
      },
    })
  } catch (error) {
    caller.throwIfAborted()
    throw isOver ? await expired(error) : explain(error)
  } finally {
    clearTimeout(timer)
    caller.removeEventListener('abort', onAbort)
    controller.abort(ended)
  }
}

const ended = new Error('the request has ended')

/** The error for a query that took too long. */
export function tookTooLong(cause?: unknown): QueryTooLargeError {
  return new QueryTooLargeError('the query exceeded the time limit of the store: narrow it with name, publisher, from or to', { cause })
}
