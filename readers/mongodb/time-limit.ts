// How long one question may take, and the end of it: the caller's signal, the time that it has in the store, or a store that says nothing.

import { QueryTooLargeError, StoreUnavailableError } from '../reader.ts'

export interface TimeLimit {
  /** Of everything that is done for the question; aborts with what the caller is to be told. */
  readonly signal: AbortSignal
  /**
   * What is left for the store, at least 1.
   *
   * @throws the signal's reason where it has aborted
   * @throws QueryTooLargeError where nothing is left
   */
  remainingMs(): number
  /** What `work` gives; once the signal has aborted nobody waits for it. */
  within<Result>(work: Promise<Result>): Promise<Result>
  /** To be called when the question is answered. */
  end(): void
}

/** A server says by itself that the time is up, unless it is halted, or cut off. */
const silenceMsMax = 1_000

/** @param queryTimeoutMs that the store has for all that it is asked */
export function openTimeLimit(caller: AbortSignal, queryTimeoutMs: number): TimeLimit {
  caller.throwIfAborted()
  const ending = new AbortController()
  const { signal } = ending
  const endMs = performance.now() + queryTimeoutMs
  const onAbort = (): void => ending.abort(caller.reason)
  caller.addEventListener('abort', onAbort, { once: true })
  const silent = (): void => ending.abort(new StoreUnavailableError(`the store has not answered in ${queryTimeoutMs} ms`))
  const timer = setTimeout(silent, queryTimeoutMs + silenceMsMax)

  return {
    signal,
    remainingMs() {
      signal.throwIfAborted()
      const remainingMs = Math.ceil(endMs - performance.now())
      if (remainingMs < 1) throw tookTooLong()
      return remainingMs
    },
    async within(work) {
      const aborted = Promise.withResolvers<never>()
      const reject = (): void => aborted.reject(signal.reason)
      if (signal.aborted) reject()
      signal.addEventListener('abort', reject, { once: true })
      try {
        return await Promise.race([aborted.promise, work])
      } finally {
        signal.removeEventListener('abort', reject)
      }
    },
    end() {
      clearTimeout(timer)
      caller.removeEventListener('abort', onAbort)
    },
  }
}

export function tookTooLong(cause?: unknown): QueryTooLargeError {
  return new QueryTooLargeError('the store took longer than one question may: ask for less by name, publisher, from and to', { cause })
}
