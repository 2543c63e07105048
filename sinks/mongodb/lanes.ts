// A few at once of many requests.

/**
 * Calls `work` for every item, at most so many at once. Where one fails nothing more is begun, those under way are waited for, and what the first
 * in the list of lanes threw is thrown.
 */
export async function inLanes<Item>(items: readonly Item[], lanes: number, work: (item: Item) => Promise<void>): Promise<void> {
  let taken = 0
  let failed = false
  async function lane(): Promise<void> {
    while (taken < items.length && !failed) {
      const item = items[taken++]!
      try {
        await work(item)
      } catch (error) {
        failed = true
        throw error
      }
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: Math.min(lanes, items.length) }, lane))
  const failure = ended.find(one => one.status === 'rejected')
  if (failure !== undefined) throw failure.reason
}
