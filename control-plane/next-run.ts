// Runs work one at a time and shares it: each caller gets the first run that begins after its call.

export function openNextRun<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let current: Promise<unknown> = Promise.resolve()
  let next: Promise<Result> | undefined
  return () => {
    next ??= current
      .catch(() => undefined)
      .then(() => {
        next = undefined
        const run = work()
        current = run
        return run
      })
    return next
  }
}
