// Time zones: converts local times to instants, fast enough to be called for each document.
//
// `Intl` returns the offset of a zone at an instant in about a microsecond. So it is queried once for a span of 388 days,
// every six days and then by bisection around each change, and the changes are cached. No zone has changed its offset twice in six days.

import { type Abbreviation, abbreviationsOf } from './zone-abbreviations.ts'

export interface Zone {
  /**
   * The instant of a local time. For a skipped time, the offset before the gap applies; for a repeated one, it
   * is the first.
   *
   * @param localS the local time as if it were UTC: seconds since 1970
   * @returns seconds since 1970
   */
  timestampOf(localS: number): number
  /**
   * Like `timestampOf`, for a time with an abbreviation, which decides between the two instants of a repeated time. If the abbreviation is
   * not in use at that time, its usual offset applies.
   */
  timestampBy(abbreviation: Abbreviation, localS: number): number
  /**
   * Whether the zone has this offset at that time, or half a year before or after. It can then serve as an abbreviation, as `-03` does in
   * zones without letters.
   */
  hasOffset(offsetS: number, localS: number): boolean
  readonly abbreviations: readonly Abbreviation[]
}

/** One span: the offset at its start, and each later one with the second at which it starts. */
interface Span {
  readonly offsetsS: number[]
  readonly beginsS: number[]
}

const spanS = 2 ** 25
const stepS = 2 ** 19
const dayS = 86_400
const halfYearS = 182 * dayS
/** The limit of a row's time. Documents beyond it are rejected, so their offsets are not cached. */
const timestampMaxS = Number.MAX_SAFE_INTEGER / 1e6

/** UTC. */
export const utc: Zone = {
  timestampOf: localS => localS,
  timestampBy: ({ offsetsS }, localS) => localS - offsetsS[0]!,
  hasOffset: offsetS => offsetS === 0,
  abbreviations: [],
}

/**
 * Opens a zone of the IANA database by name; other names that `Intl` accepts, such as `+02:00`, work too. An empty name means UTC.
 *
 * @throws RangeError for an unknown name
 */
export function openZone(name: string): Zone {
  if (name === '' || name === 'UTC') return utc
  const asked = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' })
  const spans = new Map<number, Span>()

  /** `1/1/1880, GMT+00:53:28` → 3208 */
  function askOffset(timestampS: number): number {
    const text = asked.format(timestampS * 1000)
    const [, sign, hours, minutes, seconds] = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/.exec(text) ?? []
    if (sign === undefined) return 0
    const offsetS = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds ?? 0)
    return sign === '-' ? -offsetS : offsetS
  }

  /** The second at which the offset becomes what it is at `toS`. */
  function findChange(fromS: number, fromOffsetS: number, toS: number): number {
    let before = fromS
    let after = toS
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (askOffset(middle) === fromOffsetS) before = middle
      else after = middle
    }
    return after
  }

  function askSpan(index: number): Span {
    const startS = index * spanS
    let offsetS = askOffset(startS)
    const span: Span = { offsetsS: [offsetS], beginsS: [startS] }
    for (let atS = startS; atS < startS + spanS; atS += stepS) {
      const nextS = askOffset(atS + stepS)
      if (nextS === offsetS) continue
      span.beginsS.push(findChange(atS, offsetS, atS + stepS))
      span.offsetsS.push(nextS)
      offsetS = nextS
    }
    return span
  }

  function offsetAt(timestampS: number): number {
    if (Math.abs(timestampS) > timestampMaxS) return 0
    const index = Math.floor(timestampS / spanS)
    let span = spans.get(index)
    if (span === undefined) spans.set(index, (span = askSpan(index)))
    let at = span.beginsS.length - 1
    while (span.beginsS[at]! > timestampS) at--
    return span.offsetsS[at]!
  }

  function timestampOf(localS: number): number {
    // Offsets are less than a day, and changes are more than two days apart.
    const beforeS = offsetAt(localS - dayS)
    const afterS = offsetAt(localS + dayS)
    if (beforeS === afterS || offsetAt(localS - beforeS) === beforeS) return localS - beforeS
    return offsetAt(localS - afterS) === afterS ? localS - afterS : localS - beforeS
  }

  return {
    timestampOf,
    timestampBy({ offsetsS }, localS) {
      const inForce = offsetsS.find(offsetS => offsetAt(localS - offsetS) === offsetS)
      return localS - (inForce ?? offsetsS[0]!)
    },
    hasOffset: (offsetS, localS) => [0, -halfYearS, halfYearS].some(apartS => offsetAt(localS + apartS - offsetS) === offsetS),
    abbreviations: abbreviationsOf(name),
  }
}
