// Which keys of a channel a question is about: from, to, and the row that a page lies behind, as one range of the order that rows lie in.

import { unitsDown, unitsUp } from '../instants.ts'
import type { Direction, RowKey, Selection } from '../query.ts'

/** A place in the order of a table: by time, in the table's unit, then by position and index. All are signed there. */
export interface Place {
  readonly time: bigint
  readonly position: bigint
  readonly index: number
}

/** Of the places between: `lower` is inclusive, `upper` is not. */
export interface KeyRange {
  readonly lower: Place
  readonly upper: Place
  /** Days since 1970-01-01 on which such rows are; those of all where it is open. Each partition is of a day, or begins with one. */
  readonly firstDay: number
  readonly lastDay: number
}

/** The ends of what a date can be. */
export const firstDayOfAll = -(2 ** 31)
export const lastDayOfAll = 2 ** 31 - 1

const int64Min = -(2n ** 63n)
const int64Max = 2n ** 63n - 1n
const int32Min = -(2 ** 31)
const int32Max = 2 ** 31 - 1
const dayNs = 86_400_000_000_000n

/**
 * @param unitNs nanoseconds of a unit of the table's time
 * @param after of a row: only what lies behind it in the direction
 * @returns undefined where no row can be in it
 */
export function keyRangeOf(
  { fromNs, toNs }: Pick<Selection, 'fromNs' | 'toNs'>,
  unitNs: bigint,
  direction: Direction,
  after: RowKey | undefined,
): KeyRange | undefined {
  let lower = instantPlace(fromNs, unitNs) ?? { time: int64Min, position: int64Min, index: int32Min }
  let upper = instantPlace(toNs, unitNs) ?? { time: int64Max, position: int64Max, index: int32Max }
  if (after !== undefined) {
    const place = { time: unitsUp(after.timeNs, unitNs), position: after.position, index: after.index }
    // No index comes near the largest one: it is an ordinal in a message.
    if (direction === 'asc') lower = later(lower, { ...place, index: place.index + 1 })
    else upper = earlier(upper, place)
  }
  if (upper.time < int64Min || lower.time > int64Max || comparePlaces(lower, upper) >= 0) return undefined
  lower = lower.time < int64Min ? { ...lower, time: int64Min } : lower
  upper = upper.time > int64Max ? { time: int64Max, position: int64Max, index: int32Max } : upper
  // What ends with a midnight has nothing of the day that begins then.
  const last = upper.position === int64Min && upper.index === int32Min ? upper.time - 1n : upper.time
  const firstDay = lower.time === int64Min ? firstDayOfAll : dayOf(lower.time, unitNs)
  const lastDay = last === int64Max ? lastDayOfAll : dayOf(last, unitNs)
  return { lower, upper, firstDay, lastDay }
}

export function comparePlaces(one: Place, other: Place): number {
  if (one.time !== other.time) return one.time < other.time ? -1 : 1
  if (one.position !== other.position) return one.position < other.position ? -1 : 1
  return one.index - other.index
}

/** Before every row of the instant, or of the first whole unit behind it. */
function instantPlace(ns: bigint | undefined, unitNs: bigint): Place | undefined {
  return ns === undefined ? undefined : { time: unitsUp(ns, unitNs), position: int64Min, index: int32Min }
}

/** The day on which it is, also before 1970. */
function dayOf(time: bigint, unitNs: bigint): number {
  return Number(unitsDown(time, dayNs / unitNs))
}

function later(one: Place, other: Place): Place {
  return comparePlaces(one, other) < 0 ? other : one
}

function earlier(one: Place, other: Place): Place {
  return comparePlaces(one, other) < 0 ? one : other
}
