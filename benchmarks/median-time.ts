// Times a call: turns of equal length, and their median.

/** Nanoseconds for each call of `each`, over one turn of at least `turnMs`. */
export function callNs<Item>(each: (item: Item) => void, items: readonly Item[], turnMs: number): number {
  const start = process.hrtime.bigint()
  const end = start + BigInt(turnMs) * 1_000_000n
  let calls = 0
  let now = start
  while (now < end) {
    for (const item of items) each(item)
    calls += items.length
    now = process.hrtime.bigint()
  }
  return Number(now - start) / calls
}

export function median(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[figures.length >> 1]!
}
