// Fetches a share of the topic ahead of whoever works on it: record sets into a queue that is bounded in bytes. Longer than most files:
// all of it works on the state of one share.
//
//   each leader has one fetch on its way ──▶ its answer is cut by partitions ──▶ queue ──▶ next()
//                        ▲                                                          │
//                        └── while what waits and what may come leave room ◀── release()
//
// Room is taken for a whole answer before it is asked for, so the queue's bytes bound what is in memory whatever the number of leaders;
// when nothing waits and nothing is on its way, one fetch goes whatever the room. An answer counts until the last of its record sets was
// released, since they are views into it.
//
// What has no leader, or one that does not answer, is asked for again and again while the rest goes on. Only where nothing of the share can be
// fetched is the log away.
//
// Where an answer ends is read from the heads of its batches, so that the next fetch is on its way before anything is decoded.

import type { Logger } from '../../../config/logger.ts'
import { type OutageReport, openOutage } from '../../../config/outage.ts'
import { LogUnavailableError } from '../../log.ts'
import { waitBefore } from '../../retry.ts'
import { SystemicError } from '../../systemic-error.ts'
import type { AbortedTransaction } from '../aborted-transactions.ts'
import { code } from '../failure.ts'
import { endOf } from './batch-ends.ts'
import type { Cluster } from './cluster.ts'
import { logFailure, partitionFailure, settle } from './failure.ts'
import type { FetchedPartition } from './fetch-request.ts'
import { nobody } from './metadata-request.ts'
import type { Topic } from './topic.ts'

export interface FetchBounds {
  /** Of one answer, and of a partition in it. A batch that is larger comes whole. */
  readonly fetchBytes: number
  readonly partitionBytes: number
  /** What may wait and be on its way. */
  readonly queueBytes: number
  /** How long a broker waits for a first message. */
  readonly waitMs: number
  /** After so long without an answer from any leader of the share the log counts as away. */
  readonly patienceMs: number
}

/** A record set: what `runsOf` takes. */
export interface FetchedSet {
  readonly partition: number
  readonly from: number
  readonly next: number
  readonly set: Uint8Array
  readonly aborted: readonly AbortedTransaction[]
  /** It is not looked at any more. */
  release(): void
}

/** Where a partition goes on. */
export interface Place {
  /** The next record set covers the offsets from here on; undefined is from the log's start on, which is not known yet. */
  readonly from: number | undefined
  /** The offset to ask for: above `from` where messages are lost; 0 where that is not known. */
  readonly next: number
}

export interface Fetching {
  /**
   * The next record set, each partition's contiguous; undefined when `ending` has aborted.
   *
   * @throws what `relocate` throws, SystemicError, and LogUnavailableError, each after what was fetched before
   */
  next(): Promise<FetchedSet | undefined>
}

interface PartitionState extends Place {
  readonly partition: number
  from: number | undefined
  next: number
  leader: number
  /** Grows: who was served last is asked for last, since a broker fills its answer in the order of the question. */
  servedAt: number
}

/** Failures in a row of a leader, or of the look who leads. */
interface Failures {
  count: number
  readonly sinceMs: number
}

const backOff = { waitMsMin: 50, waitMsMax: 2000 }

/**
 * @param relocate asked where to go on when a broker does not hold the offset that was asked for
 * @param ending ends it: what is on its way is dropped when it comes
 */
