// One who follows: where they are in the log, and what is given to them from there.

import type { TopicBounds } from '../topic-reader.ts'
import type { Follower, LiveMessage, Place } from './messages.ts'

export interface Follow {
  readonly channel: string
  readonly follower: Follower
  /** By partition, the offset of the next message; undefined: where the tail is, in each of them. */
  offsets: number[] | undefined
  /** Of the next message of this partition so many rows were taken. There is none where there are no offsets. */
  begun: { readonly partition: number; readonly rows: number } | undefined
  /** The tail gives; else it is read for them. */
  attached: boolean
  stopped: boolean
}

/** Where to begin. */
export interface Beginning {
  readonly offsets: number[]
  readonly begun: Follow['begun']
  /** Messages between were deleted. */
  readonly lost: boolean
}

/**
 * @param after undefined: from now on
 * @param log the tag of the one that is there
 * @returns undefined where the place lies behind the end of the log, as it is known now
 */
export function beginningOf(after: Place | undefined, log: string, bounds: ReadonlyMap<number, TopicBounds>): Beginning | undefined {
  const partitions = [...bounds.keys()].toSorted((one, other) => one - other)
  const whole = (end: 'start' | 'end'): number[] => partitions.map(partition => bounds.get(partition)![end])
  if (after === undefined) return { offsets: whole('end'), begun: undefined, lost: false }
  // What a log that was made anew holds is all behind what was given out of the one before.
  if (after.log !== log) return { offsets: whole('start'), begun: undefined, lost: true }
  let lost = false
  const offsets: number[] = []
  for (const partition of partitions) {
    const { start, end } = bounds.get(partition)!
    // A partition that came later.
    const offset = after.offsets[partition] ?? start
    if (offset > end) return undefined
    lost ||= offset < start
    offsets.push(Math.max(offset, start))
  }
  const { partition, rows } = after
  const begun = rows > 0 && offsets[partition] === after.offsets[partition] ? { partition, rows } : undefined
  return { offsets, begun, lost }
}

/** Where one is who is attached to the tail: with what it passed for them. */
export function offsetsOf({ offsets }: Follow, tail: readonly number[]): number[] {
  return offsets === undefined ? [...tail] : tail.map((offset, partition) => Math.max(offset, offsets[partition] ?? 0))
}

/** The log lost what lay at this offset of a partition and above; what it gives there from now on was not given out. */
export function shorten(follow: Follow, partition: number, end: number): void {
  const { offsets, begun } = follow
  if (offsets !== undefined && offsets[partition]! >= end) {
    offsets[partition] = end
    if (begun?.partition === partition) follow.begun = undefined
  }
  follow.follower.lost()
}

/** Records that are given at once: a step of the work that is done in time slices. */
export const rowsAtOnce = 500

/**
 * Gives the next rows of a message to one who has offsets of their own, unless they are past it. A message that is begun is given before those
 * of other partitions: a place has room for one.
 *
 * @param offsets theirs
 * @returns false where there is more of it, or they have no room for all of these rows: their offsets say where to go on
 */
export function giveFrom(follow: Follow, offsets: number[], message: LiveMessage): boolean {
  const { partition, offset, batch } = message
  const next = offsets[partition]!
  if (offset < next) return true
  const first = offset === next && follow.begun?.partition === partition ? follow.begun.rows : 0
  const end = Math.min(first + rowsAtOnce, batch.rowCount)
  offsets[partition] = offset
  const rows = follow.follower.take(message, first, end, offsets)
  if (rows < batch.rowCount) {
    follow.begun = { partition, rows }
    return false
  }
  follow.begun = undefined
  offsets[partition] = offset + 1
  return true
}
