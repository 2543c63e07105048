// The kill run: while messages flow, something repeatedly dies, freezes or is cut off; at the end no message is lost or duplicated.
// Used by the suite in its short form, and by `npm run soak`.

import { setTimeout as wait } from 'node:timers/promises'
import { openRandom, type Random } from '../fuzz/random.ts'
import { foreignLayout } from '../pipeline/envelope/foreign-messages.ts'
import type { Counted } from './check.ts'
import { calm, type FaultKind, faultKinds, faultNames, usualLatencyMs } from './faults.ts'
import { type Load, startLoad } from './load.ts'
import { untilReady } from './process.ts'
import { openSiteOn, type Site, shortWaits } from './site.ts'
import { openRelationalSite } from './stores/relational.ts'
import type { StoreSite } from './stores/store-site.ts'
import { verdict } from './verdict.ts'

export interface KillPlan {
  readonly seed: number
  /** How often each kind of fault strikes. */
  readonly rounds: number
  /** All by default. */
  readonly kinds?: readonly FaultKind[]
  /** A relational store by default. */
  readonly openStore?: () => Promise<StoreSite>
  /** Of each topic; one with twelve by default. */
  readonly partitions?: readonly number[]
  /** Whether each of the writers reads a topic of its own, in one group. */
  readonly isApart?: boolean
  /** Whether the writers are static members of their group. */
  readonly isNamed?: boolean
  /** Whether the topic is one of another producer. */
  readonly isForeign?: boolean
  /** Further rounds begin until so many messages are acknowledged. */
  readonly acknowledgedMin?: number
  /** No further round begins after this time. */
  readonly msMax?: number
  readonly perSecond: number
  readonly onProgress?: (line: string) => void
}

export interface Strike {
  readonly kind: FaultKind
  readonly detail: string
  /** Acknowledged by the log and not settled by the store, just before the fault. */
  readonly inFlight: number
  /** Those that are in the writers themselves, by their metrics, which may be a second old. */
  readonly inWriters: number
  /** Time from the fault until everything then in flight was settled; undefined if the next fault came earlier, or if the writers are stuck. */
  readonly recoveredMs: number | undefined
  /** What the writers logged last, if they are stuck. */
  readonly stuck?: string
}

export interface KillReport {
  readonly strikes: readonly Strike[]
  readonly counted: Counted
  readonly seconds: number
  /** Empty if no message is lost or duplicated. */
  readonly faults: readonly string[]
}

export async function killRun(plan: KillPlan): Promise<KillReport> {
  const {
    seed,
    rounds,
    openStore = openRelationalSite,
    kinds = faultNames,
    partitions = [12],
    isApart = false,
    isNamed = false,
    isForeign = false,
    acknowledgedMin = 0,
    msMax = Number.POSITIVE_INFINITY,
    perSecond,
    onProgress,
  } = plan
  const order = openRandom(seed, 'kills', 0)
  // Small batches, of which one is usually in flight.
  const environment = { ...shortWaits, SVC_WORKERS_COUNT: '2', SVC_BATCH_AGE_MS: '20' }
  const site = await openSiteOn<StoreSite>(openStore, {
    partitions,
    places: 2,
    isApart,
    isNamed,
    layout: isForeign ? foreignLayout : {},
    environment,
  })
  const startedMs = performance.now()
  try {
    await calm(site.store.proxy, usualLatencyMs)
    for (const writer of await Promise.all([site.start(0), site.start(1)])) await untilReady(writer)
    const load = await startLoad(site.kafka.brokers, site.topics, { perSecond, store: site.store.name, isForeign })
    try {
      await load.flowing
      const strikes: Strike[] = []
      const faults: string[] = []
      const isMore = (round: number): boolean => round < rounds || load.acknowledged() < acknowledgedMin
      for (let round = 0; isMore(round) && performance.now() - startedMs < msMax; round++) {
        for (const kind of shuffled(kinds, order)) {
          const strike = await struck(site, load, kind, openRandom(seed, 'strikes', strikes.length), faults)
          strikes.push(strike)
          onProgress?.(lineOf(strikes.length, strike, performance.now() - startedMs))
        }
      }
      onProgress?.('the load ends, and the writers drain')
      const end = await verdict(site, load)
      return {
        strikes,
        counted: end.counted,
        seconds: Math.round((performance.now() - startedMs) / 1000),
        faults: [...faults, ...end.faults],
      }
    } finally {
      // Also after a failure: a running load keeps the process alive.
      await load.stop()
    }
  } finally {
    await site.close()
  }
}

/** Strikes once. A moment at which nothing is in flight shows nothing, so another one is chosen. */
async function struck(site: Site, load: Load, kind: FaultKind, random: Random, faults: string[]): Promise<Strike> {
  for (;;) {
    await wait(random.below(300))
    const fault = faultKinds[kind](site, random)
    const { ends, inFlight, inWriters } = await look(site, load, fault.place)
    if (inFlight <= 0 || (fault.place !== undefined && inWriters <= 0)) continue
    const struckMs = performance.now()
    await fault.strike()
    await fault.end()
    // Sometimes the next fault comes before recovery.
    if (random.oneIn(4)) return { kind, detail: fault.detail, inFlight, inWriters, recoveredMs: undefined }
    if (await site.untilStored(ends)) {
      return { kind, detail: fault.detail, inFlight, inWriters, recoveredMs: Math.round(performance.now() - struckMs) }
    }
    const stuck = `not recovered: ${kind}, ${fault.detail}\n${lastLogged(site)}`
    faults.push(stuck)
    return { kind, detail: fault.detail, inFlight, inWriters, recoveredMs: undefined, stuck }
  }
}

const linesShown = 20

/** Without dead letters, which the load contains. */
function lastLogged({ writers }: Site): string {
  return writers
    .map((writer, place) => {
      const lines = (writer?.printed() ?? '').split('\n').filter(line => !line.includes('messages dead-lettered'))
      return [`writer ${place}:`, ...lines.slice(-linesShown)].join('\n')
    })
    .join('\n')
}

/** What is in flight: acknowledged by the log before the store was asked, and not settled in its answer; and in the writers, or the one in that place. */
async function look(site: Site, load: Load, place: number | undefined) {
  const asked = site.writers.filter((writer, at) => writer !== undefined && (place === undefined || at === place))
  const held = await Promise.all(asked.map(writer => writer!.metric('buffer_events').catch(() => 0)))
  const inWriters = held.reduce((sum, one) => sum + (one || 0), 0)
  const ends = new Map(load.ends())
  // A server may be just coming back: then nothing is known to be in flight.
  const positions = await site.positions().catch(() => ends)
  let inFlight = 0
  for (const [partition, end] of ends) inFlight += Math.max(0, end - (positions.get(partition) ?? 0))
  return { ends, inFlight, inWriters }
}

export function lineOf(nth: number, { kind, detail, inFlight, inWriters, recoveredMs, stuck }: Strike, atMs: number): string {
  const recovered = stuck ?? (recoveredMs === undefined ? 'the next one comes before it has recovered' : `recovered in ${recoveredMs} ms`)
  return `${String(nth).padStart(3)}  ${(atMs / 1000).toFixed(1)} s  ${kind} (${detail}): ${inFlight} in flight, ${inWriters} in writers; ${recovered}`
}

function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  const left = [...items]
  const order: Item[] = []
  while (left.length > 0) order.push(...left.splice(random.below(left.length), 1))
  return order
}
