// Work that is due for some of many: so many at once, and again after a second those for which it could not be done.

import { pause } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import { isUnavailable } from './reasons.ts'

interface DueParts<Item> {
  readonly atOnce: number
  /** @returns those for which it could not be done; all if it throws */
  readonly work: (items: readonly Item[]) => Promise<readonly Item[]>
  readonly logger: Pick<Logger, 'error'>
  /** What is logged if it throws, unless something it needs is away. */
  readonly failure: string
}

const retryMs = 1_000

export function openDue<Item>({ atOnce, work, logger, failure }: DueParts<Item>) {
  const stop = new AbortController()
  const due = new Set<Item>()
  let isWorking = false

  async function run(): Promise<void> {
    if (isWorking) return
    isWorking = true
    while (due.size > 0 && !stop.signal.aborted) {
      const some = [...due].slice(0, atOnce)
      // Before the work, as each may become due meanwhile.
      for (const one of some) due.delete(one)
      const left = await work(some).catch((error: unknown) => {
        if (!isUnavailable(error)) logger.error({ err: error }, failure)
        return some
      })
      for (const one of left) due.add(one)
      if (left.length > 0) await pause(retryMs, stop.signal)
    }
    isWorking = false
  }

  return {
    add(items: Iterable<Item>): void {
      for (const one of items) due.add(one)
      void run()
    },
    stop: (): void => stop.abort(),
  }
}
