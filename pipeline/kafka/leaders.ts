// Who leads the partitions of a topic, as the brokers said last.

import type { Admin, Broker } from '@platformatic/kafka'
import { describeTopic, type Topic } from './topics.ts'

export interface Leaders {
  readonly topic: Topic
  /** undefined while the partition has none. */
  of(partition: number): Broker | undefined
  /** Asks anew, unless that is under way. Whoever needs an answer goes on with the one before. */
  refresh(): void
  /** Asks anew where the last answer is old: partitions may be added to a topic. */
  keepFresh(nowMs: number): void
}

const ageMsMax = 60_000

/** @param onFailure told why nobody answered */
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
