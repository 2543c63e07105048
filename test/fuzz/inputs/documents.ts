// JSON documents, mostly valid: with time fields in their formats, long integers, unusual keys, and some levels.

import type { Random } from '../random.ts'
import { anyNumber, anyText, blanks, numberText, textJson } from './texts.ts'

const keys = [
  'temperature',
  'a',
  'b',
  '0',
  '10',
  '4294967295',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  'ü',
  'a.b',
  '\\',
  '\n',
  ' ',
  'length',
]
/** Not allowed in the time-series store. */
const unjoinedKeys = ['', '/', 'a/b', 'channel', 'publisher', 'subtopic']

const zones = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu']

/** The time fields of the fuzzer's documents. */
export const timeFields = [
  { fieldName: 'unix', fieldFormat: 'unix' },
  { fieldName: 'ns', fieldFormat: 'unix_ns' },
  { fieldName: 'at', fieldFormat: 'rfc3339' },
  { fieldName: 'local', fieldFormat: '2006-01-02 15:04:05 MST', location: zones[0]! },
  { fieldName: 'stamp', fieldFormat: 'stampnano', location: zones[2]! },
  { fieldName: 'day', fieldFormat: '__2 3:04PM', location: zones[1]! },
  { fieldName: 'far', fieldFormat: 'Monday, 02-Jan-06 15:04:05 -07:00:00', location: zones[3]! },
  { fieldName: 'yearless', fieldFormat: 'Jan _2 15:04:05 MST', location: zones[0]! },
  { fieldName: 'wall', fieldFormat: '2006-01-02 15:04:05', location: zones[2]! },
] as const

const right: Readonly<Record<string, readonly string[]>> = {
  unix: ['1600000000', '1638310819.123456789', '"1600000000,5"', '1.6e9', '1700000000.0000000001'],
  ns: ['1638310819123456789', '1638310819123456789.5', '"1600000000000000000"', '1.6e18'],
  at: ['"2023-11-14T22:13:20Z"', '"2020-02-29T23:59:59.999999999+14:00"'],
  local: ['"2023-10-29 02:30:00 CEST"', '"2023-03-26 02:30:00 CET"', '"2019-01-01 00:00:00,5 UTC"'],
  stamp: ['"Feb 29 10:00:00"', '"Oct  1 02:15:00.000000001"'],
  day: ['"366 12:00AM"', '"  1 1:59PM"'],
  far: ['"Tuesday, 14-Nov-23 22:13:20 +05:45:00"'],
  yearless: ['"Feb 29 10:00:00 CET"', '"Jan  1 00:00:00 GMT"'],
  wall: ['"2023-10-01 02:15:00"', '"1985-07-01 12:00:00"'],
}
const wrong = [
  'null',
  'true',
  '[]',
  '{}',
  '""',
  '"x"',
  '-1',
  '1e300',
  '"2023-02-30T00:00:00Z"',
  '"9999-12-31T23:59:59Z"',
  '"Jan  1"',
  '0.5e-9',
]

/** One document or an array of them, of at most this size. */
export function documentsJson(random: Random, bytes: number): Uint8Array {
  if (random.oneIn(2)) return Buffer.from(documentJson(random, bytes))
  const parts: string[] = []
  let length = 8
  for (;;) {
    const part = documentJson(random, Math.min(bytes, 40 + random.mostlySmall(600)))
    length += Buffer.byteLength(part) + 1
    if (length > bytes && parts.length > 0) break
    parts.push(part)
  }
  return Buffer.from(`${blanks(random)}[${parts.join(',')}]`)
}

export function documentJson(random: Random, bytes: number): string {
  const members: string[] = []
  let left = bytes - 2
  // Keys cost memory, so a payload has a limited number.
  const count = bytes > 2000 ? 100 : random.mostlySmall(12)
  for (let at = 0; at <= count; at++) {
    const isTime = at === 0 ? random.oneIn(2) : at === count && random.oneIn(20)
    if (at === 0 && !isTime) continue
    const member = isTime
      ? timeMember(random)
      : `${blanks(random)}${keyJson(random)}${blanks(random)}:${valueJson(random, 3, left / (count - at + 1))}`
    left -= Buffer.byteLength(member) + 1
    if (left < 0) break
    members.push(member)
  }
  return `{${members.join(',')}}`
}

function timeMember(random: Random): string {
  const name = random.pick(timeFields).fieldName
  return `"${name}":${random.oneIn(20) ? random.pick(wrong) : random.pick(right[name]!)}`
}

function keyJson(random: Random): string {
  const key = random.oneIn(60) ? random.pick(unjoinedKeys) : random.oneIn(4) ? anyText(random, 8) : random.pick(keys)
  return textJson(random, key)
}

/** @param bytes size limit of an array or a text */
function valueJson(random: Random, levels: number, bytes: number): string {
  switch (random.below(levels > 0 ? 8 : 6)) {
    case 0:
      return random.pick(['null', 'true', 'false', '{}', '[]'])
    case 1:
      return textJson(random, anyText(random, bytes > 200 ? bytes / 3 : 24))
    case 2:
      return longNumber(random)
    case 3:
    case 4:
      return numberText(random, anyNumber(random))
    case 5:
      return arrayOf(random, 0, bytes)
    case 6:
      return arrayOf(random, levels - 1, bytes)
    default: {
      const members = Array.from({ length: random.below(4) }, () => `${keyJson(random)}:${valueJson(random, levels - 1, bytes / 4)}`)
      return `{${members.join(',')}}`
    }
  }
}

function arrayOf(random: Random, levels: number, bytes: number): string {
  const items: string[] = []
  let left = bytes > 200 ? bytes : random.below(40)
  while (left > 0) {
    const item = random.oneIn(levels + 2) ? valueJson(random, levels, 20) : numberText(random, random.below(1000) / 8)
    left -= Buffer.byteLength(item) + 1
    items.push(item)
  }
  return `[${items.join(',')}]`
}

/** More digits than a double keeps. */
function longNumber(random: Random): string {
  let digits = random.pick(['-', '']) + (1 + random.below(9))
  for (let left = 14 + random.mostlySmall(280); left > 0; left--) digits += random.below(10)
  if (random.oneIn(3)) digits = `${digits.slice(0, 4)}.${digits.slice(4)}`
  return digits
}
