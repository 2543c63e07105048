// Times as text: named layouts, layouts in the notation of the reference time, and texts without a year.

import { describe, expect, test } from 'vitest'
import { openTimeField } from '../../../../transformers/json/times/time-fields.ts'
import fixture from '../fixtures/go-layouts.json' with { type: 'json' }
import { civilTimeOf, envelope, timeOf } from '../rows.ts'

describe('named layouts', () => {
  test.each([
    ['ansic', 'Mon Jan  2 15:04:05 2006', '2006-01-02T15:04:05Z'],
    ['unixdate', 'Mon Jan  2 15:04:05 GMT 2006', '2006-01-02T15:04:05Z'],
    ['rubydate', 'Mon Jan 02 15:04:05 -0700 2006', '2006-01-02T22:04:05Z'],
    ['rfc822', '02 Jan 06 15:04 UTC', '2006-01-02T15:04:00Z'],
    ['rfc822z', '02 Jan 06 15:04 -0700', '2006-01-02T22:04:00Z'],
    ['rfc850', 'Monday, 02-Jan-06 15:04:05 GMT', '2006-01-02T15:04:05Z'],
    ['rfc1123', 'Mon, 02 Jan 2006 15:04:05 GMT', '2006-01-02T15:04:05Z'],
    ['rfc1123z', 'Mon, 02 Jan 2006 15:04:05 +0130', '2006-01-02T13:34:05Z'],
    ['rfc3339', '2006-01-02T15:04:05-07:00', '2006-01-02T22:04:05Z'],
    ['rfc3339nano', '2006-01-02T15:04:05.123456789Z', '2006-01-02T15:04:05.123456789Z'],
    ['stamp', 'Nov 14 22:13:20', '2023-11-14T22:13:20Z'],
    ['stampmilli', 'Nov  4 22:13:20.123', '2023-11-04T22:13:20.123Z'],
    ['stampmicro', 'Nov 14 22:13:20.123456', '2023-11-14T22:13:20.123456Z'],
    ['stampnano', 'Nov 14 22:13:20.123456789', '2023-11-14T22:13:20.123456789Z'],
  ])('%s reads %s, with its name in any case', (name, text, timestamp) => {
    for (const format of [name, name.toUpperCase(), `${name.charAt(0).toUpperCase()}${name.slice(1)}`]) {
      expect(civilTimeOf(text, format)).toBe(timestamp)
    }
  })
})

