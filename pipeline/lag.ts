// How far a worker is behind the end of its log, by partition of its share: in messages, and in seconds.
//
// The ends are asked of the log every few seconds, since the source fetches nothing while the store is away. The age of what waits is known
// exactly where its message is at hand. Else it is reckoned from the latest time that it cannot have been created before: when nothing
// waited, or when a message before it was created.

import type { Logger } from '../config/logger.ts'
import { factOf } from '../config/outage.ts'
import type { Positions } from '../sinks/sink.ts'
import type { PendingBatch } from './batch.ts'
import type { OnShare, OnStart, Source } from './source.ts'

export interface PartitionLag {
  /** Offsets from the next one to store up to the end of the log; those without a message are counted, too. */
  readonly messages: number
  /** Age of the oldest message that is not stored; 0 where none waits. */
  readonly seconds: number
}

export interface LagWatch {
  /** There is a share, and the one before is over; where the store goes on in it is not known yet. */
  assigned(...of: Parameters<OnShare>): void
  /** The share begins. */
  started(...of: Parameters<OnStart>): void
  taken(pending: PendingBatch): void
  settled(pending: PendingBatch): void
  /** What was taken and not settled will be taken again. */
  dropped(): void
  /** In all partitions, as far as is known now. */
  messages(): number
  close(): void
}

interface Partition {
  /** The next offset to store. */
  next: number
  end: number
  /** The log told the end when it was asked last; it does not of a partition without a leader. */
  isEndKnown: boolean
  /** No message that waits was created before. */
  sinceUs: number
  /** Of the first message in each batch that was taken and is not settled. */
  readonly takenUs: number[]
}

const reportMs = 1000
const askMs = 5000

/**
 * @param report called every second with the partitions of the share that the worker has now, and of no other; without those of which neither
 * the end nor a message that waits is known
 */
export function openLagWatch(
  source: Pick<Source, 'ends'>,
  report: (lags: ReadonlyMap<number, PartitionLag>) => void,
  logger: Logger,
): LagWatch {
  let partitions = new Map<number, Partition>()
  let share: AbortSignal | undefined
  /** When the ends were last known; never while they are asked for. */
  let askedMs = performance.now()

  function held(): Iterable<[number, Partition]> {
    return share?.aborted === false ? partitions : []
  }

  async function ask(): Promise<void> {
    const of = share
    const beganUs = nowUs()
    askedMs = Number.POSITIVE_INFINITY
    try {
      const ends = await source.ends()
      if (share !== of) return
      for (const [partition, known] of partitions) {
        const end = ends.get(partition)
        known.isEndKnown = end !== undefined
        if (end === undefined) continue
        known.end = Math.max(known.end, end)
        if (end <= known.next) known.sinceUs = beganUs
      }
    } catch (error) {
      // The source meets the same outage, and says so.
      logger.debug({ reason: factOf(error) }, 'the end of the log is not known')
    } finally {
      askedMs = performance.now()
    }
  }

  const reporting = setInterval(() => {
    // Nothing is told of a partition where nobody knows whether anything waits.
    const told = [...held()].filter(([, known]) => known.isEndKnown || messagesOf(known) > 0)
    report(new Map(told.map(([partition, known]) => [partition, { messages: messagesOf(known), seconds: secondsOf(known) }])))
    if (share?.aborted === false && performance.now() - askedMs >= askMs) void ask()
  }, reportMs)

  function begin(positions: Positions, revoked: AbortSignal, ends: Positions): void {
    const before = partitions
    share = revoked
    partitions = new Map()
    for (const [partition, next] of positions) {
      const known = before.get(partition)
      // What waited before a share was lost, or the store was asked in vain, waits still where nothing was stored since.
      const isSame = known !== undefined && next <= known.next
      const end = Math.max(next, ends.get(partition) ?? known?.end ?? next)
      partitions.set(partition, { next, end, isEndKnown: true, sinceUs: isSame ? known.sinceUs : nowUs(), takenUs: [] })
    }
  }

  return {
    assigned: (committed, revoked) => begin(committed, revoked, new Map()),
    started: begin,

    taken({ batch, firstCreatedUs }) {
      for (const { partition, from, to } of batch.ranges) {
        const known = partitions.get(partition)
        if (known === undefined) partitions.set(partition, { next: from, end: to, isEndKnown: true, sinceUs: nowUs(), takenUs: [] })
        else known.end = Math.max(known.end, to)
      }
      for (const [partition, createdUs] of firstCreatedUs) {
        const known = partitions.get(partition)!
        known.takenUs.push(createdUs > 0 ? createdUs : known.sinceUs)
      }
    },

    settled({ batch, firstCreatedUs }) {
      for (const partition of firstCreatedUs.keys()) {
        const known = partitions.get(partition)!
        known.sinceUs = Math.max(known.sinceUs, Math.min(known.takenUs.shift()!, nowUs()))
      }
      for (const { partition, to } of batch.ranges) partitions.get(partition)!.next = to
    },

    dropped() {
      for (const { takenUs } of partitions.values()) takenUs.length = 0
    },

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
