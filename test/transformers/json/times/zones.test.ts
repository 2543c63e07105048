// Times in a zone's clocks: around changes, long ago and far ahead, and with abbreviations of zones.

import { describe, expect, test } from 'vitest'
import { openZone } from '../../../../transformers/json/times/zone.ts'
import groups from '../../../../transformers/json/times/zone-abbreviations.json' with { type: 'json' }
import { abbreviationsOf } from '../../../../transformers/json/times/zone-abbreviations.ts'
import { civilTimeOf } from '../rows.ts'

const layout = '2006-01-02 15:04:05'

describe('a text without an offset', () => {
  test.each([
    // Clocks go from 2:00 to 3:00, and from 3:00 back to 2:00.
    ['Europe/Berlin', '2023-03-26 01:59:59', '2023-03-26T00:59:59Z'],
    ['Europe/Berlin', '2023-03-26 02:30:00', '2023-03-26T01:30:00Z'],
    ['Europe/Berlin', '2023-03-26 03:00:00', '2023-03-26T01:00:00Z'],
    ['Europe/Berlin', '2023-10-29 01:59:59', '2023-10-28T23:59:59Z'],
    ['Europe/Berlin', '2023-10-29 02:00:00', '2023-10-29T00:00:00Z'],
    ['Europe/Berlin', '2023-10-29 02:59:59', '2023-10-29T00:59:59Z'],
    ['Europe/Berlin', '2023-10-29 03:00:00', '2023-10-29T02:00:00Z'],
    ['America/New_York', '2024-03-10 01:59:59', '2024-03-10T06:59:59Z'],
    ['America/New_York', '2024-03-10 02:30:00', '2024-03-10T07:30:00Z'],
    ['America/New_York', '2024-03-10 03:00:00', '2024-03-10T07:00:00Z'],
    ['America/New_York', '2024-11-03 00:59:59', '2024-11-03T04:59:59Z'],
    ['America/New_York', '2024-11-03 01:30:00', '2024-11-03T05:30:00Z'],
    ['America/New_York', '2024-11-03 02:00:00', '2024-11-03T07:00:00Z'],
    // Half an hour: from 2:00 to 2:30, and from 2:00 back to 1:30.
    ['Australia/Lord_Howe', '2024-10-06 01:59:59', '2024-10-05T15:29:59Z'],
    ['Australia/Lord_Howe', '2024-10-06 02:15:00', '2024-10-05T15:45:00Z'],
    ['Australia/Lord_Howe', '2024-10-06 02:30:00', '2024-10-05T15:30:00Z'],
    ['Australia/Lord_Howe', '2024-04-07 01:45:00', '2024-04-06T14:45:00Z'],
    ['Australia/Lord_Howe', '2024-04-07 02:00:00', '2024-04-06T15:30:00Z'],
    ['Asia/Kolkata', '2024-02-29 00:00:00', '2024-02-28T18:30:00Z'],
    ['Asia/Kathmandu', '2024-02-29 00:00:00', '2024-02-28T18:15:00Z'],
    // A skipped day, when the date line moved.
    ['Pacific/Apia', '2011-12-29 23:59:59', '2011-12-30T09:59:59Z'],
    ['Pacific/Apia', '2011-12-30 12:00:00', '2011-12-30T22:00:00Z'],
    ['Pacific/Apia', '2011-12-31 00:00:00', '2011-12-30T10:00:00Z'],
    // Two changes within a week.
    ['America/Recife', '2000-10-10 12:00:00', '2000-10-10T14:00:00Z'],
    ['America/Recife', '2000-10-20 12:00:00', '2000-10-20T15:00:00Z'],
    // Before 1970, and before time zones.
    ['Europe/Berlin', '1965-07-01 12:00:00', '1965-07-01T11:00:00Z'],
    ['America/New_York', '1966-07-01 12:00:00', '1966-07-01T16:00:00Z'],
    ['Asia/Kolkata', '1943-01-01 12:00:00', '1943-01-01T05:30:00Z'],
    ['Europe/Berlin', '1890-01-01 12:00:00', '1890-01-01T11:06:32Z'],
    // Far ahead.
    ['Europe/Berlin', '2200-07-01 12:00:00', '2200-07-01T10:00:00Z'],
    ['America/New_York', '2254-01-01 12:00:00', '2254-01-01T17:00:00Z'],
    ['UTC', '2024-02-29 12:00:00', '2024-02-29T12:00:00Z'],
    ['', '2024-02-29 12:00:00', '2024-02-29T12:00:00Z'],
    ['europe/berlin', '2024-02-29 12:00:00', '2024-02-29T11:00:00Z'],
  ])('in %s: %s', (location, text, timestamp) => {
    expect(civilTimeOf(text, layout, location)).toBe(timestamp)
  })

  test('is UTC if no location is configured', () => {
    expect(civilTimeOf('2024-07-01 12:00:00', layout)).toBe('2024-07-01T12:00:00Z')
  })
})

test('an offset in the text counts, whatever the location', () => {
  expect(civilTimeOf('2024-07-01T12:00:00-03:30', 'rfc3339', 'Europe/Berlin')).toBe('2024-07-01T15:30:00Z')
  expect(civilTimeOf('2024-07-01T12:00:00Z', 'rfc3339', 'Europe/Berlin')).toBe('2024-07-01T12:00:00Z')
})

