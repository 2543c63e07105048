// Reads Accept and headers like it: values with a weight each (RFC 9110 §12.4.2).

/** A value of such a header, in lower case and without its parameters. */
export interface Preference {
  readonly value: string
  /** From 0, not acceptable, to 1; 1 also if it is missing or invalid. */
  readonly weight: number
}

/** Limits the cost of a long header. */
const valuesMax = 20

/** The values of a header, in its order. */
function preferencesOf(header: string): Preference[] {
  return header.split(',', valuesMax).map(text => {
    const [value = '', ...parameters] = text.split(';').map(part => part.trim().toLowerCase())
    const given = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
    const weight = given === undefined || given === '' ? 1 : Number(given)
    return { value, weight: weight >= 0 && weight <= 1 ? weight : 1 }
  })
}

/** The media ranges of Accept; empty if it is missing or contains no type. */
export function mediaRanges(accept = ''): Preference[] {
  return preferencesOf(accept).filter(({ value }) => /^[^/\s]+\/[^/\s]+$/.test(value))
}

/** The weight of a type, 0 if no range matches it. The most specific range counts: `text/csv` before `text/*` before all types. */
export function weightOf(mediaType: string, ranges: readonly Preference[]): number {
  for (const type of [mediaType, `${mediaType.split('/')[0]}/*`, '*/*']) {
    const range = ranges.find(({ value }) => value === type)
    if (range !== undefined) return range.weight
  }
  return 0
}

/** True if gzip is preferred at least as much as no coding; a star matches codings that are not listed. */
export function takesGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false
  const values = preferencesOf(acceptEncoding)
  const given = (...names: string[]): number | undefined => values.find(({ value }) => names.includes(value))?.weight
  const wanted = given('gzip', 'x-gzip') ?? given('*') ?? 0
  return wanted > 0 && wanted >= (given('identity') ?? 0)
}
