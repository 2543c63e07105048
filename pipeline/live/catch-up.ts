// Sends one follower everything up to the tail: the rest of a cached decoded message, and messages from the log.
//
// The log is not ordered by channel, so everything after the offsets is read to find the follower's messages. That must not block publishers or
// followers at the tail: all that catch up share time slices, and only a few read the log at a time.

import { setTimeout as wait } from 'node:timers/promises'
import { LogUnavailableError } from '../log.ts'
import type { RawChunk } from '../source.ts'
import type { Decoding } from './decoding.ts'
import { type Follow, giveFrom } from './follow.ts'
import type { LiveMessage } from './messages.ts'
import type { Tail } from './tail.ts'
import type { TimeSlices } from './time-slices.ts'

/** @param left how many offsets there are to read */
type Reads = (left: number, work: () => Promise<void>) => Promise<void>

export interface CatchUpParts {
  readonly tail: Tail
  readonly slices: TimeSlices
  /** Limits how many followers read the log, and keep what they read, at the same time. */
  readonly reads: Reads
}

/** After this many offsets another follower may read. */
const offsetsAtOnce = 10_000
const retryMs = 500
/** How long a follower waits that begins inside a message which the tail has not reached. */
const aheadMs = 20

/**
 * Resolves when the follower is attached to the tail, or was stopped. While the follower has no room, it does nothing and holds no chunk of the log.
 *
 * @throws SystemicError if the log cannot be read
 */
export async function catchUp(follow: Follow, { tail, slices, reads }: CatchUpParts): Promise<void> {
  const { channel, follower } = follow
  const offsets = (follow.offsets ??= [...tail.next])
  for (;;) {
    await follower.space()
    if (follow.stopped) return
    // Partitions that were added meanwhile.
    while (offsets.length < tail.next.length) offsets.push(0)
    const behind = partitionsBehind(follow, offsets, tail.next)
    const pause = behind.length === 0 ? undefined : slices.next()
    if (pause !== undefined) {
      await pause
      continue
    }
    // The event loop must not run between the last message here and the next check of the tail, or a busy log would never be caught up with.
    const message = keptAmong(behind)
    if (message !== undefined) giveFrom(follow, offsets, message)
    else if (behind.length > 0) await reads(leftOf(behind), () => read(behind)).catch(retryLater)
    else if (follow.begun === undefined) return tail.attach(follow)
    else await wait(aheadMs)
  }

  function leftOf(partitions: readonly number[]): number {
    return partitions.reduce((left, partition) => left + tail.next[partition]! - offsets[partition]!, 0)
  }

  /** The next message of one of these partitions if it is the follower's and kept, so that it need not be read and decoded again. */
  function keptAmong(partitions: readonly number[]): LiveMessage | undefined {
    for (const partition of partitions) {
      const message = tail.decoding.kept(partition, offsets[partition]!)
      if (message?.raw.channel === channel) return message
    }
    return undefined
  }

  async function read(partitions: readonly number[]): Promise<void> {
    for (const partition of partitions) if (follow.stopped || !(await readPartition(partition))) return
  }

  /** @returns false if the follower has no room for all of it, or must read again from its offsets */
  async function readPartition(partition: number): Promise<boolean> {
    const from = offsets[partition]!
    const to = tail.next[partition]!
    const { decoding } = tail
    for await (const chunk of tail.reader.read(partition, from, to)) {
      if (!isCurrent(decoding) || !(await give(chunk, partition, decoding)) || chunk.to - from >= offsetsAtOnce) return false
    }
    // The log has deleted all of it.
    if (offsets[partition]! < to && isCurrent(decoding)) passTo(to, partition)
    return true
  }

  /** The messages in between were deleted. */
  function passTo(offset: number, partition: number): void {
    offsets[partition] = offset
    if (follow.begun?.partition === partition) follow.begun = undefined
    follower.lost()
  }

  /** False if the follower was stopped, or the log lost its last messages: others may now be at the offsets that were read. */
  function isCurrent(decoding: Decoding): boolean {
    return !follow.stopped && tail.decoding === decoding
  }

  /** @returns like `readPartition` */
  async function give(chunk: RawChunk, partition: number, decoding: Decoding): Promise<boolean> {
    if (chunk.from > offsets[partition]!) passTo(chunk.from, partition)
    const cursor = chunk.cursor()
    while (cursor.next()) {
      if (cursor.message.channel !== channel || cursor.message.offset < offsets[partition]!) continue
      const message = decoding.messageOf(cursor, partition)
      do {
        const pause = slices.next()
        if (pause !== undefined) {
          await pause
          if (!isCurrent(decoding)) return false
        }
        if (follower.space() !== undefined) return false
      } while (!giveFrom(follow, offsets, message))
    }
    offsets[partition] = chunk.to
    if (follow.begun?.partition === partition) follow.begun = undefined
    return true
  }
}

async function retryLater(error: unknown): Promise<void> {
  if (!(error instanceof LogUnavailableError)) throw error
  await wait(retryMs)
}

/** A message that was started comes first. */
function partitionsBehind({ begun }: Follow, offsets: readonly number[], tail: readonly number[]): number[] {
  const behind = [...offsets.keys()].filter(partition => offsets[partition]! < tail[partition]!)
  return begun === undefined ? behind : behind.filter(partition => partition === begun.partition)
}

interface WaitingRead {
  readonly left: number
  readonly begin: (turn: Turn) => void
}

/** The index of the one that is next; -1 without any. */
type Turn = (waiting: readonly WaitingRead[]) => number

const longestWaiting: Turn = waiting => (waiting.length === 0 ? -1 : 0)

const leastLeft: Turn = waiting => {
  let next = -1
  for (let at = 0; at < waiting.length; at++) if (next < 0 || waiting[at]!.left < waiting[next]!.left) next = at
  return next
}

/**
 * Lets two followers read at a time: the one that waits longest, and the one with the least left. With the first alone, many that read all of the log
 * would hold up those that are a few messages behind.
 */
export function openReads(): Reads {
  const waiting: WaitingRead[] = []
  const free: Turn[] = [longestWaiting, leastLeft]
  return async (left, work) => {
    const turn = free.pop() ?? (await new Promise<Turn>(begin => void waiting.push({ left, begin })))
    try {
      await work()
    } finally {
      const next = turn(waiting)
      if (next < 0) free.push(turn)
      else waiting.splice(next, 1)[0]!.begin(turn)
    }
  }
}
