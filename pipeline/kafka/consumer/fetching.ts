// Fetches record sets of a share of the log ahead of their processing, into a queue bounded in bytes. Longer than most files, because
// all of it works on the state of one share.
//
//   each leader has one running fetch ──▶ its answer is split by partition ──▶ queue ──▶ next()
//                        ▲                                                          │
//                        └── while queued and expected bytes leave room ◀── release()
//
// Space for a whole answer is reserved before it is requested, so the queue's limit bounds the memory for any number of leaders.
// If nothing is queued and no fetch is running, one fetch is sent regardless of the limit. An answer counts until the last of its record sets
// is released, because they are views of it.
//
// Partitions without a responding leader are retried while the others continue. The log counts as away only if no partition of the share can be
// fetched.
//
// The end of an answer is read from the heads of its batches, so that the next fetch is sent before anything is decoded.

import type { Logger } from '../../../config/logger.ts'
import { type OutageReport, openOutage } from '../../../config/outage.ts'
import { type LogPartition, logOf, partitionOf } from '../../../transformers/log-partition.ts'
import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { waitBefore } from '../../writer/retry.ts'
import { code } from '../failure.ts'
import type { AbortedTransaction } from '../records/aborted-transactions.ts'
import { endOf } from './batch-ends.ts'
import { type FetchedPartition, noLeader } from './broker.ts'
import type { Cluster } from './cluster.ts'
import { logFailure, partitionFailure, settle } from './failure.ts'
import { partitionsText, type Topics } from './topics.ts'

export interface FetchBounds {
  /** Size limit of one answer, and of each partition in it. A larger batch is still returned completely. */
  readonly fetchBytes: number
  readonly partitionBytes: number
  /** Limit of queued and expected bytes. */
  readonly queueBytes: number
  /** How long a broker waits for a first message. */
  readonly waitMs: number
  /** After this long without an answer from any leader of the share the log counts as away. */
  readonly patienceMs: number
}

/** A record set, the input of `chunksOf`. */
export interface FetchedSet {
  readonly at: LogPartition
  readonly from: number
  readonly next: number
  readonly set: Uint8Array
  readonly aborted: readonly AbortedTransaction[]
  /** Call it when the set is no longer used. */
  release(): void
}

/** The position from which a partition continues. */
export interface FetchPosition {
  /** First offset that the next record set covers; undefined for the log's start, if that is not known yet. */
  readonly from: number | undefined
  /** The offset to fetch: above `from` if messages are lost; 0 if not known. */
  readonly next: number
}

export interface Fetching {
  /**
   * The next record set, contiguous per partition; undefined when `stop` has aborted.
   *
   * @throws errors of `relocate`, SystemicError and LogUnavailableError, each after all earlier record sets were returned
   */
  next(): Promise<FetchedSet | undefined>
}

interface PartitionState extends FetchPosition {
  readonly at: LogPartition
  from: number | undefined
  next: number
  leader: number
  /** Increasing counter: the partition served last is requested last, because a broker fills its answer in the order of the request. */
  servedAt: number
}

/** Consecutive failures of a leader, or of looking up the leaders. */
interface Failures {
  count: number
  readonly sinceMs: number
}

const backOff = { waitMsMin: 50, waitMsMax: 2000 }

/**
 * @param relocate called for a new position if a broker does not have the requested offset
 * @param stop stops fetching: running fetches are dropped when they are answered
 */
