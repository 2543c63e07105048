// Which form of an answer is asked for: the Accept header (RFC 9110 §12.5.1) against the three that there are.

import { type Weighted, weightedValues } from './weighted.ts'

export const mediaTypes = { json: 'application/json', ndjson: 'application/x-ndjson', csv: 'text/csv' } as const
export type Form = keyof typeof mediaTypes

/** With their parameters, as answers name them. */
export const contentTypes: Readonly<Record<Form, string>> = {
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
}

const forms = Object.keys(mediaTypes) as Form[]

/**
 * The form with the greatest quality, of equal ones the first of JSON, NDJSON and CSV; undefined where none is wanted. Without a header,
 * or with one that says nothing, JSON.
 *
 * @param offered those that there are of the answer, JSON among them
 */
export function formOf(accept: string | undefined, offered: readonly Form[] = forms): Form | undefined {
  const ranges = weightedValues(accept ?? '').filter(({ value }) => /^[^/\s]+\/[^/\s]+$/.test(value))
  if (ranges.length === 0) return 'json'
  let best: Form | undefined
  let bestQuality = 0
  for (const form of offered) {
    const quality = qualityOf(mediaTypes[form], ranges)
    if (quality > bestQuality) {
      best = form
      bestQuality = quality
    }
  }
  return best
}

/** The most specific range that fits counts: `text/csv` before `text/*` before all types. */
function qualityOf(mediaType: string, ranges: readonly Weighted[]): number {
  for (const type of [mediaType, `${mediaType.split('/')[0]}/*`, '*/*']) {
    const range = ranges.find(({ value }) => value === type)
    if (range !== undefined) return range.weight
  }
  return 0
}
