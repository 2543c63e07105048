// Prepares the next item of a sequence while the consumer works on the current one: at most one ahead.

/**
 * The same sequence, with each item prepared (`prepare`, awaited) before it is requested. At most two exist at once: the consumer's and the next.
 *
 * Ending it early waits for the item in progress: first abort what the sequence reads from.
 */
export async function* readAhead<Item, Ready>(
  items: AsyncGenerator<Item, void, undefined>,
  prepare: (item: Item) => Ready | Promise<Ready>,
): AsyncGenerator<Ready, void, undefined> {
  async function ask(): Promise<{ ready: Ready } | undefined> {
    const { done, value } = await items.next()
    return done === true ? undefined : { ready: await prepare(value) }
  }

  let asked = ask()
  try {
    while (true) {
      const next = await asked
      if (next === undefined) return
      asked = ask()
      // Its error is thrown when the consumer requests it.
      asked.catch(() => undefined)
      yield next.ready
    }
  } finally {
    await items.return()
  }
}
