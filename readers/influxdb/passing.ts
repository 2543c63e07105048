// Passes over rows that an offset names: the storage counts them, window by window, and only the last of them are looked at.

import type { Selection } from '../query.ts'
import type { Asking } from './asking.ts'
import type { Search } from './finders.ts'
import { countIn } from './places.ts'
import { behind, fromOn, headOfWidth, isEmpty, type Span } from './span.ts'
import { lastOf, nextWidth, type Walk } from './walk.ts'

export interface Passed {
  /** What of the span comes behind them. */
  readonly rest: Span
  readonly rows: number
}

/** So many are looked at in less time than it takes to count once more. */
const fewRows = 2_000
/** Windows that were too wide, one after another: then rows lie so unevenly that looking is no worse. */
const triesMax = 30

/**
 * @param rows at most so many are passed over
 * @param search exact, in one type: what the storage counts is what is asked for
 */
export async function passOver(
  asking: Asking,
  selection: Selection,
  search: Search,
  { span, direction, widthUs, first }: Pick<Walk, 'span' | 'direction' | 'widthUs' | 'first'>,
  rows: number,
): Promise<Passed> {
  let rest = span
  let passed = 0
  let width = widthUs
  let isAtRows = false
  for (let tries = 0; rows - passed > fewRows && !isEmpty(rest) && tries < triesMax; ) {
    if (!isAtRows) {
      const us = await first(rest)
      if (us === undefined) return { rest: behind(rest, lastOf(rest, direction), direction), rows: passed }
      rest = fromOn(rest, us, direction)
    }
    const window = headOfWidth(rest, width, direction)
    const missing = rows - passed
    const counted = await countIn(asking, selection, search, window)
    const windowUs = window.endUs - window.startUs
    if (counted > missing) {
      tries++
      isAtRows = true
      width = Math.max(1, Math.floor((windowUs / counted) * missing * 0.9))
      continue
    }
    tries = 0
    passed += counted
    rest = behind(rest, lastOf(window, direction), direction)
    isAtRows = counted > 0
    width = nextWidth(windowUs, counted, missing - counted)
  }
  return { rest, rows: passed }
}
