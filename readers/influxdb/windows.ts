// Time in whole microseconds, the unit of points in this store, and how to walk through it: in windows whose width follows from what was found in the
// previous ones, skipping stretches without points.

import { type Direction, type Filter, senmlFormat } from '../reader.ts'
import { unitsDown, unitsUp } from '../request/time-range.ts'

/** A span of time. */
export interface Span {
  /** Microseconds since 1970, inclusive. */
  readonly startUs: number
  /** Exclusive. */
  readonly endUs: number
}

/** The times that the rows of a filter may have. */
export interface Bounds {
  /** All times that a row may have. */
  readonly all: Span
  /** Every row in it is within `from` and `to`. */
  readonly whole: Span
  /** Single microseconds before and after `whole`: some of the documents in them may be within `from` and `to`. */
  readonly before: Span | undefined
  readonly behind: Span | undefined
}

/** The times that doubles represent exactly; the sink stores no others. */
const earliestUs = -Number.MAX_SAFE_INTEGER
const endUs = Number.MAX_SAFE_INTEGER + 1

/**
 * Converts `from` and `to`, which are in nanoseconds. The time of a record is a whole microsecond; that of a document is anywhere in its microsecond.
 */
export function boundsOf({ format, fromNs, toNs }: Pick<Filter, 'format' | 'fromNs' | 'toNs'>): Bounds {
  const whole = {
    startUs: fromNs === undefined ? earliestUs : microseconds(unitsUp(fromNs, 1000n)),
    endUs: toNs === undefined ? endUs : microseconds(unitsUp(toNs, 1000n)),
  }
  if (format === senmlFormat) return { all: whole, whole, before: undefined, behind: undefined }
  const [before, behind] = [borderOf(fromNs), borderOf(toNs)]
  const inner = { startUs: whole.startUs, endUs: behind?.startUs ?? whole.endUs }
  const all = { startUs: (before ?? whole).startUs, endUs: Math.max(whole.endUs, (before ?? whole).endUs) }
  return { all, whole: inner, before, behind: behind?.startUs === before?.startUs ? undefined : behind }
}

/** The microsecond of a time that is not a whole one, if it can have points. */
function borderOf(ns: bigint | undefined): Span | undefined {
  if (ns === undefined || ns % 1000n === 0n) return undefined
  const us = unitsDown(ns, 1000n)
  return us < BigInt(earliestUs) || us >= BigInt(endUs) ? undefined : microsecond(Number(us))
}

/** True if the span is empty. */
export function isEmpty({ startUs, endUs }: Span): boolean {
  return startUs >= endUs
}

/** The span of one microsecond. */
export function microsecond(us: number): Span {
  return { startUs: us, endUs: us + 1 }
}

/** The microsecond of a time in nanoseconds. */
export function microsecondOf(ns: bigint): number {
  return microseconds(unitsDown(ns, 1000n))
}

/** The microsecond at which a walk through the span begins. */
export function headOf({ startUs, endUs }: Span, direction: Direction): number {
  return direction === 'desc' ? endUs - 1 : startUs
}

/** The part of the span from this microsecond on, in the direction. */
export function fromOn(span: Span, us: number, direction: Direction): Span {
  return direction === 'desc'
    ? { startUs: span.startUs, endUs: Math.min(span.endUs, us + 1) }
    : { startUs: Math.max(span.startUs, us), endUs: span.endUs }
}

/** The part of the span after this microsecond, in the direction. */
export function behind(span: Span, us: number, direction: Direction): Span {
  return fromOn(span, direction === 'desc' ? us - 1 : us + 1, direction)
}

/** The first part of the span, of this width, in the direction. */
export function headOfWidth(span: Span, widthUs: number, direction: Direction): Span {
  return direction === 'desc'
    ? { startUs: Math.max(span.startUs, span.endUs - widthUs), endUs: span.endUs }
    : { startUs: span.startUs, endUs: Math.min(span.endUs, span.startUs + widthUs) }
}

/** The intersection. */
export function within(one: Span, other: Span): Span {
  return { startUs: Math.max(one.startUs, other.startUs), endUs: Math.min(one.endUs, other.endUs) }
}

function microseconds(us: bigint): number {
  if (us < BigInt(earliestUs)) return earliestUs
  return us > BigInt(endUs) ? endUs : Number(us)
}

