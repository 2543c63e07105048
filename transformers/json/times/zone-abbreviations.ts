// The abbreviations of time zones, for example `CEST` in Europe/Berlin. The data is in zone-abbreviations.json.
//
// For each zone of the tz database it contains the letter abbreviations used there since 1970, from that database and from
// CLDR's English names, with their offsets. `Intl` knows a zone's offset at every instant, but few of its abbreviations.

import groups from './zone-abbreviations.json' with { type: 'json' }

/** Offsets from UTC in seconds that an abbreviation has stood for, newest first. */
export interface Abbreviation {
  readonly text: string
  readonly offsetsS: readonly number[]
  /** True if it is the offset itself instead of letters, such as `-03`. */
  readonly numeric: boolean
}

/** By the zone's name in lower case. */
const byZone = new Map<string, readonly Abbreviation[]>()
for (const { abbreviations, zones } of groups) {
  // Longer ones first, so that none matches as a prefix of another.
  const sorted = Object.entries(abbreviations as Record<string, number[]>)
    .map(([text, offsetsS]) => ({ text, offsetsS, numeric: false }))
    .sort((a, b) => b.text.length - a.text.length)
  for (const zone of zones.split(' ')) byZone.set(zone.toLowerCase(), sorted)
}

/** The abbreviations of a zone; empty for the many that only have offsets. */
export function abbreviationsOf(zone: string): readonly Abbreviation[] {
  return byZone.get(zone.toLowerCase()) ?? []
}
