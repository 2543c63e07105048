// Which instant the parts of a moment make, in their zone, and in the year that they mean where they name none.

import { daysInMonth, daysInYear, daysOf, yearOf } from './calendar.ts'
import type { Instant } from './instant.ts'
import type { Layout } from './layout.ts'
import { openReading, type ReadingFault, readByLayout } from './layout-reading.ts'
import type { Zone } from './zone.ts'

const dayS = 86_400
/** A leap day can be eight years away: 1900 had none. */
const leapYearsApart = 8

const reading = openReading()

/**
 * Reads a text by a layout and leaves its instant in `instant`. Where there is no year, it is the one that brings the instant nearest to
 * the message's; where there is no date at all, it is the nearest day. Any other part that is missing is the first one: January, the 1st,
 * midnight.
 *
 * @param createdUs when the message was received
 * @returns why there is no instant; undefined where there is
 */
export function readMoment(layout: Layout, zone: Zone, text: string, createdUs: number, instant: Instant): ReadingFault | undefined {
  const fault = readByLayout(layout, text, zone.abbreviations, reading)
  if (fault !== undefined) return fault
  if (reading.meridiem === 'pm' && reading.hour < 12) reading.hour += 12
  else if (reading.meridiem === 'am' && reading.hour === 12) reading.hour = 0

  const createdS = createdUs / 1e6
  const instantS = layout.hasYear ? inYear(reading.year, zone) : layout.hasDate ? nearestYear(zone, createdS) : nearestDay(zone, createdS)
  if (Number.isNaN(instantS)) return reading.abbreviation === undefined ? 'syntax' : 'abbreviation'
  instant.us = instantS * 1e6 + Math.floor(reading.nanosecond / 1000)
  instant.restNs = reading.nanosecond % 1000
  return undefined
}

/** The instant of the reading's date in a year; NaN where that year has no such day. */
function inYear(year: number, zone: Zone): number {
  let month = reading.month === 0 ? 1 : reading.month
  let day = reading.day === 0 ? 1 : reading.day
  if (reading.yearDay > 0) {
    if (reading.yearDay > daysInYear(year)) return Number.NaN
    month = 1
    day = reading.yearDay
    while (day > daysInMonth(year, month)) day -= daysInMonth(year, month++)
    // What else was said of the date must mean the same.
    if ((reading.month !== 0 && reading.month !== month) || (reading.day !== 0 && reading.day !== day)) return Number.NaN
  }
  return day > daysInMonth(year, month) ? Number.NaN : onDay(daysOf(year, month, day), zone)
}

/** The instant of the reading's time on a day; NaN where its abbreviation is an offset that the zone does not have then. */
function onDay(days: number, zone: Zone): number {
  const localS = days * dayS + reading.hour * 3600 + reading.minute * 60 + reading.second
  if (!Number.isNaN(reading.offsetS)) return localS - reading.offsetS
  const { abbreviation } = reading
  if (abbreviation === undefined) return zone.instantOf(localS)
  if (abbreviation.numeric && !zone.hasOffset(abbreviation.offsetsS[0]!, localS)) return Number.NaN
  return zone.instantBy(abbreviation, localS)
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

/** The day by the zone's clocks is that of UTC or next to it, so the nearest is at most two away. */
function nearestDay(zone: Zone, createdS: number): number {
  const today = Math.floor(createdS / dayS)
  let nearestS = Number.NaN
  for (let days = today - 2; days <= today + 2; days++) nearestS = nearer(nearestS, onDay(days, zone), createdS)
  return nearestS
}

/** The one nearer to `createdS`, the earlier one of two as near; either may be NaN. */
function nearer(oneS: number, otherS: number, createdS: number): number {
  if (Number.isNaN(otherS)) return oneS
  if (Number.isNaN(oneS)) return otherS
  const difference = Math.abs(otherS - createdS) - Math.abs(oneS - createdS)
  return difference < 0 || (difference === 0 && otherS < oneS) ? otherS : oneS
}