describe('reference layouts', () => {
  test.each([
    ['2006-01-02 15:04:05', '2023-11-14 22:13:20', '2023-11-14T22:13:20Z'],
    ['02.01.2006 15:04', '14.11.2023 22:13', '2023-11-14T22:13:00Z'],
    ['2/1/2006 3:4:5 PM', '4/11/2023 10:3:2 PM', '2023-11-04T22:03:02Z'],
    ['Jan 2, 2006 at 3:04pm (-07)', 'Nov 14, 2023 at 12:13am (+01)', '2023-11-13T23:13:00Z'],
    ['January _2 2006', 'november  4 2023', '2023-11-04T00:00:00Z'],
    ['Mon 2 Jan 06 03:04:05 PM', 'tue 14 NOV 23 12:00:00 PM', '2023-11-14T12:00:00Z'],
    ['2006.002 15', '2024.366 22', '2024-12-31T22:00:00Z'],
    ['2006 __2', '2023  45', '2023-02-14T00:00:00Z'],
    ['2006-01', '2023-11', '2023-11-01T00:00:00Z'],
    ['2006', '2023', '2023-01-01T00:00:00Z'],
    ['06', '68', '2068-01-01T00:00:00Z'],
    ['06', '69', '1969-01-01T00:00:00Z'],
    ['20060102T150405Z0700', '20231114T221320+0530', '2023-11-14T16:43:20Z'],
    ['20060102T150405Z07', '20231114T221320Z', '2023-11-14T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00:00', '2023-11-14T22:13:20-00:44:30', '2023-11-14T22:57:50Z'],
    ['2006-01-02T15:04:05-070000', '2023-11-14T22:13:20+014430', '2023-11-14T20:28:50Z'],
    ['2006_01_02', '2023_11_14', '2023-11-14T00:00:00Z'],
    ['at_2006', 'at_2023', '2023-01-01T00:00:00Z'],
    ['_2 Jan 2006', '14 Nov 2023', '2023-11-14T00:00:00Z'],
    ['Zeit: 2006-01-02 €', 'Zeit: 2023-11-14 €', '2023-11-14T00:00:00Z'],
    ['2006  01 02', '2023 11    14', '2023-11-14T00:00:00Z'],
  ])('%s reads %s', (layout, text, timestamp) => {
    expect(civilTimeOf(text, layout)).toBe(timestamp)
  })

  test.each([
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20.5Z', '.5'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20,123456789999Z', '.123456789'],
    ['2006-01-02 15:04:05', '2023-11-14 22:13:20.000000001', '.000000001'],
    ['2006-01-02 15:04:05.000', '2023-11-14 22:13:20.123456', '.123456'],
    ['2006-01-02 15:04:05,000', '2023-11-14 22:13:20', ''],
    ['2006-01-02 15:04:05.999', '2023-11-14 22:13:20,1', '.1'],
    ['rfc1123', 'Tue, 14 Nov 2023 22:13:20.25 GMT', '.25'],
    ['05:04:15 2006-01-02', '20.25:13:22 2023-11-14', '.25'],
  ])('%s reads a fraction after any seconds: %s', (layout, text, fraction) => {
    expect(civilTimeOf(text, layout)).toBe(`2023-11-14T22:13:20${fraction}Z`)
  })

  test.each([
    ['2006-01-02T15:04:05Z07:00', ''],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14 22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20z'],
    ['2006-01-02T15:04:05Z07:00', ' 2023-11-14T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20Z '],
    ['2006-01-02T15:04:05Z07:00', '2023-13-14T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-00-14T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-00T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-31T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-02-29T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '1900-02-29T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T24:00:00Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:60:20Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:60Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20.Z'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20+0100'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20+24:00'],
    ['2006-01-02T15:04:05Z07:00', '2023-11-14T22:13:20+01:60'],
    ['2006-01-02T15:04:05-07:00:00', '2023-11-14T22:13:20+01:00:60'],
    ['2006-01-02T15:04:05Z07:00', '２０23-11-14T22:13:20Z'],
    ['2006-01-02T15:04:05Z07:00', '-023-11-14T22:13:20Z'],
    ['ansic', 'Foo Jan  2 15:04:05 2006'],
    ['ansic', 'Mon Foo  2 15:04:05 2006'],
    ['stamp', 'Feb 30 10:00:00'],
    ['2006-01-02 3:04PM', '2023-11-14 13:04PM'],
    ['2006-01-02 3:04PM', '2023-11-14 3:04pm'],
    ['2006-01-02 3:04pm', '2023-11-14 3:04'],
    ['2006-01-02 15:04 MST', '2023-11-14 22:13 GMT+2'],
    ['2006.002', '2023.366'],
    ['2006.002', '2023.000'],
    ['2006.002', '2023.45'],
    ['2006-01-02 002', '2023-11-14 001'],
    ['January 2006', 'Nov 2023'],
    ['06', '2023'],
  ])('time-syntax: %s does not read %j', (layout, text) => {
    expect(civilTimeOf(text, layout)).toBe('time-syntax')
  })

  test.each(['1600000000', '1600000000.5', 'null', 'true', '{}', '[]', '12345678901234567890'])(
    'time-type: a layout does not read %s',
    value => {
      expect(timeOf(value, 'rfc3339')).toBe('time-type')
    },
  )

  test.each([
    '',
    'UNIX',
    'unix_s',
    'iso8601',
    'ISO-8601',
    'rfc2822',
    'YYYY-MM-DD HH:mm:ss',
    '%Y-%m-%d',
    'dd/MM/yyyy',
    'January',
    '02',
    'Month',
    'MST',
  ])('an invalid layout does not open: %j', fieldFormat => {
    expect(() => openTimeField({ fieldName: 't', fieldFormat })).toThrow(RangeError)
  })
})

