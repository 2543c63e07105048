// Works on the next of a sequence while the one before is in its consumer's hands: one ahead, never more.

/**
 * The same sequence, each item made ready (`prepare`) before it is asked for. At most two exist at once: the consumer's and
 * the next.
 *
 * Ending it early waits for the item under way: abort what the sequence reads from first.
 */
export async function* readAhead<Item, Ready>(
  items: AsyncGenerator<Item, void, undefined>,
  prepare: (item: Item) => Ready,
): AsyncGenerator<Ready, void, undefined> {
  async function ask(): Promise<{ ready: Ready } | undefined> {
    const { done, value } = await items.next()
    return done === true ? undefined : { ready: prepare(value) }
  }

  let asked = ask()
  try {
    while (true) {
      const next = await asked
      if (next === undefined) return
      asked = ask()
      // Its error is met when the consumer comes back for it.
      asked.catch(() => undefined)
      yield next.ready
    }
  } finally {
    await items.return()
  }
}
