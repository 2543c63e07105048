// A time written in a layout, by Intl and by hand, is read as the same time. SEED=<seed> repeats a run.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openTimeField } from '../../../transformers/json/times/time-fields.ts'
import { createdUs } from './rows.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)

/** A time as clocks and calendars of its zone show it. */
interface Shown {
  year: string
  month: string
  monthName: string
  day: string
  hour: string
  minute: string
  second: string
  weekday: string
  /** `+02:00` */
  offset: string
  ns: string
}

const clocks = new Map<string, Intl.DateTimeFormat>()

function shown(seconds: number, ns: number, zone: string): Shown {
  let clock = clocks.get(zone)
  if (clock === undefined) {
    clock = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'long',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      weekday: 'long',
      timeZoneName: 'longOffset',
    })
    clocks.set(zone, clock)
  }
  const parts = Object.fromEntries(clock.formatToParts(seconds * 1000).map(({ type, value }) => [type, value])) as Record<string, string>
  const names = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December']
  return {
    year: parts['year']!,
    month: String(names.indexOf(parts['month']!) + 1),
    monthName: parts['month']!,
    day: parts['day']!,
    hour: parts['hour']!,
    minute: parts['minute']!,
    second: parts['second']!,
    weekday: parts['weekday']!,
    offset: parts['timeZoneName'] === 'GMT' ? '+00:00' : parts['timeZoneName']!.slice(3),
    ns: String(ns).padStart(9, '0'),
  }
}

const two = (text: string): string => text.padStart(2, '0')
const short = (name: string): string => name.slice(0, 3)
const spaced = (day: string): string => String(Number(day)).padStart(2, ' ')
const flat = (offset: string): string => offset.replace(':', '')
const hour12 = (hour: string): string => String(Number(hour) % 12 === 0 ? 12 : Number(hour) % 12)
const dayOfYear = ({ year, month, day }: Shown): number =>
  (Date.UTC(Number(year), Number(month) - 1, Number(day)) - Date.UTC(Number(year), 0, 1)) / 86_400_000 + 1
const time = ({ hour, minute, second }: Shown): string => `${hour}:${minute}:${second}`

/** How to write each layout, and to how many nanoseconds it is exact. */
const layouts: [format: string, unitNs: number, write: (civilTime: Shown) => string, range?: 'near' | 'century'][] = [
  ['ansic', 1e9, at => `${short(at.weekday)} ${short(at.monthName)} ${spaced(at.day)} ${time(at)} ${at.year}`],
  ['rubydate', 1e9, at => `${short(at.weekday)} ${short(at.monthName)} ${at.day} ${time(at)} ${flat(at.offset)} ${at.year}`],
  ['rfc822z', 60e9, at => `${at.day} ${short(at.monthName)} ${at.year.slice(2)} ${at.hour}:${at.minute} ${flat(at.offset)}`, 'century'],
  ['rfc1123z', 1e9, at => `${short(at.weekday)}, ${at.day} ${short(at.monthName)} ${at.year} ${time(at)} ${flat(at.offset)}`],
  ['rfc3339', 1e9, at => `${at.year}-${two(at.month)}-${at.day}T${time(at)}${at.offset}`],
  ['rfc3339', 1, at => `${at.year}-${two(at.month)}-${at.day}T${time(at)}.${at.ns}${at.offset}`],
  ['rfc3339nano', 1, at => `${at.year}-${two(at.month)}-${at.day}T${time(at)}.${at.ns}${at.offset}`],
  ['stamp', 1e9, at => `${short(at.monthName)} ${spaced(at.day)} ${time(at)}`, 'near'],
  ['stampmilli', 1e6, at => `${short(at.monthName)} ${spaced(at.day)} ${time(at)}.${at.ns.slice(0, 3)}`, 'near'],
  ['stampmicro', 1e3, at => `${short(at.monthName)} ${spaced(at.day)} ${time(at)}.${at.ns.slice(0, 6)}`, 'near'],
  ['stampnano', 1, at => `${short(at.monthName)} ${spaced(at.day)} ${time(at)}.${at.ns}`, 'near'],
  ['2006-01-02 15:04:05', 1e9, at => `${at.year}-${two(at.month)}-${at.day} ${time(at)}`],
  [
    '2/1/2006 15:4:5,000',
    1e6,
    at => `${Number(at.day)}/${at.month}/${at.year} ${Number(at.hour)}:${Number(at.minute)}:${Number(at.second)},${at.ns.slice(0, 3)}`,
  ],
  [
    'Monday January _2 2006 3:04:05 PM',
    1e9,
    at =>
      `${at.weekday} ${at.monthName} ${spaced(at.day)} ${at.year} ${hour12(at.hour)}:${at.minute}:${at.second} ${Number(at.hour) < 12 ? 'AM' : 'PM'}`,
  ],
  [
    '03pm04.05 2006-002',
    1e9,
    at =>
      `${two(hour12(at.hour))}${Number(at.hour) < 12 ? 'am' : 'pm'}${at.minute}.${at.second} ${at.year}-${String(dayOfYear(at)).padStart(3, '0')}`,
  ],
  ['__2 06 15:04', 60e9, at => `${String(dayOfYear(at)).padStart(3, ' ')} ${at.year.slice(2)} ${at.hour}:${at.minute}`, 'century'],
  [
    '20060102T150405.999999999Z0700',
    1,
    at => `${at.year}${two(at.month)}${at.day}T${at.hour}${at.minute}${at.second}.${at.ns}${flat(at.offset)}`,
  ],
]

