// A follower: its position in the log, and how messages are sent from there.

import type { TopicBounds } from '../topic-reader.ts'
import type { Follower, LiveMessage, StreamOffset } from './messages.ts'

export interface Follow {
  readonly channel: string
  readonly follower: Follower
  /** The offset of the next message by partition; undefined if the follower is at the tail in all of them. */
  offsets: number[] | undefined
  /** How many parts of the next message of this partition were taken. Undefined if `offsets` is. */
  begun: { readonly partition: number; readonly rows: number } | undefined
  /** True if it gets messages from the tail; otherwise it catches up. */
  attached: boolean
  stopped: boolean
}

/** Where a follower begins. */
export interface Beginning {
  readonly offsets: number[]
  readonly begun: Follow['begun']
  /** Messages in between were deleted. */
  readonly lost: boolean
}

/**
 * @param after undefined: from now on
 * @param log the tag of the current log
 * @param otherBegins where to begin if `after` is of another log: see `LiveTopic`
 * @returns undefined if the offset is after the end of the log as currently known
 */
export function beginningOf(
  after: StreamOffset | undefined,
  log: string,
  bounds: ReadonlyMap<number, TopicBounds>,
  otherBegins: 'start' | 'end' = 'start',
): Beginning | undefined {
  const partitions = [...bounds.keys()].toSorted((one, other) => one - other)
  const whole = (end: 'start' | 'end'): number[] => partitions.map(partition => bounds.get(partition)![end])
  if (after === undefined) return { offsets: whole('end'), begun: undefined, lost: false }
  // Everything in a recreated log comes after what was sent from the previous one.
  if (after.log !== log) return { offsets: whole(otherBegins), begun: undefined, lost: true }
  let lost = false
  const offsets: number[] = []
  for (const partition of partitions) {
    const { start, end } = bounds.get(partition)!
    // A partition that was added later.
    const offset = after.offsets[partition] ?? start
    if (offset > end) return undefined
    lost ||= offset < start
    offsets.push(Math.max(offset, start))
  }
  const { partition, rows } = after
  const begun = rows > 0 && offsets[partition] === after.offsets[partition] ? { partition, rows } : undefined
  return { offsets, begun, lost }
}

/** The offsets of a follower; of an attached one those of the tail. */
export function offsetsOf({ offsets }: Follow, tail: readonly number[]): number[] {
  return offsets === undefined ? [...tail] : tail.map((offset, partition) => Math.max(offset, offsets[partition] ?? 0))
}

/** The log lost its messages of a partition from this offset on; what it now has there was not sent. */
export function shorten(follow: Follow, partition: number, end: number): void {
  const { offsets, begun } = follow
  if (offsets !== undefined && offsets[partition]! >= end) {
    offsets[partition] = end
    if (begun?.partition === partition) follow.begun = undefined
  }
  follow.follower.lost({ partition, end })
}

/** Parts taken in one step of a time slice. */
export const partsAtOnce = 500

/**
 * Gives the next parts of a message to a follower with its own offsets, unless it is past them. A message that was started is sent before those of
 * other partitions, because an offset can represent only one.
 *
 * @param offsets the follower's
 * @returns false if the message has more parts, or the follower has no room for all of these: its offsets say where to continue
 */
export function giveFrom(follow: Follow, offsets: number[], message: LiveMessage): boolean {
  const { partition, offset } = message
  const next = offsets[partition]!
  if (offset < next) return true
  const first = offset === next && follow.begun?.partition === partition ? follow.begun.rows : 0
  const parts = follow.follower.partsOf(message)
  offsets[partition] = offset
  const rows = first < parts ? follow.follower.take(message, first, Math.min(first + partsAtOnce, parts), offsets) : parts
  if (rows < parts) {
    follow.begun = { partition, rows }
    return false
  }
  follow.begun = undefined
  offsets[partition] = offset + 1
  return true
}
