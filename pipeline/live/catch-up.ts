// Reads the log for one follower from where they are to where the tail is.
//
// The log is not ordered by channels, so everything behind the place is read to find what is theirs. That must not starve who writes
// and who follows the tail: few read at a time, in turns, and each rests as long as it worked.

import { setTimeout as wait } from 'node:timers/promises'
import { LogUnavailableError } from '../log.ts'
import type { RawRun } from '../source.ts'
import type { Decoding } from './decoding.ts'
import { type Follow, giveFrom } from './follow.ts'
import type { Tail } from './tail.ts'
import type { Turn, Turns } from './turns.ts'

export interface CatchUpParts {
  readonly tail: Tail
  readonly turns: Turns
  readonly decoding: Decoding
}

const restMsMax = 50
/** So close to the tail nobody rests, or a busy log would never be caught up with. */
const nearMessages = 1000
const retryMs = 500
/** Who begins inside a message that the tail has not come to waits for it. */
const aheadMs = 20

/**
 * Resolves when the follower is attached to the tail, or was stopped. Holds no run while they have no room.
 *
 * @throws SystemicError where the log cannot be read
 */
export async function catchUp(follow: Follow, { tail, turns, decoding }: CatchUpParts): Promise<void> {
  const offsets = (follow.offsets ??= [...tail.next])
  for (;;) {
    await follow.follower.room()
    if (follow.stopped) return
    // Partitions that came meanwhile.
    while (offsets.length < tail.next.length) offsets.push(0)
    const behind = partitionsBehind(follow, offsets, tail.next)
    if (behind.length === 0) {
      if (follow.begun === undefined) return tail.attach(follow)
      await wait(aheadMs)
      continue
    }
    const turn = await turns.take()
    if (follow.stopped) return turn.end()
    try {
      for (const partition of behind) if (!(await readPartition(partition, turn))) break
    } catch (error) {
      if (!(error instanceof LogUnavailableError)) throw error
      turn.end()
      await wait(retryMs)
    } finally {
      turn.end()
    }
  }

  /** @returns false where somebody else's turn has come, or the follower takes no more */
  async function readPartition(partition: number, turn: Turn): Promise<boolean> {
    let workedFromMs = performance.now()
    for await (const run of tail.reader.read(partition, offsets[partition]!, tail.next[partition]!)) {
      if (follow.stopped || !give(run, partition) || turn.isOver()) return false
      if (tail.next[partition]! - run.to > nearMessages) await wait(Math.min(performance.now() - workedFromMs, restMsMax))
      workedFromMs = performance.now()
    }
    return !follow.stopped
  }

  /** @returns false where it is to be read anew from where they are, or is not all taken */
  function give(run: RawRun, partition: number): boolean {
    // The log lost its last messages while it was read: there may be others in their place by now.
    if (run.to > tail.next[partition]!) return false
    if (run.from > offsets[partition]!) {
      follow.begun = undefined
      follow.follower.lost()
    }
    const cursor = run.cursor()
    while (cursor.next()) {
      if (cursor.message.channel !== follow.channel || cursor.message.offset < offsets[partition]!) continue
      const decoded = decoding.decode(cursor.message, partition)
      if (decoded !== undefined && !giveFrom(follow, offsets, decoded)) return false
    }
    offsets[partition] = run.to
    if (follow.begun?.partition === partition) follow.begun = undefined
    return true
  }
}

/** A message that is begun comes before others. */
function partitionsBehind({ begun }: Follow, offsets: readonly number[], tail: readonly number[]): number[] {
  const behind = [...offsets.keys()].filter(partition => offsets[partition]! < tail[partition]!)
  return begun === undefined ? behind : behind.filter(partition => partition === begun.partition)
}
