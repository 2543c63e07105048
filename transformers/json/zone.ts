// Time zones: from what a clock on the wall shows to an instant, fast enough to be asked for each document.
//
// `Intl` knows the offset of a zone at an instant, and takes about a microsecond to say it. So it is asked once for a span of 388 days,
// every six days and then by halves around each change, and the changes are kept. No zone has changed its offset twice in six days.

import { type Abbreviation, abbreviationsOf } from './zone-abbreviations.ts'

export interface Zone {
  /**
   * The instant at which the zone's clocks show a time. Where they skip it, the offset before the gap holds; where they show it twice, it
   * is the first.
   *
   * @param localS the time shown, as if it were UTC: seconds since 1970
   * @returns seconds since 1970
   */
  instantOf(localS: number): number
  /**
   * As `instantOf`, of a time that came with an abbreviation: that says which of the two it is where clocks show it twice. An abbreviation
   * not in force at that time means what it means when it is.
   */
  instantBy(abbreviation: Abbreviation, localS: number): number
  /**
   * Whether the zone has this offset at that time, or half a year before or after: so it can stand for an abbreviation, as `-03` does where
   * a zone has no letters of its own.
   */
  hasOffset(offsetS: number, localS: number): boolean
  readonly abbreviations: readonly Abbreviation[]
}

/** One span: the offset at its beginning, and each later one with the second at which it begins. */
interface Span {
  readonly offsetsS: number[]
  readonly beginsS: number[]
}

const spanS = 2 ** 25
const stepS = 2 ** 19
const dayS = 86_400
const halfYearS = 182 * dayS
/** What a row can hold. Beyond, documents are refused, so their offsets are not worth keeping. */
const instantMaxS = Number.MAX_SAFE_INTEGER / 1e6

/** UTC, and whatever never leaves it. */
export const utc: Zone = {
  instantOf: localS => localS,
  instantBy: ({ offsetsS }, localS) => localS - offsetsS[0]!,
  hasOffset: offsetS => offsetS === 0,
  abbreviations: [],
}

/**
 * Opens a zone of the IANA database by its name; what `Intl` takes besides, such as `+02:00`, is taken too. No name means UTC.
 *
 * @throws RangeError for a name that is unknown
 */
export function openZone(name: string): Zone {
  if (name === '' || name === 'UTC') return utc
  const asked = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' })
  const spans = new Map<number, Span>()

  /** `1/1/1880, GMT+00:53:28` → 3208 */
  function askOffset(instantS: number): number {
    const text = asked.format(instantS * 1000)
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

  function offsetAt(instantS: number): number {
    if (Math.abs(instantS) > instantMaxS) return 0
    const index = Math.floor(instantS / spanS)
    let span = spans.get(index)
    if (span === undefined) spans.set(index, (span = askSpan(index)))
    let at = span.beginsS.length - 1
    while (span.beginsS[at]! > instantS) at--
    return span.offsetsS[at]!
  }

  function instantOf(localS: number): number {
    // Offsets are less than a day, and changes lie further apart than two.
    const beforeS = offsetAt(localS - dayS)
    const afterS = offsetAt(localS + dayS)
    if (beforeS === afterS || offsetAt(localS - beforeS) === beforeS) return localS - beforeS
    return offsetAt(localS - afterS) === afterS ? localS - afterS : localS - beforeS
  }

  return {
    instantOf,
    instantBy({ offsetsS }, localS) {
      const inForce = offsetsS.find(offsetS => offsetAt(localS - offsetS) === offsetS)
      return localS - (inForce ?? offsetsS[0]!)
    },
    hasOffset: (offsetS, localS) => [0, -halfYearS, halfYearS].some(apartS => offsetAt(localS + apartS - offsetS) === offsetS),
    abbreviations: abbreviationsOf(name),
  }
}