const zones = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Australia/Lord_Howe',
  'Asia/Kolkata',
  'America/St_Johns',
  'Africa/Casablanca',
  'Pacific/Apia',
]

const ranges = {
  all: [Date.UTC(1900, 0, 2), Date.UTC(2250, 0, 1)],
  century: [Date.UTC(1969, 0, 2), Date.UTC(2068, 11, 30)],
  near: [createdUs / 1000 - 180 * 86_400_000, createdUs / 1000 + 180 * 86_400_000],
} as const

/** Abbreviations written by Intl: for layouts without a numeric offset. */
const abbreviated: [format: string, unitNs: number, write: (civilTime: Shown, zone: string) => string][] = [
  ['unixdate', 1e9, (at, zone) => `${short(at.weekday)} ${short(at.monthName)} ${spaced(at.day)} ${time(at)} ${zone} ${at.year}`],
  ['rfc822', 60e9, (at, zone) => `${at.day} ${short(at.monthName)} ${at.year.slice(2)} ${at.hour}:${at.minute} ${zone}`],
  ['rfc850', 1e9, (at, zone) => `${at.weekday}, ${at.day}-${short(at.monthName)}-${at.year.slice(2)} ${time(at)} ${zone}`],
  ['rfc1123', 1e9, (at, zone) => `${short(at.weekday)}, ${at.day} ${short(at.monthName)} ${at.year} ${time(at)} ${zone}`],
]

function readBack(format: string, zone: string, text: string): bigint | string {
  const timestamp = { us: Number.NaN, restNs: 0 }
  const fault = openTimeFieldOnce(format, zone).read(text, undefined, createdUs, timestamp)
  return fault ?? BigInt(timestamp.us) * 1000n + BigInt(timestamp.restNs)
}

const opened = new Map<string, ReturnType<typeof openTimeField>>()

function openTimeFieldOnce(fieldFormat: string, location: string): ReturnType<typeof openTimeField> {
  const key = `${fieldFormat} ${location}`
  const field = opened.get(key) ?? openTimeField({ fieldName: 't', fieldFormat, location })
  opened.set(key, field)
  return field
}

describe(`written times are read back (seed ${seed})`, () => {
  test.each(layouts)('in %s, down to %d ns', (format, unitNs, write, range) => {
    const [minMs, maxMs] = ranges[range ?? 'all']
    const hasOffset = /Z07|-07|3339|z$|rubydate/.test(format)
    fc.assert(
      fc.property(
        fc.integer({ min: minMs / 1000, max: maxMs / 1000 }),
        fc.nat(999_999_999),
        fc.constantFrom(...zones),
        (seconds, ns, zone) => {
          const unitS = Math.max(1, unitNs / 1e9)
          const wholeS = Math.floor(seconds / unitS) * unitS
          const wholeNs = unitNs >= 1e9 ? 0 : ns - (ns % unitNs)
          const civilTime = shown(wholeS, wholeNs, zone)
          // Before time zones, offsets had seconds, which these layouts do not write.
          fc.pre(!hasOffset || civilTime.offset.length === 6)
          const text = write(civilTime)
          // Of a time that clocks show twice the first one counts.
          const earlier = [1800, 3600, 7200].filter(apart => write(shown(wholeS - apart, wholeNs, zone)) === text)
          const expected = BigInt(wholeS - (earlier[0] ?? 0)) * 1_000_000_000n + BigInt(wholeNs)
          expect(readBack(format, zone, text), `${text} ${zone}`).toBe(expected)
        },
      ),
      { seed, numRuns: 300 },
    )
  })

  test.each(abbreviated)('in %s, down to %d ns, with the abbreviation that Intl gives', (format, unitNs, write) => {
    const language = { 'Europe/Berlin': 'en-GB', 'America/New_York': 'en-US', 'Australia/Sydney': 'en-AU', UTC: 'en-US' } as const
    const named = Object.keys(language) as (keyof typeof language)[]
    fc.assert(
      fc.property(
        fc.integer({ min: Date.UTC(1980, 0, 1) / 1000, max: Date.UTC(2068, 11, 30) / 1000 }),
        fc.constantFrom(...named),
        (seconds, zone) => {
          const wholeS = Math.floor(seconds / (unitNs / 1e9)) * (unitNs / 1e9)
          const name = new Intl.DateTimeFormat(language[zone], { timeZone: zone, timeZoneName: 'short' })
            .formatToParts(wholeS * 1000)
            .at(-1)!.value
          const text = write(shown(wholeS, 0, zone), name)
          expect(readBack(format, zone, text), `${text} ${zone}`).toBe(BigInt(wholeS) * 1_000_000_000n)
        },
      ),
      { seed, numRuns: 150 },
    )
  })
})
