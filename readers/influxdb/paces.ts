// Remembers how dense the rows of a channel lie, so that the first window of the next page has the right width.

import type { Selection } from '../query.ts'

export interface Paces {
  /** Wide enough for so many rows; undefined where nothing is known. */
  widthUs(selection: Selection, rows: number): number | undefined
  /** @param places microseconds of the rows of a page, in order */
  note(selection: Selection, places: readonly number[]): void
}

const rememberedMax = 10_000
/** Rows do not lie evenly. */
const slack = 1.25
const widthUsMin = 1_000
/** Fewer say nothing. */
const tellingPlaces = 8

export function openPaces(): Paces {
  const paces = new Map<string, number>()
  return {
    widthUs(selection, rows) {
      const pace = paces.get(keyOf(selection))
      return pace === undefined ? undefined : Math.ceil(Math.max(widthUsMin, pace * rows * slack))
    },
    note(selection, places) {
      if (places.length < tellingPlaces) return
      if (paces.size >= rememberedMax) paces.clear()
      paces.set(keyOf(selection), Math.abs(places[0]! - places.at(-1)!) / places.length)
    },
  }
}

/** Other filters have a pace of their own, and are too many to remember: only that there are some. */
function keyOf({
  channel,
  format,
  publisher,
  subtopic,
  name,
  unit,
  value,
  boolValue,
  stringValue,
  dataValue,
  protocol,
  payload,
}: Selection) {
  const others = [subtopic, name, unit, value, boolValue, stringValue, dataValue, protocol].map(one => one !== undefined)
  return JSON.stringify([channel, format, publisher ?? null, others, payload.length])
}
