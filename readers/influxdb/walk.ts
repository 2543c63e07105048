// Goes through time from one end, in windows that grow and shrink with what was found in them, and passes over stretches in which nothing lies.

import type { Direction } from '../query.ts'
import { behind, fromOn, headOf, headOfWidth, isEmpty, type Span, within } from './span.ts'

export interface Walk {
  readonly span: Span
  readonly direction: Direction
  /** So many are to be found. */
  readonly wanted: number
  /** How wide the first window is. */
  readonly widthUs: number
  /** Whether rows are known to lie at the head of the span. */
  readonly beginsAtRows: boolean
  /** No window is wider than this one at a microsecond. */
  readonly cell?: (us: number) => Span
  /** The microsecond of the first point in the direction; undefined where there is none. */
  readonly first: (span: Span) => Promise<number | undefined>
}

export interface Visit {
  /** Of what is wanted. */
  readonly found: number
  /** Points that lie in what was looked at, where that is more than what was found. */
  readonly seen?: number
  /** So many points should the next window have, where that is more than what is missing. */
  readonly aim?: number
  /** The last microsecond of the window that was looked at wholly, where that is not all of it. */
  readonly lastUs?: number | undefined
}

/** So much wider is a window behind one that had almost nothing, at most. */
const growthMax = 60
const shrinkMax = 8
/** From so many on, what was found says how dense the rows lie. */
const tellingRows = 4

/** Ends when as many as are wanted were found, and at the end of the span. */
export async function walk(
  { span, direction, wanted, widthUs, beginsAtRows, cell, first }: Walk,
  visit: (window: Span, missing: number) => Promise<Visit>,
): Promise<void> {
  let rest = span
  let width = widthUs
  let isAtRows = beginsAtRows
  let missing = wanted
  while (!isEmpty(rest) && missing > 0) {
    if (!isAtRows) {
      const us = await first(rest)
      if (us === undefined) return
      rest = fromOn(rest, us, direction)
    }
    let window = headOfWidth(rest, width, direction)
    if (cell !== undefined) window = within(window, cell(headOf(rest, direction)))
    const { found, seen = found, lastUs = lastOf(window, direction), aim } = await visit(window, missing)
    missing -= found
    rest = behind(rest, lastUs, direction)
    isAtRows = seen > 0
    width = nextWidth(Math.abs(lastUs - headOf(window, direction)) + 1, seen, aim ?? missing)
  }
}

/** Its end away from where a walk comes. */
export function lastOf({ startUs, endUs }: Span, direction: Direction): number {
  return direction === 'desc' ? startUs : endUs - 1
}

/** Of the window behind one of this width. */
export function nextWidth(widthUs: number, found: number, missing: number): number {
  if (found < tellingRows) return widthUs * growthMax
  const enough = (widthUs / found) * missing * 1.5
  return Math.ceil(Math.max(widthUs / shrinkMax, Math.min(widthUs * growthMax, enough)))
}