export function openFetching(
  cluster: Cluster,
  topics: Topics,
  fetchPositions: ReadonlyMap<LogPartition, FetchPosition>,
  bounds: FetchBounds,
  relocate: (at: LogPartition, from: number | undefined) => Promise<FetchPosition>,
  logger: Logger,
  stop: AbortSignal,
): Fetching {
  const states = new Map<LogPartition, PartitionState>()
  for (const [at, { from, next }] of fetchPositions) states.set(at, { at, from, next, leader: noLeader, servedAt: 0 })
  /** By leader. */
  let led = Map.groupBy(states.values(), ({ leader }) => leader)
  const queue: FetchedSet[] = []
  const busy = new Set<number>()
  /** Retry timers of failed leaders. */
  const resting = new Map<number, NodeJS.Timeout>()
  const failures = new Map<number, Failures>()
  /** Outage reports of leaders that have failed. */
  const outages = new Map<number, OutageReport>()
  let topicIds: readonly string[] = []
  let takenBytes = 0
  let served = 0
  let failure: Error | undefined
  let wake = Promise.withResolvers<void>()
  const lookup = { running: false, isNeeded: true }

  stop.addEventListener('abort', end, { once: true })
  if (stop.aborted) end()
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

  function hasSpace(): boolean {
    return takenBytes === 0 || takenBytes + bounds.fetchBytes <= bounds.queueBytes
  }

  /** Sends all fetches that are possible. Called whenever there may be space, a new leader, or a leader to retry. */
  function pump(): void {
    if (stop.aborted || failure !== undefined) return
    if (lookup.isNeeded && !lookup.running && !resting.has(noLeader)) void lookUp()
    const idle = [...led].filter(([leader]) => leader !== noLeader && !busy.has(leader) && !resting.has(leader))
    for (const [leader, partitions] of idle.sort(([, left], [, right]) => leastServed(left) - leastServed(right))) {
      if (!hasSpace()) return
      busy.add(leader)
      takenBytes += bounds.fetchBytes
      void ask(
        leader,
        partitions.toSorted((left, right) => left.servedAt - right.servedAt),
      )
    }
  }

  async function lookUp(): Promise<void> {
    lookup.running = true
    lookup.isNeeded = false
    try {
      const found = await topics.now()
      topicIds = found.ids
      for (const state of states.values()) state.leader = found.leaders.get(state.at) ?? state.leader
      led = Map.groupBy(states.values(), ({ leader }) => leader)
      // A broker that no longer leads a partition of the share is not contacted, so its failures are forgotten.
      for (const leader of failures.keys()) if (leader !== noLeader && !led.has(leader)) forget(leader)
      const leaderless = led.get(noLeader)?.map(({ at }) => at)
      if (leaderless !== undefined) throw new LogUnavailableError(`${partitionsText(leaderless, topics.names)} have no leader`)
      recover(noLeader)
    } catch (error) {
      lookup.isNeeded = true
      rest(noLeader, error)
    }
    lookup.running = false
    pump()
  }

  async function ask(leader: number, asked: readonly PartitionState[]): Promise<void> {
    let answerBytes = 0
    try {
      const { fetchBytes, partitionBytes, waitMs } = bounds
      const partitions = asked.map(({ at, next }) => ({ at, offset: next }))
      const request = { topicIds, partitions, waitMs, bytesMax: fetchBytes, partitionBytesMax: partitionBytes }
      const answer = await cluster.atLeader(leader, broker => broker.fetch(request))
      if (stop.aborted) return
      const filled = answer.partitions.filter(({ records }) => records.length > 0)
      if (filled.length > 0) answerBytes = filled[0]!.records.buffer.byteLength
      take(filled, answerBytes)
      const faulty = answer.partitions.filter(({ error }) => error !== code.none)
      const { failure } = await settle(faulty.map(({ at, error }) => mend(at, error)))
      if (failure !== undefined) throw failure
      if (answer.error !== code.none) throw new LogUnavailableError(`a broker rejects fetch requests (error ${answer.error})`)
      recover(leader)
    } catch (error) {
      if (!stop.aborted) rest(leader, error)
    } finally {
      takenBytes += answerBytes - bounds.fetchBytes
      busy.delete(leader)
      pump()
    }
  }

  function take(filled: readonly FetchedPartition[], answerBytes: number): void {
    let held = filled.length
    for (const { at, records, aborted } of filled) {
      const state = states.get(at)!
      const { next, from = next } = state
      state.servedAt = ++served
      state.from = state.next = endOf(records, next)
      let isHeld = true
      queue.push({
        at,
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

  /** Handles the error of one partition. The other partitions of the answer are valid. */
  async function mend(at: LogPartition, error: number): Promise<void> {
    const state = states.get(at)!
    if (error === code.offsetOutOfRange) {
      const { from } = state
      const position = await relocate(at, from)
      // The next leader may have answered in the meantime.
      if (state.from !== from) return
      state.from = position.from
      state.next = position.next
      return
    }
    throw partitionFailure(error, topics.names[logOf(at)]!, partitionOf(at), state.next)
  }

  /** Pauses a failed leader and looks up the leaders; fails if all have failed for too long. `noLeader` stands for the lookup itself. */
  function rest(leader: number, error: unknown): void {
    const found = logFailure(error, `${topics.text} cannot be fetched`)
    if (found instanceof SystemicError) return fail(found)
    const before = failures.get(leader) ?? { count: 0, sinceMs: performance.now() }
    before.count++
    failures.set(leader, before)
    if (hasLasted(before) && isAway()) return fail(found)
    const waitMs = waitBefore(before.count, backOff)
    outageOf(leader).failed(found, { waitMs, meanwhile: 'the other partitions continue' })
    if (leader !== noLeader) lookup.isNeeded = true
    const timer = setTimeout(() => {
      resting.delete(leader)
      pump()
    }, waitMs)
    resting.set(leader, timer)
  }

  function hasLasted(failed: Failures | undefined): boolean {
    return failed !== undefined && performance.now() - failed.sinceMs >= bounds.patienceMs
  }

  /** Whether no partition of the share can be fetched. */
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
      const name = leader === noLeader ? `the leader of a partition of ${topics.text}` : `broker ${leader}`
      outage = openOutage({ logger, dependency: 'broker', name, patienceMs: bounds.patienceMs })()
      outages.set(leader, outage)
    }
    return outage
  }

  return {
    async next() {
      while (!stop.aborted) {
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