/** Where and how far to walk. */
export interface Walk {
  readonly span: Span
  readonly direction: Direction
  /** How many rows to find. */
  readonly wanted: number
  /** The width of the first window. */
  readonly widthUs: number
  /** True if there are rows at the beginning of the span. */
  readonly beginsAtRows: boolean
  /** The widest window that is allowed at a microsecond. */
  readonly cell?: (us: number) => Span
  /** The microsecond of the first point in the direction; undefined if there is none. */
  readonly first: (span: Span) => Promise<number | undefined>
}

/** What was found in a window. */
export interface Visit {
  /** Number of matching rows. */
  readonly found: number
  /** Number of points that were read, if that is more. */
  readonly seen?: number
  /** Number of points that the next window should have, if that is more than what is missing. */
  readonly aim?: number
  /** The last microsecond that was read completely, if that is not the end of the window. */
  readonly lastUs?: number | undefined
}

/** How many times as wide the next window may be after one with almost no points. */
const growthMax = 60
const shrinkMax = 8
/** From this many points on, a window tells how dense they are. */
const tellingRows = 4

/** Ends when enough rows were found, or at the end of the span. */
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

/** The microsecond at which a walk through the span ends. */
function lastOf({ startUs, endUs }: Span, direction: Direction): number {
  return direction === 'desc' ? startUs : endUs - 1
}

/** The width of the window after one of this width. */
function nextWidth(widthUs: number, found: number, missing: number): number {
  if (found < tellingRows) return widthUs * growthMax
  const enough = (widthUs / found) * missing * 1.5
  return Math.ceil(Math.max(widthUs / shrinkMax, Math.min(widthUs * growthMax, enough)))
}

/** Number of rows in one visit. */
const lookedAtMin = 100
const lookedAtMax = 10_000
/** If less than one row in this many matched, the next visit reads twice as many. */
const telling = 4

/** What was found among the rows that were read. */
export interface Look {
  /** Number of matching rows. */
  readonly found: number
  /** Microseconds of the rows that were read, in the direction. */
  readonly times: readonly number[]
}

/** @param look reads the first `limit` rows of the window, and all rows of the last microsecond */
export async function walkLooking(parts: Walk, look: (window: Span, limit: number, missing: number) => Promise<Look>): Promise<void> {
  let looked = lookedAtMin
  await walk(parts, async (window, missing) => {
    const limit = Math.min(Math.max(2 * missing, looked), lookedAtMax)
    const { found, times } = await look(window, limit, missing)
    looked = found * telling < times.length ? Math.min(2 * limit, lookedAtMax) : limit
    return { found, seen: times.length, aim: looked, lastUs: times.length < limit ? undefined : times.at(-1)! }
  })
}

/** How dense the rows of a channel are, according to its last page; determines the first window of the next page. */
export interface Densities {
  /** A width for this many rows. */
  widthUs(filter: Filter, rows: number): number
  /** @param times microseconds of the rows of a page, in order */
  note(filter: Filter, times: readonly number[]): void
}

/** For an unknown channel: a busy one has a page in it, and for any other the window grows. */
const firstWidthUs = 10_000_000
const widthUsMin = 1_000
/** Compensates for uneven distribution. */
const slack = 1.25
/** Pages with fewer rows are ignored. */
const tellingTimes = 8
const densitiesMax = 10_000

/** Knows no channel at first. */
export function openDensities(): Densities {
  const usPerRow = new Map<string, number>()
  return {
    widthUs(filter, rows) {
      const us = usPerRow.get(kindOf(filter))
      return us === undefined ? firstWidthUs : Math.ceil(Math.max(widthUsMin, us * rows * slack))
    },
    note(filter, times) {
      if (times.length < tellingTimes) return
      if (usPerRow.size >= densitiesMax) usPerRow.clear()
      usPerRow.set(kindOf(filter), Math.abs(times[0]! - times.at(-1)!) / times.length)
    },
  }
}

const otherFilters = ['subtopic', 'name', 'unit', 'value', 'boolValue', 'stringValue', 'dataValue', 'protocol'] as const

/** Channel, format and publisher. Of the other filters only which are set, since their values would be too many to remember. */
function kindOf(filter: Filter): string {
  const { channel, format, publisher, payload } = filter
  return JSON.stringify([channel, format, publisher ?? null, otherFilters.map(name => filter[name] !== undefined), payload.length])
}
