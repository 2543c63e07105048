// Waiting that ends when a signal aborts.

/** What the promise resolves with, unless the signal aborts first; then its reason is thrown. The promise goes on, and nobody minds how it ends. */
export async function unlessAborted<Result>(promise: Promise<Result>, signal: AbortSignal): Promise<Result> {
  promise.catch(() => undefined)
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort)
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
