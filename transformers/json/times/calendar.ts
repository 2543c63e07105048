// The Gregorian calendar as arithmetic: dates as days since 1970-01-01, before it negative.

const daysPerEra = 146_097
/** From 0000-03-01, the start of a 400-year era, to 1970-01-01. */
const daysBefore1970 = 719_468

/** Days before each month in a year that is not a leap year. */
const daysBeforeMonth = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365] as const

function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

/** @param month 1 to 12 */
export function daysInMonth(year: number, month: number): number {
  return month === 2 && isLeapYear(year) ? 29 : daysBeforeMonth[month]! - daysBeforeMonth[month - 1]!
}

export function daysInYear(year: number): number {
  return isLeapYear(year) ? 366 : 365
}

/**
 * Days from 1970-01-01 to a date. Years are counted from March, so that the leap day is the last of its year.
 *
 * @param month 1 to 12
 * @param day from 1; beyond the end of the month it runs on into the next
 */
export function daysOf(year: number, month: number, day: number): number {
  const marchYear = month > 2 ? year : year - 1
  const era = Math.floor(marchYear / 400)
  const yearOfEra = marchYear - era * 400
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear
  return era * daysPerEra + dayOfEra - daysBefore1970
}

/** The year of a day. */
export function yearOf(days: number): number {
  const year = 1970 + Math.floor(days / 365.2425)
  if (daysOf(year, 1, 1) > days) return year - 1
  return daysOf(year + 1, 1, 1) <= days ? year + 1 : year
}
