// Stretches of time in whole microseconds: the unit in which points of this store lie.

import { unitsDown, unitsUp } from '../instants.ts'
import type { Direction, Selection } from '../query.ts'
import { senmlFormat } from '../reader.ts'

export interface Span {
  /** Microseconds since 1970, inclusive. */
  readonly startUs: number
  /** Exclusive. */
  readonly endUs: number
}

export interface Bounds {
  /** Everything in which a row may lie. */
  readonly all: Span
  /** Of every row in it `from` and `to` hold. */
  readonly whole: Span
  /** Single microseconds before and behind it: of the documents in them some may lie within `from` and `to`. */
  readonly before: Span | undefined
  readonly behind: Span | undefined
}

/** Doubles hold these, and the sink stores no others. */
const earliestUs = -Number.MAX_SAFE_INTEGER
const endUs = Number.MAX_SAFE_INTEGER + 1

/** What `from` and `to` say, in nanoseconds. The time of a record is a whole microsecond; that of a document lies somewhere in its own. */
export function boundsOf({ format, fromNs, toNs }: Pick<Selection, 'format' | 'fromNs' | 'toNs'>): Bounds {
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

/** The microsecond in which the instant lies, where it does not begin with it, and points may lie there. */
function borderOf(ns: bigint | undefined): Span | undefined {
  if (ns === undefined || ns % 1000n === 0n) return undefined
  const us = unitsDown(ns, 1000n)
  return us < BigInt(earliestUs) || us >= BigInt(endUs) ? undefined : microsecond(Number(us))
}

export function isEmpty({ startUs, endUs }: Span): boolean {
  return startUs >= endUs
}

export function microsecond(us: number): Span {
  return { startUs: us, endUs: us + 1 }
}

export function microsecondOf(ns: bigint): number {
  return microseconds(unitsDown(ns, 1000n))
}

/** Its end in the direction in which time is walked: where a walk begins. */
export function headOf({ startUs, endUs }: Span, direction: Direction): number {
  return direction === 'desc' ? endUs - 1 : startUs
}

/** What of the span comes at this microsecond and behind it. */
export function fromOn(span: Span, us: number, direction: Direction): Span {
  return direction === 'desc'
    ? { startUs: span.startUs, endUs: Math.min(span.endUs, us + 1) }
    : { startUs: Math.max(span.startUs, us), endUs: span.endUs }
}

/** What of the span comes behind this microsecond. */
export function behind(span: Span, us: number, direction: Direction): Span {
  return fromOn(span, direction === 'desc' ? us - 1 : us + 1, direction)
}

/** So much of the span from its head on. */
export function headOfWidth(span: Span, widthUs: number, direction: Direction): Span {
  return direction === 'desc'
    ? { startUs: Math.max(span.startUs, span.endUs - widthUs), endUs: span.endUs }
    : { startUs: span.startUs, endUs: Math.min(span.endUs, span.startUs + widthUs) }
}

/** What both have. */
export function within(one: Span, other: Span): Span {
  return { startUs: Math.max(one.startUs, other.startUs), endUs: Math.min(one.endUs, other.endUs) }
}

function microseconds(us: bigint): number {
  if (us < BigInt(earliestUs)) return earliestUs
  return us > BigInt(endUs) ? endUs : Number(us)
}
