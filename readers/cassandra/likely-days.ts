// The day on which a question probably begins: that of the place it begins behind, or the one on which the last question of its kind began. It
// saves a round trip where it is right; what is answered follows from the days that are listed.

import type { Direction, Selection } from '../query.ts'
import { firstDayOfAll, type KeyRange, lastDayOfAll } from './key-range.ts'

const rememberedMax = 10_000

type Series = Pick<Selection, 'channel' | 'publisher' | 'format'>

export interface LikelyDays {
  find(series: Series, range: KeyRange, direction: Direction): number | undefined
  /** @param day on which a question has begun */
  remember(series: Series, range: KeyRange, direction: Direction, day: number): void
}

export function openLikelyDays(): LikelyDays {
  const days = new Map<string, number>()
  const keyOf = ({ channel, publisher, format }: Series, direction: Direction): string =>
    JSON.stringify([direction, format, channel, publisher ?? null])
  return {
    find: (series, range, direction) => boundedStart(range, direction) ?? days.get(keyOf(series, direction)),
    remember(series, range, direction, day) {
      if (boundedStart(range, direction) !== undefined) return
      if (days.size >= rememberedMax) days.clear()
      days.set(keyOf(series, direction), day)
    },
  }
}

/** The day that the range begins with in the direction; undefined where it begins with whatever there is. */
function boundedStart({ firstDay, lastDay }: KeyRange, direction: Direction): number | undefined {
  if (direction === 'asc') return firstDay === firstDayOfAll ? undefined : firstDay
  return lastDay === lastDayOfAll ? undefined : lastDay
}
