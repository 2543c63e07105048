// Converts a civil time in a zone into an instant, and guesses the year or day if the text has none.

import { daysInMonth, daysInYear, daysOf, yearOf } from './calendar.ts'
import type { Layout } from './layout.ts'
import { openReading, type ReadingFault, readByLayout } from './layout-reading.ts'
import type { Timestamp } from './timestamp.ts'
import type { Zone } from './zone.ts'

const dayS = 86_400
/** A leap day can be eight years away: 1900 had none. */
const leapYearsApart = 8

const reading = openReading()

/**
 * Parses a text by a layout and writes the result to `timestamp`. Without a year, the year is chosen that brings the result closest to
 * the time of receipt; without any date, the closest day. Any other missing part is the first one: January, the 1st,
 * midnight.
 *
 * @param createdUs time of receipt
 * @returns the fault; undefined on success
 */
export function readCivilTime(layout: Layout, zone: Zone, text: string, createdUs: number, timestamp: Timestamp): ReadingFault | undefined {
  const fault = readByLayout(layout, text, zone.abbreviations, reading)
  if (fault !== undefined) return fault
  if (reading.meridiem === 'pm' && reading.hour < 12) reading.hour += 12
  else if (reading.meridiem === 'am' && reading.hour === 12) reading.hour = 0

  const createdS = createdUs / 1e6
  const timestampS = layout.hasYear ? inYear(reading.year, zone) : layout.hasDate ? nearestYear(zone, createdS) : nearestDay(zone, createdS)
  if (Number.isNaN(timestampS)) return reading.abbreviation === undefined ? 'syntax' : 'abbreviation'
  timestamp.us = timestampS * 1e6 + Math.floor(reading.nanosecond / 1000)
  timestamp.restNs = reading.nanosecond % 1000
  return undefined
}

/** The instant of the parsed date in a year; NaN if that year has no such day. */
function inYear(year: number, zone: Zone): number {
  let month = reading.month === 0 ? 1 : reading.month
  let day = reading.day === 0 ? 1 : reading.day
  if (reading.yearDay > 0) {
    if (reading.yearDay > daysInYear(year)) return Number.NaN
    month = 1
    day = reading.yearDay
    while (day > daysInMonth(year, month)) day -= daysInMonth(year, month++)
    // Month and day in the text must match the day of the year.
    if ((reading.month !== 0 && reading.month !== month) || (reading.day !== 0 && reading.day !== day)) return Number.NaN
  }
  return day > daysInMonth(year, month) ? Number.NaN : onDay(daysOf(year, month, day), zone)
}

/** The instant of the parsed time on a day; NaN if its abbreviation is an offset that the zone does not have then. */
function onDay(days: number, zone: Zone): number {
  const localS = days * dayS + reading.hour * 3600 + reading.minute * 60 + reading.second
  if (!Number.isNaN(reading.offsetS)) return localS - reading.offsetS
  const { abbreviation } = reading
  if (abbreviation === undefined) return zone.timestampOf(localS)
  if (abbreviation.numeric && !zone.hasOffset(abbreviation.offsetsS[0]!, localS)) return Number.NaN
  return zone.timestampBy(abbreviation, localS)
}

function nearestYear(zone: Zone, createdS: number): number {
  const year = yearOf(Math.floor(createdS / dayS))
  let nearestS = inYear(year, zone)
  for (let apart = 1; apart <= leapYearsApart; apart++) {
    nearestS = nearer(nearestS, inYear(year - apart, zone), createdS)
    nearestS = nearer(nearestS, inYear(year + apart, zone), createdS)
    if (!Number.isNaN(nearestS)) break
  }
  return nearestS
}

/** The zone's local day is at most one day from that of UTC, so the nearest is at most two away. */
function nearestDay(zone: Zone, createdS: number): number {
  const today = Math.floor(createdS / dayS)
  let nearestS = Number.NaN
  for (let days = today - 2; days <= today + 2; days++) nearestS = nearer(nearestS, onDay(days, zone), createdS)
  return nearestS
}

/** The one closer to `createdS`, or the earlier one if both are equally close; either may be NaN. */
function nearer(oneS: number, otherS: number, createdS: number): number {
  if (Number.isNaN(otherS)) return oneS
  if (Number.isNaN(oneS)) return otherS
  const difference = Math.abs(otherS - createdS) - Math.abs(oneS - createdS)
  return difference < 0 || (difference === 0 && otherS < oneS) ? otherS : oneS
}
