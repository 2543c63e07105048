// The conditions of an erasure as texts of a person.

import type { ErasureFilter } from '../../sinks/erasure.ts'
import { canonicalId } from '../../transformers/uuid.ts'

export interface Conditions {
  readonly channel?: string | undefined
  readonly publisher?: string | undefined
  /** A day, from 0:00 UTC, or a time with its zone. */
  readonly before?: string | undefined
}

/** No finer than what all stores can delete by. */
const timePattern = /^\d{4}-\d{2}-\d{2}(T(?!24)\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** @throws RangeError that says what is wrong */
export function erasureFilter({ channel, publisher, before }: Conditions, nowMs = Date.now()): ErasureFilter {
  if (channel === undefined && publisher === undefined && before === undefined) {
    throw new RangeError('nothing is selected to erase: give a channel, a publisher or a time')
  }
  if (channel === '' || publisher === '') throw new RangeError('an id is empty: give that of a channel or a thing')
  return {
    ...(channel === undefined ? {} : { channel: canonicalId(channel) }),
    ...(publisher === undefined ? {} : { publisher: canonicalId(publisher) }),
    ...(before === undefined ? {} : { beforeMs: timeOf(before, nowMs) }),
  }
}

function timeOf(text: string, nowMs: number): number {
  const ms = timePattern.test(text) && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(ms)) {
    throw new RangeError(
      `${JSON.stringify(text)} is not a day (2026-01-01), nor a time to the millisecond with its zone (2026-01-01T12:00:00Z)`,
    )
  }
  if (ms > nowMs) throw new RangeError(`${text} is in the future`)
  return ms
}

/** A date is parsed as a later one if its month is shorter. */
function isDay(date: string): boolean {
  const ms = Date.parse(date)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date)
}
