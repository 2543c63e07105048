// Runs many requests, a few at a time.

/**
 * Calls `work` for every item, with at most `atOnce` calls in flight. When one fails it starts no more, waits for those in flight, and throws the
 * first failure.
 */
export async function eachAtOnce<Item>(items: readonly Item[], atOnce: number, work: (item: Item) => Promise<void>): Promise<void> {
  let next = 0
  let failure: { readonly error: unknown } | undefined
  async function inTurn(): Promise<void> {
    while (next < items.length && failure === undefined) {
      try {
        await work(items[next++]!)
      } catch (error) {
        failure ??= { error }
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, inTurn))
  if (failure !== undefined) throw failure.error
}
