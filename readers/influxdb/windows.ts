// Time in whole milliseconds, the unit of points in this store, and how to walk through it: in windows whose width follows from what was found in the
// previous ones, skipping stretches without points.

import { setBounded } from '../../config/bounded-map.ts'
import { unitsDown, unitsUp } from '../../transformers/time-units.ts'
import type { Direction, Filter } from '../reader.ts'

/** A span of time. */
export interface Span {
  /** Milliseconds since 1970, inclusive. */
  readonly startMs: number
  /** Exclusive. */
  readonly endMs: number
}

/** The times that the rows of a filter may have. */
export interface Bounds {
  /** All times that a row may have. */
  readonly all: Span
  /** Every row in it is within `from` and `to`. */
  readonly whole: Span
  /** Single milliseconds before and after `whole`: some of the rows in them may be within `from` and `to`. */
  readonly before: Span | undefined
  readonly behind: Span | undefined
}

export const nsPerMs = 1_000_000n
/** The milliseconds of times that doubles represent exactly in milliseconds; the sink stores no others. */
const earliestMs = Math.floor(-Number.MAX_SAFE_INTEGER / 1000)
const endMs = Math.floor(Number.MAX_SAFE_INTEGER / 1000) + 1

/** Converts `from` and `to`, which are in nanoseconds: the time of a row is anywhere in its millisecond. */
export function boundsOf({ fromNs, toNs }: Pick<Filter, 'fromNs' | 'toNs'>): Bounds {
  const whole = {
    startMs: fromNs === undefined ? earliestMs : milliseconds(unitsUp(fromNs, nsPerMs)),
    endMs: toNs === undefined ? endMs : milliseconds(unitsUp(toNs, nsPerMs)),
  }
  const [before, behind] = [borderOf(fromNs), borderOf(toNs)]
  const inner = { startMs: whole.startMs, endMs: behind?.startMs ?? whole.endMs }
  const all = { startMs: (before ?? whole).startMs, endMs: Math.max(whole.endMs, (before ?? whole).endMs) }
  return { all, whole: inner, before, behind: behind?.startMs === before?.startMs ? undefined : behind }
}

/** The millisecond of a time that is not a whole one, if it can have points. */
function borderOf(ns: bigint | undefined): Span | undefined {
  if (ns === undefined || ns % nsPerMs === 0n) return undefined
  const ms = unitsDown(ns, nsPerMs)
  return ms < BigInt(earliestMs) || ms >= BigInt(endMs) ? undefined : millisecond(Number(ms))
}

/** True if the span is empty. */
export function isEmpty({ startMs, endMs }: Span): boolean {
  return startMs >= endMs
}

/** The span of one millisecond. */
export function millisecond(ms: number): Span {
  return { startMs: ms, endMs: ms + 1 }
}

/** The millisecond of a time in nanoseconds. */
export function millisecondOf(ns: bigint): number {
  return milliseconds(unitsDown(ns, nsPerMs))
}

/** The millisecond at which a walk through the span begins. */
export function headOf({ startMs, endMs }: Span, direction: Direction): number {
  return direction === 'desc' ? endMs - 1 : startMs
}

/** The part of the span from this millisecond on, in the direction. */
export function fromOn(span: Span, ms: number, direction: Direction): Span {
  return direction === 'desc'
    ? { startMs: span.startMs, endMs: Math.min(span.endMs, ms + 1) }
    : { startMs: Math.max(span.startMs, ms), endMs: span.endMs }
}

/** The part of the span after this millisecond, in the direction. */
export function behind(span: Span, ms: number, direction: Direction): Span {
  return fromOn(span, direction === 'desc' ? ms - 1 : ms + 1, direction)
}

/** The first part of the span, of this width, in the direction. */
function headOfWidth(span: Span, widthMs: number, direction: Direction): Span {
  return direction === 'desc'
    ? { startMs: Math.max(span.startMs, span.endMs - widthMs), endMs: span.endMs }
    : { startMs: span.startMs, endMs: Math.min(span.endMs, span.startMs + widthMs) }
}

/** The intersection. */
export function within(one: Span, other: Span): Span {
  return { startMs: Math.max(one.startMs, other.startMs), endMs: Math.min(one.endMs, other.endMs) }
}

function milliseconds(ms: bigint): number {
  if (ms < BigInt(earliestMs)) return earliestMs
  return ms > BigInt(endMs) ? endMs : Number(ms)
}