describe('a layout without a year', () => {
  const at = (created: string) => ({ ...envelope, createdUs: Date.parse(created) * 1000 })

  test.each([
    ['2023-11-14T22:13:20Z', 'Nov 14 22:13:21', '2023-11-14T22:13:21Z'],
    ['2024-01-01T00:00:05Z', 'Dec 31 23:59:59', '2023-12-31T23:59:59Z'],
    ['2023-12-31T23:59:59Z', 'Jan  1 00:00:05', '2024-01-01T00:00:05Z'],
    ['2024-06-30T00:00:00Z', 'Jan  1 00:00:00', '2024-01-01T00:00:00Z'],
    ['2023-07-03T00:00:00Z', 'Jan  1 00:00:00', '2024-01-01T00:00:00Z'],
    // Leap days: other years have none, so a more distant year is used.
    ['2024-03-01T00:00:00Z', 'Feb 29 12:00:00', '2024-02-29T12:00:00Z'],
    ['2023-03-01T00:00:00Z', 'Feb 29 12:00:00', '2024-02-29T12:00:00Z'],
    ['2022-02-28T00:00:00Z', 'Feb 29 12:00:00', '2020-02-29T12:00:00Z'],
    ['2025-06-01T00:00:00Z', 'Feb 29 12:00:00', '2024-02-29T12:00:00Z'],
    ['2100-06-01T00:00:00Z', 'Feb 29 12:00:00', '2104-02-29T12:00:00Z'],
    ['1969-12-31T23:59:59Z', 'Jan  1 00:00:00', '1970-01-01T00:00:00Z'],
  ])('received at %s: %s is in the nearest possible year', (created, text, timestamp) => {
    expect(civilTimeOf(text, 'stamp', undefined, at(created))).toBe(timestamp)
  })

  test('the clocks of its location count', () => {
    expect(civilTimeOf('Jan  1 00:30:00', 'stamp', 'Europe/Berlin', at('2023-12-31T23:29:00Z'))).toBe('2023-12-31T23:30:00Z')
    expect(civilTimeOf('001 00:30', '002 15:04', 'Europe/Berlin', at('2023-12-31T23:29:00Z'))).toBe('2023-12-31T23:30:00Z')
  })

  test.each([
    ['2023-11-14T23:59:00Z', '00:01', '2023-11-15T00:01:00Z'],
    ['2023-11-15T00:01:00Z', '23:59', '2023-11-14T23:59:00Z'],
    ['2023-11-15T12:00:00Z', '23:59', '2023-11-15T23:59:00Z'],
  ])('and without a date is on the nearest day: received at %s: %s', (created, text, timestamp) => {
    expect(civilTimeOf(text, '15:04', undefined, at(created))).toBe(timestamp)
  })

  test('the nearest day is one in its location', () => {
    expect(civilTimeOf('9:00AM', '3:04PM', 'Pacific/Kiritimati', at('2023-11-14T19:30:00Z'))).toBe('2023-11-14T19:00:00Z')
    expect(civilTimeOf('00:30 +1400', '15:04 -0700', undefined, at('2023-11-14T23:00:00Z'))).toBe('2023-11-15T10:30:00Z')
  })
})

// Written by a program in Go: layouts, texts mostly from time.Format, and the results of time.ParseInLocation.
test("texts are read like in the notation's original implementation", () => {
  expect(fixture.length).toBeGreaterThan(300)
  for (const [layout, text, location, ns] of fixture as [string, string, string, string | null][]) {
    const read = timeOf(JSON.stringify(text), layout, location)
    expect([layout, text, location, typeof read === 'bigint' ? String(read) : null]).toEqual([layout, text, location, ns])
  }
})
