// How far a worker is behind the end of its log, by partition of its share: in messages, and in seconds.
//
// The log is asked for its ends every few seconds, since the source fetches nothing while the store is down. The age of a waiting message is exact if
// the message has been read. Otherwise it is derived from the latest time before which the message cannot have been created: when nothing was
// waiting, or when a message before it was created.

import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'
import type { Positions } from '../../sinks/sink.ts'
import type { LogPartition } from '../../transformers/log-partition.ts'
import type { OnShare, OnStart, Source } from '../source.ts'
import type { PendingBatch } from './batch.ts'

export interface PartitionLag {
  /** Offsets from the next one to store up to the end of the log, including those without a message. */
  readonly messages: number
  /** Age of the oldest message that is not stored; 0 if none waits. */
  readonly seconds: number
}

export interface LagWatch {
  /** There is a new share; where the store resumes in it is not known yet. */
  assigned(...of: Parameters<OnShare>): void
  /** The share begins. */
  started(...of: Parameters<OnStart>): void
  taken(pending: PendingBatch): void
  settled(pending: PendingBatch): void
  /** Messages that were taken and not settled will be taken again. */
  dropped(): void
  /** The partitions of the present share. */
  held(): LogPartition[]
  /** In all partitions, as far as known. */
  messages(): number
  close(): void
}

/** How far a consumer group is with a partition, by its commits. */
export interface GroupProgress {
  /** The next offset that it reads. */
  readonly next: number
  readonly end: number
}

/**
 * The lag of partitions that the caller does not read. The age of their messages is not known: seconds are those for which messages have waited
 * without a further commit, so they are 0 for a partition that another process reads.
 */
export function openCommittedLag(): (progress: ReadonlyMap<LogPartition, GroupProgress>) => ReadonlyMap<LogPartition, PartitionLag> {
  let waiting = new Map<LogPartition, { readonly next: number; readonly sinceMs: number }>()
  return progress => {
    const nowMs = performance.now()
    const before = waiting
    waiting = new Map()
    const lags = new Map<LogPartition, PartitionLag>()
    for (const [at, { next, end }] of progress) {
      const messages = Math.max(0, end - next)
      const known = before.get(at)
      const sinceMs = known?.next === next ? known.sinceMs : nowMs
      if (messages > 0) waiting.set(at, { next, sinceMs })
      lags.set(at, { messages, seconds: messages === 0 ? 0 : (nowMs - sinceMs) / 1000 })
    }
    return lags
  }
}

interface Partition {
  /** The next offset to store. */
  next: number
  end: number
  /** The log reported the end last time; it does not for a partition without a leader. */
  isEndKnown: boolean
  /** No waiting message was created before this time. */
  sinceUs: number
  /** When the first message was created, for each batch that was taken and is not settled. */
  readonly takenUs: number[]
}

const reportMs = 1000
const askMs = 5000

/**
 * @param report called every second with the partitions of the worker's present share, and no others; without those for which neither the end nor a
 * waiting message is known
 */
export function openLagWatch(
  source: Pick<Source, 'ends'>,
  report: (lags: ReadonlyMap<LogPartition, PartitionLag>) => void,
  logger: Logger,
): LagWatch {
  let partitions = new Map<LogPartition, Partition>()
  let share: AbortSignal | undefined
  /** When the ends were last known; infinity while they are requested. */
  let askedMs = performance.now()

  function held(): Iterable<[LogPartition, Partition]> {
    return share?.aborted === false ? partitions : []
  }

  async function ask(): Promise<void> {
    const of = share
    const beganUs = nowUs()
    askedMs = Number.POSITIVE_INFINITY
    try {
      const ends = await source.ends()
      if (share !== of) return
      for (const [at, known] of partitions) {
        const end = ends.get(at)
        known.isEndKnown = end !== undefined
        if (end === undefined) continue
        known.end = Math.max(known.end, end)
        if (end <= known.next) known.sinceUs = beganUs
      }
    } catch (error) {
      // The source has the same outage, and logs it.
      logger.debug({ reason: factOf(error) }, 'the end of the log is unknown')
    } finally {
      askedMs = performance.now()
    }
  }

  const reporting = setInterval(() => {
    // Not for a partition about which it is unknown whether anything waits.
    const told = [...held()].filter(([, known]) => known.isEndKnown || messagesOf(known) > 0)
    report(new Map(told.map(([at, known]) => [at, { messages: messagesOf(known), seconds: secondsOf(known) }])))
    if (share?.aborted === false && performance.now() - askedMs >= askMs) void ask()
  }, reportMs)

  function begin(positions: Positions, revoked: AbortSignal, ends: Positions): void {
    const before = partitions
    share = revoked
    partitions = new Map()
    for (const [at, next] of positions) {
      const known = before.get(at)
      // What waited before the share was lost, or before the store could not answer, still waits if nothing was stored since.
      const isSame = known !== undefined && next <= known.next
      const end = Math.max(next, ends.get(at) ?? known?.end ?? next)
      partitions.set(at, { next, end, isEndKnown: true, sinceUs: isSame ? known.sinceUs : nowUs(), takenUs: [] })
    }
  }

  return {
    assigned: (committed, revoked) => begin(committed, revoked, new Map()),
    started: begin,

    taken({ batch, firstCreatedUs }) {
      for (const { at, from, to } of batch.ranges) {
        const known = partitions.get(at)
        if (known === undefined) partitions.set(at, { next: from, end: to, isEndKnown: true, sinceUs: nowUs(), takenUs: [] })
        else known.end = Math.max(known.end, to)
      }
      for (const [at, createdUs] of firstCreatedUs) {
        const known = partitions.get(at)!
        known.takenUs.push(createdUs > 0 ? createdUs : known.sinceUs)
      }
    },

    settled({ batch, firstCreatedUs }) {
      for (const at of firstCreatedUs.keys()) {
        const known = partitions.get(at)!
        known.sinceUs = Math.max(known.sinceUs, Math.min(known.takenUs.shift()!, nowUs()))
      }
      for (const { at, to } of batch.ranges) partitions.get(at)!.next = to
    },

    dropped() {
      for (const { takenUs } of partitions.values()) takenUs.length = 0
    },

    held: () => Array.from(held(), ([at]) => at),

    messages() {
      let sum = 0
      for (const [, known] of held()) sum += messagesOf(known)
      return sum
    },

    close() {
      clearInterval(reporting)
      report(new Map())
    },
  }
}

function messagesOf({ next, end }: Partition): number {
  return Math.max(0, end - next)
}

function secondsOf(known: Partition): number {
  if (messagesOf(known) === 0) return 0
  return Math.max(0, nowUs() - (known.takenUs[0] ?? known.sinceUs)) / 1e6
}

function nowUs(): number {
  return Date.now() * 1000
}