/** Where and how far to walk. */
export interface Walk {
  readonly span: Span
  readonly direction: Direction
  /** How many rows to find. */
  readonly wanted: number
  /** The width of the first window. */
  readonly widthMs: number
  /** True if there are rows at the beginning of the span. */
  readonly beginsAtRows: boolean
  /** The millisecond of the first point in the direction; undefined if there is none. */
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
  /** The last millisecond that was read completely, if that is not the end of the window. */
  readonly lastMs?: number | undefined
}

/** How many times as wide the next window may be after one with almost no points. */
const growthMax = 60
const shrinkMax = 8
/** From this many points on, a window tells how dense they are. */
const tellingRows = 4

/** Ends when enough rows were found, or at the end of the span. */
export async function walk(
  { span, direction, wanted, widthMs, beginsAtRows, first }: Walk,
  visit: (window: Span, missing: number) => Promise<Visit>,
): Promise<void> {
  let rest = span
  let width = widthMs
  let isAtRows = beginsAtRows
  let missing = wanted
  while (!isEmpty(rest) && missing > 0) {
    if (!isAtRows) {
      const ms = await first(rest)
      if (ms === undefined) return
      rest = fromOn(rest, ms, direction)
    }
    const window = headOfWidth(rest, width, direction)
    const { found, seen = found, lastMs = lastOf(window, direction), aim } = await visit(window, missing)
    missing -= found
    rest = behind(rest, lastMs, direction)
    isAtRows = seen > 0
    width = nextWidth(Math.abs(lastMs - headOf(window, direction)) + 1, seen, aim ?? missing)
  }
}

/** The millisecond at which a walk through the span ends. */
function lastOf({ startMs, endMs }: Span, direction: Direction): number {
  return direction === 'desc' ? startMs : endMs - 1
}

/** The width of the window after one of this width. */
function nextWidth(widthMs: number, found: number, missing: number): number {
  if (found < tellingRows) return widthMs * growthMax
  const enough = (widthMs / found) * missing * 1.5
  return Math.ceil(Math.max(widthMs / shrinkMax, Math.min(widthMs * growthMax, enough)))
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
  /** Milliseconds of the rows that were read, in the direction. */
  readonly times: readonly number[]
}

/** @param look reads the first `limit` rows of the window, and all rows of the last millisecond */
export async function walkLooking(parts: Walk, look: (window: Span, limit: number, missing: number) => Promise<Look>): Promise<void> {
  let looked = lookedAtMin
  await walk(parts, async (window, missing) => {
    const limit = Math.min(Math.max(2 * missing, looked), lookedAtMax)
    const { found, times } = await look(window, limit, missing)
    looked = found * telling < times.length ? Math.min(2 * limit, lookedAtMax) : limit
    return { found, seen: times.length, aim: looked, lastMs: times.length < limit ? undefined : times.at(-1)! }
  })
}

/** How dense the rows of a channel are, according to its last page; determines the first window of the next page. */
export interface Densities {
  /** A width for this many rows. */
  widthMs(filter: Filter, rows: number): number
  /** @param times milliseconds of the rows of a page, in order */
  note(filter: Filter, times: readonly number[]): void
}

/** For an unknown channel: a busy one has a page in it, and for any other the window grows. */
const firstWidthMs = 10_000
const widthMsMin = 1
/** Compensates for uneven distribution. */
const slack = 1.25
/** Pages with fewer rows are ignored. */
const tellingTimes = 8
const densitiesMax = 10_000

/** Knows no channel at first. */
export function openDensities(): Densities {
  const msPerRow = new Map<string, number>()
  return {
    widthMs(filter, rows) {
      const ms = msPerRow.get(kindOf(filter))
      return ms === undefined ? firstWidthMs : Math.ceil(Math.max(widthMsMin, ms * rows * slack))
    },
    note(filter, times) {
      if (times.length < tellingTimes) return
      setBounded(msPerRow, kindOf(filter), Math.abs(times[0]! - times.at(-1)!) / times.length, densitiesMax)
    },
  }
}

const otherFilters = ['subtopic', 'name', 'unit', 'value', 'boolValue', 'stringValue', 'dataValue', 'protocol'] as const

/** Channel, format and publisher. Of the other filters only which are set, since their values would be too many to remember. */
function kindOf(filter: Filter): string {
  const { channel, format, publisher, payload } = filter
  return JSON.stringify([channel, format, publisher ?? null, otherFilters.map(name => filter[name] !== undefined), payload.length])
}
