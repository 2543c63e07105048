// Time fields: which key of a document holds its time, and in which format (SPEC §2, transformer rule 1).

import { excerpt } from '../excerpt.ts'
import type { Instant } from './instant.ts'
import { compileLayout, layoutNames } from './layout.ts'
import type { ReadingFault } from './layout-reading.ts'
import { readMoment } from './moment.ts'
import { isUnixTime, readDecimal, readWhole, type UnixFormat, unixUnits } from './unix-time.ts'
import { openZone } from './zone.ts'

/** One of the places in which a document may hold its time. */
export interface TimeField {
  /** A key at the top level of the document. */
  readonly fieldName: string
  /**
   * `unix`, `unix_ms`, `unix_us`, `unix_ns`; the name of a layout (`rfc3339`); or a layout, written as the reference time would be:
   * `2006-01-02 15:04:05`.
   */
  readonly fieldFormat: string
  /** A name of the IANA database, for a layout whose text has no offset: `Europe/Berlin`. UTC by default. Unix times need none. */
  readonly location?: string
}

/** Why the value of a time field has no instant. */
export type TimeFault = 'type' | ReadingFault

/** A time field that is ready to read. */
export interface TimeReader {
  readonly field: TimeField
  /**
   * Leaves the instant of a value in `instant`.
   *
   * @param value as JSON.parse gives it; a bigint for an integer beyond 2^53
   * @param text how a number was written that a double may not hold exactly
   * @param createdUs when the message was received
   * @returns why there is none; undefined where there is
   */
  read(value: unknown, text: string | undefined, createdUs: number, instant: Instant): TimeFault | undefined
}

/** What a `field_format` is, to stand after "give". */
export const formatWords =
  `one of ${[...Object.keys(unixUnits), ...layoutNames].join(', ')}, ` +
  'or the reference time Mon Jan 2 15:04:05 2006 written in your format, as in 2006-01-02 15:04:05'

/** What a `location` is, to stand after "give". */
export const locationWords = 'a name of the IANA time zone database, such as Europe/Berlin'

export function isTimeFormat(text: string): boolean {
  return Object.hasOwn(unixUnits, text) || opens(() => compileLayout(text))
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
 * Makes a time field ready to read.
 *
 * @throws RangeError for a format that is none, or a location that is unknown
 */
export function openTimeField(field: TimeField): TimeReader {
  const { fieldName, fieldFormat, location = '' } = field
  if (fieldName === '') throw new RangeError('a time field has no field_name: name the key that holds the time')
  const zone = explained(
    () => openZone(location),
    `the location ${excerpt(location)} of the time field ${excerpt(fieldName)} is unknown: give ${locationWords}`,
  )
  if (Object.hasOwn(unixUnits, fieldFormat)) {
    const unit = unixUnits[fieldFormat as UnixFormat]
    return { field, read: (value, text, _createdUs, instant) => readUnix(value, text, unit, instant) }
  }
  const layout = explained(
    () => compileLayout(fieldFormat),
    `the field_format ${excerpt(fieldFormat)} of the time field ${excerpt(fieldName)} is no time format: give ${formatWords}`,
  )
  return {
    field,
    read: (value, _text, createdUs, instant) => (typeof value === 'string' ? readMoment(layout, zone, value, createdUs, instant) : 'type'),
  }
}

function explained<T>(open: () => T, message: string): T {
  try {
    return open()
  } catch (cause) {
    throw new RangeError(message, { cause })
  }
}

function readUnix(value: unknown, text: string | undefined, unit: number, instant: Instant): TimeFault | undefined {
  if (typeof value === 'number') {
    if (text === undefined && Number.isSafeInteger(value)) readWhole(value, unit, instant)
    else readDecimal(text ?? String(value), unit, instant)
    return undefined
  }
  if (typeof value === 'bigint') readDecimal(String(value), unit, instant)
  else if (typeof value !== 'string') return 'type'
  else if (!isUnixTime(value)) return 'syntax'
  else readDecimal(value, unit, instant)
  return undefined
}

/** A time field as configuration files have it (SPEC §2, writer configuration). */
export interface TimeFieldOption {
  readonly field_name: string
  readonly field_format: string
  readonly location?: string
}

const optionKeys: readonly string[] = ['field_name', 'field_format', 'location']

/**
 * Time fields from entries of a configuration or a command line, checked to the last: what passes here opens.
 *
 * @throws RangeError that names the entry, from 0, and what to write instead
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
    throw new RangeError('it is no object: write { field_name, field_format, location }')
  }
  const unknown = Object.keys(entry).find(key => !optionKeys.includes(key))
  if (unknown !== undefined) throw new RangeError(`the key ${excerpt(unknown)} is unknown: there are ${optionKeys.join(', ')}`)
  const { field_name: fieldName, field_format: fieldFormat, location } = entry as { readonly [key in keyof TimeFieldOption]?: unknown }
  if (typeof fieldName !== 'string') throw new RangeError('field_name must be a string: the key that holds the time')
  if (typeof fieldFormat !== 'string') throw new RangeError('field_format must be a string, such as unix_ms or rfc3339')
  if (location === undefined) return { fieldName, fieldFormat }
  if (typeof location !== 'string') throw new RangeError('location must be a string, such as Europe/Berlin')
  return { fieldName, fieldFormat, location }
}