export function openFetching(
  cluster: Cluster,
  topic: Topic,
  places: ReadonlyMap<number, Place>,
  bounds: FetchBounds,
  relocate: (partition: number, from: number | undefined) => Promise<Place>,
  logger: Logger,
  ending: AbortSignal,
): Fetching {
  const states = new Map<number, PartitionState>()
  for (const [partition, { from, next }] of places) states.set(partition, { partition, from, next, leader: nobody, servedAt: 0 })
  const queue: FetchedSet[] = []
  const busy = new Set<number>()
  /** Of leaders that failed: when they are asked again. */
  const resting = new Map<number, NodeJS.Timeout>()
  const failures = new Map<number, Failures>()
  /** Of leaders that have failed before. */
  const outages = new Map<number, OutageReport>()
  let topicId = ''
  let takenBytes = 0
  let served = 0
  let failure: Error | undefined
  let wake = Promise.withResolvers<void>()
  const lookup = { running: false, isNeeded: true }

  ending.addEventListener('abort', end, { once: true })
  if (ending.aborted) end()
  else pump()

  function end(): void {
    for (const timer of resting.values()) clearTimeout(timer)
    queue.length = 0
    wake.resolve()
  }

  function fail(error: Error): void {
    failure ??= error
    wake.resolve()
  }

  function hasRoom(): boolean {
    return takenBytes === 0 || takenBytes + bounds.fetchBytes <= bounds.queueBytes
  }

  /** Asks whoever can be asked. Called whenever there may be room, a leader, or somebody who has rested. */
  function pump(): void {
    if (ending.aborted || failure !== undefined) return
    if (lookup.isNeeded && !lookup.running && !resting.has(nobody)) void lookUp()
    const idle = Map.groupBy(states.values(), ({ leader }) => leader)
    for (const [leader, led] of [...idle].sort(([, left], [, right]) => leastServed(left) - leastServed(right))) {
      if (leader === nobody || busy.has(leader) || resting.has(leader)) continue
      if (!hasRoom()) return
      busy.add(leader)
      takenBytes += bounds.fetchBytes
      void ask(
        leader,
        led.toSorted((left, right) => left.servedAt - right.servedAt),
      )
    }
  }

  async function lookUp(): Promise<void> {
    lookup.running = true
    lookup.isNeeded = false
    try {
      const found = await topic.now()
      topicId = found.id
      for (const { partition, leader } of found.partitions) {
        const state = states.get(partition)
        if (state !== undefined) state.leader = leader
      }
      const leaders = new Set([...states.values()].map(({ leader }) => leader))
      // Of a broker that leads nothing of the share, nothing will be known until it does.
      for (const leader of failures.keys()) if (leader !== nobody && !leaders.has(leader)) forget(leader)
      const leaderless = [...states.values()].filter(({ leader }) => leader === nobody).map(({ partition }) => partition)
      if (leaderless.length > 0)
        throw new LogUnavailableError(`the partitions ${leaderless.join(', ')} of the topic ${topic.name} have no leader`)
      recover(nobody)
    } catch (error) {
      lookup.isNeeded = true
      rest(nobody, error)
    }
    lookup.running = false
    pump()
  }

  async function ask(leader: number, led: readonly PartitionState[]): Promise<void> {
    let answerBytes = 0
    try {
      const { fetchBytes, partitionBytes, waitMs } = bounds
      const partitions = led.map(({ partition, next }) => ({ partition, offset: next }))
      const question = { topicId, partitions, waitMs, bytesMax: fetchBytes, partitionBytesMax: partitionBytes }
      const answer = await cluster.atLeader(leader, broker => broker.fetch(question))
      if (ending.aborted) return
      const filled = answer.partitions.filter(({ records }) => records.length > 0)
      if (filled.length > 0) answerBytes = filled[0]!.records.buffer.byteLength
      take(filled, answerBytes)
      const faulty = answer.partitions.filter(({ error }) => error !== code.none)
      const { failure } = await settle(faulty.map(({ partition, error }) => mend(partition, error)))
      if (failure !== undefined) throw failure
      if (answer.error !== code.none) throw new LogUnavailableError(`a broker refuses to be fetched from (error ${answer.error})`)
      recover(leader)
    } catch (error) {
      if (!ending.aborted) rest(leader, error)
    } finally {
      takenBytes += answerBytes - bounds.fetchBytes
      busy.delete(leader)
      pump()
    }
  }

  function take(filled: readonly FetchedPartition[], answerBytes: number): void {
    let held = filled.length
    for (const { partition, records, aborted } of filled) {
      const state = states.get(partition)!
      const { next, from = next } = state
      state.servedAt = ++served
      state.from = state.next = endOf(records, next)
      let isHeld = true
      queue.push({
        partition,
        from,
        next,
        set: records,
        aborted,
        release() {
          if (!isHeld) return
          isHeld = false
          if (--held === 0) takenBytes -= answerBytes
          pump()
        },
      })
    }
    if (filled.length > 0) wake.resolve()
  }

  /** What a broker said of one partition. The other partitions of its answer are good. */
  async function mend(partition: number, error: number): Promise<void> {
    const state = states.get(partition)!
    if (error === code.offsetOutOfRange) {
      const { from } = state
      const place = await relocate(partition, from)
      // The next leader may have been fetched from meanwhile.
      if (state.from !== from) return
      state.from = place.from
      state.next = place.next
      return
    }
    throw partitionFailure(error, topic.name, partition, state.next)
  }

  /** Leaves a leader alone for a while, and looks who leads; gives up where all have failed for too long. `nobody` is the look who leads. */
  function rest(leader: number, error: unknown): void {
    const found = logFailure(error, `the topic ${topic.name} cannot be fetched`)
    if (found instanceof SystemicError) return fail(found)
    const before = failures.get(leader) ?? { count: 0, sinceMs: performance.now() }
    before.count++
    failures.set(leader, before)
    if (hasLasted(before) && isAway()) return fail(found)
    const waitMs = waitBefore(before.count, backOff)
    outageOf(leader).failed(found, { waitMs, meanwhile: 'the other partitions are read' })
    if (leader !== nobody) lookup.isNeeded = true
    const timer = setTimeout(() => {
      resting.delete(leader)
      pump()
    }, waitMs)
    resting.set(leader, timer)
  }

  function hasLasted(failed: Failures | undefined): boolean {
    return failed !== undefined && performance.now() - failed.sinceMs >= bounds.patienceMs
  }

  /** Nothing of the share can be fetched. */
  function isAway(): boolean {
    return [...states.values()].every(({ leader }) => hasLasted(failures.get(leader)))
  }

  function recover(leader: number): void {
    failures.delete(leader)
    outages.get(leader)?.recovered()
  }

  function forget(leader: number): void {
    failures.delete(leader)
    outages.get(leader)?.close()
  }

  function outageOf(leader: number): OutageReport {
    let outage = outages.get(leader)
    if (outage === undefined) {
      const name = leader === nobody ? `the leader of a partition of ${topic.name}` : `broker ${leader}`
      outage = openOutage({ logger, dependency: 'broker', name, patienceMs: bounds.patienceMs })()
      outages.set(leader, outage)
    }
    return outage
  }

  return {
    async next() {
      while (!ending.aborted) {
        const set = queue.shift()
        if (set !== undefined) return set
        if (failure !== undefined) throw failure
        wake = Promise.withResolvers()
        await wake.promise
      }
      return undefined
    },
  }
}

function leastServed(states: readonly PartitionState[]): number {
  return states.reduce((least, { servedAt }) => Math.min(least, servedAt), Number.POSITIVE_INFINITY)
}