describe('an abbreviation', () => {
  const zoned = '2006-01-02 15:04 MST'

  test.each([
    ['Europe/Berlin', '2023-10-29 02:30 CEST', '2023-10-29T00:30:00Z'],
    ['Europe/Berlin', '2023-10-29 02:30 CET', '2023-10-29T01:30:00Z'],
    ['Europe/Berlin', '2023-07-01 12:00 CET', '2023-07-01T11:00:00Z'],
    ['America/New_York', '2024-11-03 01:30 EST', '2024-11-03T06:30:00Z'],
    ['America/New_York', '2024-11-03 01:30 EDT', '2024-11-03T05:30:00Z'],
    ['Asia/Kolkata', '2024-01-01 12:00 IST', '2024-01-01T06:30:00Z'],
    ['Europe/Dublin', '2024-07-01 12:00 IST', '2024-07-01T11:00:00Z'],
    ['Asia/Tokyo', '2024-01-01 12:00 JST', '2024-01-01T03:00:00Z'],
    // Moscow's has meant two offsets.
    ['Europe/Moscow', '2012-01-01 12:00 MSK', '2012-01-01T08:00:00Z'],
    ['Europe/Moscow', '2024-01-01 12:00 MSK', '2024-01-01T09:00:00Z'],
    ['America/Sao_Paulo', '2024-01-01 12:00 -03', '2024-01-01T15:00:00Z'],
    ['Australia/Lord_Howe', '2024-07-01 12:00 +1030', '2024-07-01T01:30:00Z'],
    ['Europe/Berlin', '2024-07-01 12:00 UTC', '2024-07-01T12:00:00Z'],
    ['Europe/Berlin', '2024-07-01 12:00 GMT', '2024-07-01T12:00:00Z'],
    ['Europe/Berlin', '2024-07-01 12:00 Z', '2024-07-01T12:00:00Z'],
    ['UTC', '2024-07-01 12:00 UTC', '2024-07-01T12:00:00Z'],
  ])('of %s or of every zone determines the offset: %s', (location, text, timestamp) => {
    expect(civilTimeOf(text, zoned, location)).toBe(timestamp)
  })

  test.each([
    ['UTC', '2024-07-01 12:00 CET'],
    ['Europe/Berlin', '2024-07-01 12:00 EST'],
    ['Europe/Berlin', '2024-07-01 12:00 MST'],
    ['Europe/Berlin', '2024-07-01 12:00 cet'],
    ['Europe/Berlin', '2024-07-01 12:00 +05'],
    ['America/Sao_Paulo', '2024-01-01 12:00 BRT'],
    ['Europe/Berlin', '2024-07-01 12:00 '],
  ])('time-zone: any other is refused, as in %s: %s', (location, text) => {
    expect(civilTimeOf(text, zoned, location)).toBe('time-zone')
  })

  test('beside an offset it is ignored', () => {
    expect(civilTimeOf('2024-07-01 12:00:00.25 +0200 EET', '2006-01-02 15:04:05.999999999 -0700 MST')).toBe('2024-07-01T10:00:00.25Z')
  })

  const zones = groups.flatMap(({ zones }) => zones.split(' '))
  const english = ['en-US', 'en-GB', 'en-AU', 'en-CA', 'en-IN', 'en-ZA', 'en-NZ']

  test('the registry contains every abbreviation that Intl knows', () => {
    const missing = Intl.supportedValuesOf('timeZone').flatMap(zone =>
      english.flatMap(language => {
        const asked = new Intl.DateTimeFormat(language, { timeZone: zone, timeZoneName: 'short' })
        const names = [Date.UTC(2024, 0, 1), Date.UTC(2024, 6, 1)].map(timestamp => asked.formatToParts(timestamp).at(-1)!.value)
        return names
          .filter(name => /^[A-Z]+$/.test(name) && !['UTC', 'GMT'].includes(name) && !abbreviationsOf(zone).some(one => one.text === name))
          .map(name => `${zone} ${name}`)
      }),
    )
    expect([...new Set(missing)]).toEqual([])
  })

  test('each means an offset that its zone has had since 1970', () => {
    const wrong = zones.flatMap(name => {
      const zone = openZone(name)
      const months = Array.from({ length: 57 * 12 }, (_, month) => Date.UTC(1970, month, 15) / 1000)
      return zone.abbreviations
        .filter(({ offsetsS }) => !offsetsS.every(offsetS => months.some(localS => zone.hasOffset(offsetS, localS))))
        .map(({ text }) => `${name} ${text}`)
    })
    expect(wrong).toEqual([])
  })
})

describe('cached offsets', () => {
  test.each([
    'Europe/Berlin',
    'America/New_York',
    'Australia/Lord_Howe',
    'Africa/Casablanca',
    'America/Recife',
    'Asia/Gaza',
    'Antarctica/Troll',
  ])('are those that Intl gives, in %s from 1870 to 2250', name => {
    const asked = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' })
    const zone = openZone(name)
    for (let timestampS = Date.UTC(1870, 0, 1) / 1000; timestampS < Date.UTC(2250, 0, 1) / 1000; timestampS += 1_000_003) {
      const [, sign, hours, minutes, seconds = '0'] = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/.exec(asked.format(timestampS * 1000))!
      const offsetS = sign === undefined ? 0 : (sign === '-' ? -1 : 1) * (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds))
      const localS = timestampS + offsetS
      // If clocks show a time twice the first one counts, which is at most an hour or two earlier.
      const found = zone.timestampOf(localS)
      if (found !== timestampS)
        expect(timestampS - found, new Date(timestampS * 1000).toISOString()).toSatisfy(apart => apart > 0 && apart <= 7200)
      expect(zone.hasOffset(offsetS, localS)).toBe(true)
    }
  })
})
