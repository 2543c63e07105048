// Parses a text by a layout into the parts of a civil time; civil-time.ts converts them into an instant.

import { type Layout, Step } from './layout.ts'
import { found, readName, readNanoseconds, readNumber, readOffset } from './layout-text.ts'
import type { Abbreviation } from './zone-abbreviations.ts'

/** The parsed parts; one object of fixed shape, reused for every text. */
export interface Reading {
  year: number
  /** 1 to 12, or 0 for none; the same for days. */
  month: number
  day: number
  yearDay: number
  hour: number
  minute: number
  second: number
  nanosecond: number
  meridiem: '' | 'am' | 'pm'
  /** Seconds east of UTC; NaN for none. */
  offsetS: number
  abbreviation: Abbreviation | undefined
}

/** Why parsing failed: the text does not match the layout, or its zone abbreviation is unknown. */
export type ReadingFault = 'syntax' | 'abbreviation'

export function openReading(): Reading {
  return {
    year: 0,
    month: 0,
    day: 0,
    yearDay: 0,
    hour: 0,
    minute: 0,
    second: 0,
    nanosecond: 0,
    meridiem: '',
    offsetS: Number.NaN,
    abbreviation: undefined,
  }
}

function clear(reading: Reading): void {
  reading.year = 0
  reading.month = 0
  reading.day = 0
  reading.yearDay = 0
  reading.hour = 0
  reading.minute = 0
  reading.second = 0
  reading.nanosecond = 0
  reading.meridiem = ''
  reading.offsetS = Number.NaN
  reading.abbreviation = undefined
}

const months = 'january february march april may june july august september october november december'.split(' ')
const weekdays = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ')
const shortMonths = months.map(name => name.slice(0, 3))
const shortWeekdays = weekdays.map(name => name.slice(0, 3))

/** Abbreviations of UTC, known in every zone. */
const universal: readonly Abbreviation[] = ['UTC', 'GMT', 'Z'].map(text => ({ text, offsetsS: [0], numeric: false }))

/** Matches text that looks like an abbreviation. */
const letters = /[A-Z]{3,5}/y
/** Zones without a letter abbreviation use their offset. */
const numericAbbreviation = /([+-])(\d\d)(\d\d)?/y

/**
 * Parses the whole text. Parts that the layout does not have are 0, '', NaN or undefined in `reading`.
 * A weekday is parsed but ignored, because it follows from the date.
 *
 * @param abbreviations of the zone
 */
