// A run of changing members: writers join and leave the consumer group while messages flow, and committed offsets are compared with the store
// continuously. Used by the suite in its short form, and by `npm run soak`.

import { setTimeout as wait } from 'node:timers/promises'
import { logPartition } from '../../transformers/log-partition.ts'
import { openRandom } from '../fuzz/random.ts'
import type { Counted } from './check.ts'
import { startLoad } from './load.ts'
import { untilReady } from './process.ts'
import { openSite, type Site, shortWaits, stuckMs, sumOf } from './site.ts'
import type { RelationalSite } from './stores/relational.ts'
import { stopFault, verdict } from './verdict.ts'

export interface JoinPlan {
  readonly seed: number
  /** At least, between one join or leave and the next. */
  readonly everyMs: number
  readonly changes: number
  readonly perSecond: number
  /** Whether the members read two topics, each one of them. */
  readonly isApart?: boolean
  readonly onProgress?: (line: string) => void
}

export interface Change {
  readonly what: string
  readonly members: number
  /** Offsets by which the store advanced until the next change. */
  readonly progress: number
  /** The longest time without any progress. */
  readonly stillMs: number
}

export interface JoinReport {
  readonly changes: readonly Change[]
  /** How often commits were compared with the store. */
  readonly looks: number
  readonly counted: Counted
  readonly seconds: number
  readonly faults: readonly string[]
}

const places = 3
const faultsMax = 20

export async function joinRun({ seed, everyMs, changes: count, perSecond, isApart = false, onProgress }: JoinPlan): Promise<JoinReport> {
  const random = openRandom(seed, 'joins', 0)
  const topics = isApart ? { isApart, partitions: [6, 4] } : {}
  const site = await openSite({ places, ...topics, environment: { ...shortWaits, SVC_WORKERS_COUNT: '1', SVC_BATCH_AGE_MS: '50' } })
  const startedMs = performance.now()
  const watching = new AbortController()
  try {
    await untilReady(await site.start(0))
    const load = await startLoad(site.kafka.brokers, site.topics, { perSecond })
    await load.flowing
    const watched = watch(site, watching.signal)
    const faults: string[] = []
    const changes: Change[] = []
    const leaving: Promise<void>[] = []
    let stored = sumOf(await site.positions())
    for (let nth = 0; nth < count; nth++) {
      // A member that has just joined is ready before another one leaves.
      for (const writer of site.writers) if (writer !== undefined) await untilReady(writer)
      const untilMs = performance.now() + everyMs
      watched.restart()
      const working = [...site.writers.keys()].filter(place => site.writers[place] !== undefined)
      const free = [...site.writers.keys()].filter(place => site.writers[place] === undefined)
      const joins = free.length > 0 && (working.length === 1 || random.oneIn(2))
      const place = random.pick(joins ? free : working)
      // Some are killed and do not leave the group.
      const signal = random.oneIn(3) ? 'SIGKILL' : 'SIGTERM'
      if (joins) await site.start(place)
      else leaving.push(stopFault(site, place, signal).then(found => void faults.push(...found)))
      await wait(Math.max(0, untilMs - performance.now()))
      const now = await storedBeyond(site, stored)
      const change = {
        what: joins ? `member ${place} joins` : `member ${place} leaves (${signal})`,
        members: site.writers.filter(writer => writer !== undefined).length,
        progress: now - stored,
        stillMs: watched.stillMs(),
      }
      if (change.progress <= 0) faults.push(`the store did not go on: ${change.what}`)
      stored = now
      changes.push(change)
      onProgress?.(
        `${String(nth + 1).padStart(3)}  ${((performance.now() - startedMs) / 1000).toFixed(1)} s  ${change.what}, ${change.members} work: ${change.progress} settled, still for ${change.stillMs} ms at most`,
      )
    }
    await Promise.all(leaving)
    // A topic without a member would not be stored to its end.
    if (isApart) for (const place of site.topics.keys()) if (site.writers[place] === undefined) await site.start(place)
    const end = await verdict(site, load)
    watching.abort()
    const { looks, ahead } = await watched.done
    return {
      changes,
      looks,
      counted: end.counted,
      seconds: Math.round((performance.now() - startedMs) / 1000),
      faults: [...faults, ...ahead, ...end.faults],
    }
  } finally {
    watching.abort()
    await site.close()
  }
}

/** The sum of positions when it has advanced, or when the writers are stuck. */
async function storedBeyond(site: Site<RelationalSite>, before: number): Promise<number> {
  const untilMs = performance.now() + stuckMs
  for (;;) {
    const now = sumOf(await site.positions())
    if (now > before || performance.now() > untilMs) return now
    await wait(25)
  }
}

interface Watched {
  /** Since `restart`. */
  stillMs(): number
  restart(): void
  readonly done: Promise<{ looks: number; ahead: string[] }>
}

/** Repeatedly reads the group's commits and then the store's positions, which only increase. */
function watch({ tools, store, topics, group }: Site<RelationalSite>, ending: AbortSignal): Watched {
  let stillSinceMs = performance.now()
  let longestMs = 0
  const still = (): number => Math.round(Math.max(longestMs, performance.now() - stillSinceMs))

  async function committedOffsets(): Promise<[number, number][]> {
    const found = await Promise.all(topics.map(topic => tools.committed(topic, group)))
    return found.flatMap((offsets, log) => Array.from(offsets, ([partition, offset]) => [logPartition(log, partition), offset] as const))
  }

  async function look(): Promise<{ looks: number; ahead: string[] }> {
    const ahead: string[] = []
    let looks = 0
    let before = 0
    while (!ending.aborted) {
      // The query for commits may have to be retried.
      const committed = await committedOffsets().catch(() => undefined)
      const positions = await store.positions()
      for (const [partition, offset] of committed ?? []) {
        const settled = positions.get(partition) ?? 0
        if (offset > settled && ahead.length < faultsMax)
          ahead.push(`partition ${partition}: ${offset} is committed, and the store goes on at ${settled}`)
      }
      if (committed !== undefined) looks++
      const now = sumOf(positions)
      if (now > before) {
        longestMs = still()
        stillSinceMs = performance.now()
      }
      before = now
      await wait(25)
    }
    return { looks, ahead }
  }

  return {
    stillMs: still,
    restart() {
      longestMs = 0
      stillSinceMs = performance.now()
    },
    done: look(),
  }
}
