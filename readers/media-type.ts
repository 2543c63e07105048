// Which form of an answer is asked for: the Accept header (RFC 9110 §12.5.1) against the three that there are.

export const mediaTypes = { json: 'application/json', ndjson: 'application/x-ndjson', csv: 'text/csv' } as const
export type Form = keyof typeof mediaTypes

/** With their parameters, as answers name them. */
export const contentTypes: Readonly<Record<Form, string>> = {
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
  csv: 'text/csv; charset=utf-8; header=present',
}

const forms = Object.keys(mediaTypes) as Form[]
const rangesMax = 20

/**
 * The form with the greatest quality, of equal ones the first of JSON, NDJSON and CSV; undefined where none is wanted. Without a header,
 * or with one that says nothing, JSON.
 */
export function formOf(accept: string | undefined): Form | undefined {
  const ranges = (accept ?? '').split(',', rangesMax).flatMap(range => rangeOf(range))
  if (ranges.length === 0) return 'json'
  let best: Form | undefined
  let bestQuality = 0
  for (const form of forms) {
    const quality = qualityOf(mediaTypes[form], ranges)
    if (quality > bestQuality) {
      best = form
      bestQuality = quality
    }
  }
  return best
}

interface Range {
  readonly type: string
  readonly quality: number
}

function rangeOf(text: string): Range[] {
  const [type = '', ...parameters] = text.split(';').map(part => part.trim().toLowerCase())
  if (!/^[^/\s]+\/[^/\s]+$/.test(type)) return []
  const given = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
  const quality = given === undefined ? 1 : Number(given)
  return [{ type, quality: quality >= 0 && quality <= 1 ? quality : 1 }]
}

/** The most specific range that fits counts: `text/csv` before `text/*` before all types. */
function qualityOf(mediaType: string, ranges: readonly Range[]): number {
  for (const type of [mediaType, `${mediaType.split('/')[0]}/*`, '*/*']) {
    const range = ranges.find(one => one.type === type)
    if (range !== undefined) return range.quality
  }
  return 0
}
