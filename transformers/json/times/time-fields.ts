// Time fields: the keys that may contain the time of a document, with their format (SPEC §2, transformer rule 1).

import { excerpt } from '../../excerpt.ts'
import { readCivilTime } from './civil-time.ts'
import { compileLayout, layoutNames } from './layout.ts'
import type { ReadingFault } from './layout-reading.ts'
import { readRfc3339 } from './rfc3339.ts'
import type { Timestamp } from './timestamp.ts'
import { isUnixTime, readDecimal, readWhole, type UnixFormat, unixUnits } from './unix-time.ts'
import { openZone } from './zone.ts'

/** A key that may contain the time of a document. */
export interface TimeField {
  /** A key at the top level of the document. */
  readonly fieldName: string
  /**
   * `unix`, `unix_ms`, `unix_us`, `unix_ns`; `rfc3339`; the name of a layout (`rfc1123`); or a layout, written as the reference time would be:
   * `2006-01-02 15:04:05`.
   */
  readonly fieldFormat: string
  /** Name in the IANA database, for a layout without an offset: `Europe/Berlin`. UTC by default. Unix times do not need it. */
  readonly location?: string
}

/** Why the value of a time field cannot be parsed. */
export type TimeFault = 'type' | ReadingFault

/** Parser of a time field. */
export interface TimeReader {
  readonly field: TimeField
  /**
   * Writes the instant of a value to `timestamp`.
   *
   * @param value as returned by JSON.parse; a bigint for an integer beyond 2^53
   * @param text the text of a number that a double may not represent exactly
   * @param createdUs time of receipt
   * @returns the fault; undefined on success
   */
  read(value: unknown, text: string | undefined, createdUs: number, timestamp: Timestamp): TimeFault | undefined
}

/** Two names of one format, in any case: in Go's package time only the second one prints fractions, and both read them. */
const rfc3339Names = ['rfc3339', 'rfc3339nano']

/** The allowed values of `field_format`, worded to follow "give". */
export const formatWords =
  `one of ${[...Object.keys(unixUnits), ...rfc3339Names, ...layoutNames].join(', ')}, ` +
  'or the reference time Mon Jan 2 15:04:05 2006 written in your format, as in 2006-01-02 15:04:05'

/** The allowed values of `location`, worded to follow "give". */
export const locationWords = 'a name of the IANA time zone database, such as Europe/Berlin'

export function isTimeFormat(text: string): boolean {
  return Object.hasOwn(unixUnits, text) || rfc3339Names.includes(text.toLowerCase()) || opens(() => compileLayout(text))
}

export function isLocation(text: string): boolean {
  return opens(() => openZone(text))
}

function opens(open: () => unknown): boolean {
  try {
    open()
    return true
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

/**
 * Opens the parser of a time field.
 *
 * @throws RangeError for an invalid format or an unknown location
 */
export function openTimeField(field: TimeField): TimeReader {
  const { fieldName, fieldFormat, location = '' } = field
  if (fieldName === '') throw new RangeError('a time field has no field_name: set it to the key of the time')
  const zone = explained(
    () => openZone(location),
    `the location ${excerpt(location)} of the time field ${excerpt(fieldName)} is unknown: give ${locationWords}`,
  )
  if (Object.hasOwn(unixUnits, fieldFormat)) {
    const unit = unixUnits[fieldFormat as UnixFormat]
    return { field, read: (value, text, _createdUs, timestamp) => readUnix(value, text, unit, timestamp) }
  }
  if (rfc3339Names.includes(fieldFormat.toLowerCase())) {
    return {
      field,
      read(value, _text, _createdUs, timestamp) {
        if (typeof value !== 'string') return 'type'
        return readRfc3339(value, timestamp) ? undefined : 'syntax'
      },
    }
  }
  const layout = explained(
    () => compileLayout(fieldFormat),
    `the field_format ${excerpt(fieldFormat)} of the time field ${excerpt(fieldName)} is not a time format: give ${formatWords}`,
  )
  return {
    field,
    read: (value, _text, createdUs, timestamp) =>
      typeof value === 'string' ? readCivilTime(layout, zone, value, createdUs, timestamp) : 'type',
  }
}

function explained<T>(open: () => T, message: string): T {
  try {
    return open()
  } catch (cause) {
    throw new RangeError(message, { cause })
  }
}

function readUnix(value: unknown, text: string | undefined, unit: number, timestamp: Timestamp): TimeFault | undefined {
  if (typeof value === 'number') {
    if (text === undefined && Number.isSafeInteger(value)) readWhole(value, unit, timestamp)
    else readDecimal(text ?? String(value), unit, timestamp)
    return undefined
  }
  if (typeof value === 'bigint') readDecimal(String(value), unit, timestamp)
  else if (typeof value !== 'string') return 'type'
  else if (!isUnixTime(value)) return 'syntax'
  else readDecimal(value, unit, timestamp)
  return undefined
}

/** A time field as in configuration files (SPEC §2, writer configuration). */
export interface TimeFieldOption {
  readonly field_name: string
  readonly field_format: string
  readonly location?: string
}

const optionKeys: readonly string[] = ['field_name', 'field_format', 'location']

/**
 * Converts entries of a configuration file or command line into time fields. All checks are done here, so `openTimeField` does not fail afterwards.
 *
 * @throws RangeError with the entry's index, from 0, and what to write instead
 */
export function timeFieldsOf(entries: readonly unknown[]): TimeField[] {
  return entries.map((entry, at) => {
    try {
      const field = timeFieldOf(entry)
      openTimeField(field)
      return field
    } catch (cause) {
      throw new RangeError(`time field ${at}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    }
  })
}

function timeFieldOf(entry: unknown): TimeField {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
    throw new RangeError('it is not an object: write { field_name, field_format, location }')
  }
  const unknown = Object.keys(entry).find(key => !optionKeys.includes(key))
  if (unknown !== undefined) throw new RangeError(`the key ${excerpt(unknown)} is unknown: the keys are ${optionKeys.join(', ')}`)
  const { field_name: fieldName, field_format: fieldFormat, location } = entry as { readonly [key in keyof TimeFieldOption]?: unknown }
  if (typeof fieldName !== 'string') throw new RangeError('field_name must be a string: the key of the time')
  if (typeof fieldFormat !== 'string') throw new RangeError('field_format must be a string, such as unix_ms or rfc3339')
  if (location === undefined) return { fieldName, fieldFormat }
  if (typeof location !== 'string') throw new RangeError('location must be a string, such as Europe/Berlin')
  return { fieldName, fieldFormat, location }
}
