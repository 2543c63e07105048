// Gives one follower what lies between where they are and where the tail is: the message that they are in from those that are kept decoded, the
// rest from the log.
//
// The log is not ordered by channels, so everything behind the offsets is read to find what is theirs. That must not stop who publishes and who
// follows the tail: all who catch up share time slices, and few read the log at a time.

import { setTimeout as wait } from 'node:timers/promises'
import { LogUnavailableError } from '../log.ts'
import type { RawRun } from '../source.ts'
import type { Decoding } from './decoding.ts'
import { type Follow, giveFrom } from './follow.ts'
import type { LiveMessage } from './messages.ts'
import type { Semaphore } from './semaphore.ts'
import type { Tail } from './tail.ts'
import type { TimeSlices } from './time-slices.ts'

export interface CatchUpParts {
  readonly tail: Tail
  /** Of all who catch up. */
  readonly slices: TimeSlices
  /** Bounds how many read the log, and hold what they read, at the same time. */
  readonly reads: Semaphore
}

/** After so many another one may read. */
const offsetsAtOnce = 10_000
const retryMs = 500
/** Who begins inside a message that the tail has not come to waits for it. */
const aheadMs = 20

/**
 * Resolves when the follower is attached to the tail, or was stopped. Does nothing and holds no chunk of the log while they have no room.
 *
 * @throws SystemicError where the log cannot be read
 */
export async function catchUp(follow: Follow, { tail, slices, reads }: CatchUpParts): Promise<void> {
  const { channel, follower } = follow
  const offsets = (follow.offsets ??= [...tail.next])
  for (;;) {
    await follower.room()
    if (follow.stopped) return
    // Partitions that came meanwhile.
    while (offsets.length < tail.next.length) offsets.push(0)
    const behind = partitionsBehind(follow, offsets, tail.next)
    const pause = behind.length === 0 ? undefined : slices.next()
    if (pause !== undefined) {
      await pause
      continue
    }
    // No turn of the event loop lies between what is given here and the next look at the tail, or a busy log would never be caught up with.
    const message = keptAmong(behind)
    if (message !== undefined) giveFrom(follow, offsets, message)
    else if (behind.length > 0) await reads(() => read(behind)).catch(retryLater)
    else if (follow.begun === undefined) return tail.attach(follow)
    else await wait(aheadMs)
  }

  /** The next message of one of these partitions, where it is theirs and needs not be read and decoded again. */
  function keptAmong(partitions: readonly number[]): LiveMessage | undefined {
    for (const partition of partitions) {
      const message = tail.decoding.kept(partition, offsets[partition]!)
      if (message?.batch.messages.channel[0] === channel) return message
    }
    return undefined
  }

  async function read(partitions: readonly number[]): Promise<void> {
    for (const partition of partitions) if (follow.stopped || !(await readPartition(partition))) return
  }

  /** @returns false where they have no room for all of it, or it is to be read again from where they are */
  async function readPartition(partition: number): Promise<boolean> {
    const from = offsets[partition]!
    const to = tail.next[partition]!
    const { decoding } = tail
    for await (const run of tail.reader.read(partition, from, to)) {
      if (!isCurrent(decoding) || !(await give(run, partition, decoding)) || run.to - from >= offsetsAtOnce) return false
    }
    // The log has deleted all of it.
    if (offsets[partition]! < to && isCurrent(decoding)) passTo(to, partition)
    return true
  }

  /** What lies between was deleted. */
  function passTo(offset: number, partition: number): void {
    offsets[partition] = offset
    if (follow.begun?.partition === partition) follow.begun = undefined
    follower.lost()
  }

  /** False where the follower was stopped, or the log lost its last messages since: there may be others in the place of those that were read. */
  function isCurrent(decoding: Decoding): boolean {
    return !follow.stopped && tail.decoding === decoding
  }

  /** @returns as `readPartition` */
  async function give(run: RawRun, partition: number, decoding: Decoding): Promise<boolean> {
    if (run.from > offsets[partition]!) passTo(run.from, partition)
    const cursor = run.cursor()
    while (cursor.next()) {
      if (cursor.message.channel !== channel || cursor.message.offset < offsets[partition]!) continue
      const message = decoding.decode(cursor.message, partition)
      do {
        const pause = slices.next()
        if (pause !== undefined) {
          await pause
          if (!isCurrent(decoding)) return false
        }
        if (follower.room() !== undefined) return false
      } while (!giveFrom(follow, offsets, message))
    }
    offsets[partition] = run.to
    if (follow.begun?.partition === partition) follow.begun = undefined
    return true
  }
}

async function retryLater(error: unknown): Promise<void> {
  if (!(error instanceof LogUnavailableError)) throw error
  await wait(retryMs)
}

/** A message that is begun comes before others. */
function partitionsBehind({ begun }: Follow, offsets: readonly number[], tail: readonly number[]): number[] {
  const behind = [...offsets.keys()].filter(partition => offsets[partition]! < tail[partition]!)
  return begun === undefined ? behind : behind.filter(partition => partition === begun.partition)
}
