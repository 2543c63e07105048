// The abbreviations of time zones: what `CEST` means in Europe/Berlin. The registry itself is data: zone-abbreviations.json.
//
// It holds, for each zone of the tz database, the abbreviations of letters that have been in use there since 1970 by that database or by
// the English names of CLDR, with their offsets. `Intl` knows the offsets of a zone at every instant, but few of its abbreviations.

import groups from './zone-abbreviations.json' with { type: 'json' }

/** Offsets from UTC in seconds that an abbreviation stands or stood for, the newest first. */
export interface Abbreviation {
  readonly text: string
  readonly offsetsS: readonly number[]
  /** It has no letters but is the offset itself, as `-03`. */
  readonly numeric: boolean
}

/** By the zone's name in lower case. */
const byZone = new Map<string, readonly Abbreviation[]>()
for (const { abbreviations, zones } of groups) {
  // Longer ones first, so that none is taken for the beginning of another.
  const sorted = Object.entries(abbreviations as Record<string, number[]>)
    .map(([text, offsetsS]) => ({ text, offsetsS, numeric: false }))
    .sort((a, b) => b.text.length - a.text.length)
  for (const zone of zones.split(' ')) byZone.set(zone.toLowerCase(), sorted)
}

/** The abbreviations of a zone, or none: many have only offsets. */
export function abbreviationsOf(zone: string): readonly Abbreviation[] {
  return byZone.get(zone.toLowerCase()) ?? []
}
