// Caches the leaders of a topic's partitions.

import type { Admin, Broker } from '@platformatic/kafka'
import { describeTopic, type Topic } from './topics.ts'

export interface Leaders {
  readonly topic: Topic
  /** The leader; undefined while the partition has none. */
  of(partition: number): Broker | undefined
  /** Refreshes in the background, unless that is already running. Callers use the old answer meanwhile. */
  refresh(): void
  /** Refreshes if the last answer is old, because partitions may be added to a topic. */
  keepFresh(nowMs: number): void
}

const ageMsMax = 60_000

/** @param onFailure called with the error if no broker answers */
export function openLeaders(admin: Admin, first: Topic, onFailure: (error: unknown) => void): Leaders {
  let topic = first
  let readMs = performance.now()
  let refreshing = false
  let attempts = 0

  function refresh(): void {
    if (refreshing) return
    refreshing = true
    describeTopic(admin, topic.name, attempts++)
      .then(found => {
        topic = found ?? topic
      })
      .catch(onFailure)
      .finally(() => {
        readMs = performance.now()
        refreshing = false
      })
  }

  return {
    get topic() {
      return topic
    },
    of: partition => topic.leaders[partition],
    refresh,
    keepFresh(nowMs) {
      if (nowMs - readMs > ageMsMax) refresh()
    },
  }
}

export function addressOf({ host, port }: Broker): string {
  return `${host}:${port}`
}