export function readByLayout(
  { steps, hasOffset }: Layout,
  text: string,
  abbreviations: readonly Abbreviation[],
  reading: Reading,
): ReadingFault | undefined {
  clear(reading)
  let at = 0
  for (let index = 0; index < steps.length; index++) {
    const step = steps[index]!
    switch (step.step) {
      case Step.literal:
        at = text.startsWith(step.text, at) ? at + step.text.length : -1
        break
      case Step.space:
        at = readSpace(text, at)
        break
      case Step.longYear:
        at = readNumber(text, at, 4, 4, 9999)
        reading.year = found.number
        break
      case Step.shortYear:
        at = readNumber(text, at, 2, 2, 99)
        reading.year = found.number + (found.number >= 69 ? 1900 : 2000)
        break
      case Step.longMonth:
        at = readName(text, at, months)
        reading.month = found.number + 1
        break
      case Step.shortMonth:
        at = readName(text, at, shortMonths)
        reading.month = found.number + 1
        break
      case Step.month:
      case Step.paddedMonth:
        at = readNumber(text, at, step.step === Step.month ? 1 : 2, 2, 12)
        reading.month = found.number
        if (found.number === 0) at = -1
        break
      case Step.longWeekday:
        at = readName(text, at, weekdays)
        break
      case Step.shortWeekday:
        at = readName(text, at, shortWeekdays)
        break
      case Step.day:
      case Step.spacedDay:
      case Step.paddedDay:
        if (step.step === Step.spacedDay && text.charAt(at) === ' ') at++
        at = readNumber(text, at, step.step === Step.paddedDay ? 2 : 1, 2, 31)
        reading.day = found.number
        if (found.number === 0) at = -1
        break
      case Step.spacedYearDay:
      case Step.paddedYearDay:
        for (let spaces = 0; spaces < 2 && step.step === Step.spacedYearDay && text.charAt(at) === ' '; spaces++) at++
        at = readNumber(text, at, step.step === Step.paddedYearDay ? 3 : 1, 3, 366)
        reading.yearDay = found.number
        if (found.number === 0) at = -1
        break
      case Step.hour:
        at = readNumber(text, at, 1, 2, 23)
        reading.hour = found.number
        break
      case Step.hour12:
      case Step.paddedHour12:
        at = readNumber(text, at, step.step === Step.hour12 ? 1 : 2, 2, 12)
        reading.hour = found.number
        break
      case Step.minute:
      case Step.paddedMinute:
        at = readNumber(text, at, step.step === Step.minute ? 1 : 2, 2, 59)
        reading.minute = found.number
        break
      case Step.second:
      case Step.paddedSecond:
        at = readNumber(text, at, step.step === Step.second ? 1 : 2, 2, 59)
        reading.second = found.number
        if (at < 0) break
        at = readFraction(text, at, reading)
        break
      case Step.fraction:
        at = readFraction(text, at, reading)
        break
      case Step.upperMeridiem:
      case Step.lowerMeridiem:
        at = readMeridiem(text, at, step.step === Step.upperMeridiem, reading)
        break
      case Step.abbreviation:
        at = readAbbreviation(text, at, abbreviations, hasOffset, reading)
        if (at < 0) return 'abbreviation'
        break
      case Step.offset:
        at = readOffset(text, at, step.text.slice(1))
        reading.offsetS = found.number
        break
      case Step.offsetOrZ:
        if (text.charAt(at) === 'Z') {
          at++
          found.number = 0
        } else at = readOffset(text, at, step.text.slice(1))
        reading.offsetS = found.number
        break
    }
    if (at < 0) return 'syntax'
  }
  return at === text.length ? undefined : 'syntax'
}

/** Reads a fraction if there is one. */
function readFraction(text: string, at: number, reading: Reading): number {
  const end = readNanoseconds(text, at)
  if (end > at) reading.nanosecond = found.number
  return end
}

/** One or more spaces, or the end of the text. */
function readSpace(text: string, start: number): number {
  let at = start
  while (text.charAt(at) === ' ') at++
  return at > start || start === text.length ? at : -1
}

function readMeridiem(text: string, at: number, upper: boolean, reading: Reading): number {
  const mark = text.slice(at, at + 2)
  if (mark === (upper ? 'PM' : 'pm')) reading.meridiem = 'pm'
  else if (mark === (upper ? 'AM' : 'am')) reading.meridiem = 'am'
  else return -1
  return at + 2
}

/** @param any whether any abbreviation is accepted, because the text also has the offset */
function readAbbreviation(text: string, at: number, own: readonly Abbreviation[], any: boolean, reading: Reading): number {
  reading.abbreviation = own.find(one => text.startsWith(one.text, at)) ?? universal.find(one => text.startsWith(one.text, at))
  if (reading.abbreviation !== undefined) return at + reading.abbreviation.text.length
  numericAbbreviation.lastIndex = at
  const [numeric, sign, hours, minutes] = numericAbbreviation.exec(text) ?? []
  if (numeric === undefined) {
    letters.lastIndex = at
    return any && letters.test(text) ? letters.lastIndex : -1
  }
  const offsetS = Number(hours) * 3600 + Number(minutes ?? 0) * 60
  reading.abbreviation = { text: numeric, offsetsS: [sign === '-' ? 0 - offsetS : offsetS], numeric: true }
  return at + numeric.length
}
