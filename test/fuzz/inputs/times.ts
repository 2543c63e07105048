// Documents whose time fields are almost valid: texts of each format with changed characters, and numbers at every limit.

import type { Random } from '../random.ts'
import { timeFields } from './documents.ts'

const nearly: Readonly<Record<string, readonly string[]>> = {
  unix: [
    '1600000000',
    '"-1"',
    '9007199254740993',
    '"253402300800"',
    '1e15',
    '268435456',
    '268435455.999999999',
    '"1700000000.9999999999999"',
    '1.7e9',
    '-0',
    '0.000000001e18',
    '1.2345678901234567e-18014398509481984',
    '0.0000000000000000e9007199254740992',
    '0.00000000000000000e36028797018963968',
  ],
  ns: ['1700000000000000000', '"1700000000000000000.5"', '9223372036854775807', '-1', '1.7e18', '17000000000000000000e-1'],
  at: [
    '"2023-11-14T22:13:20Z"',
    '"0000-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59.999999999-24:60"',
    '"2024-02-29T00:00:00+00:00"',
    '"2023-11-14T22:13:20,123456789012345678901Z"',
  ],
  local: [
    '"2023-10-29 02:30:00 CET"',
    '"2023-10-29 02:30:00 PST"',
    '"1893-04-01 00:00:00 LMT"',
    '"2023-03-26 02:59:59 +02"',
    '"2023-03-26 02:59:59 +0230"',
  ],
  stamp: ['"Feb 29 10:00:00.5"', '"Dec 31 23:59:59.999999999"', '"Oct  1 02:00:00"', '"Apr  2 01:45:00"'],
  day: ['"366 12:59PM"', '"  1 1:00AM"', '" 60 0:00AM"', '"0 1:00PM"'],
  yearless: ['"Feb 29 10:00:00 CET"', '"Dec 31 23:59:59 CEST"', '"Oct 29 02:30:00 +0100"'],
  wall: ['"2023-04-02 01:45:00"', '"1978-07-04 21:24:15"', '"2024-11-13 00:00:00.5"'],
  far: ['"Wednesday, 29-Feb-68 00:00:00 +24:00:00"', '"Sunday, 01-Jan-69 00:00:00 -00:00:01"'],
}
const characters = ['0', '9', '1', ' ', '-', '+', ':', '.', ',', 'T', 'Z', 'a', 'M', '\\u0000', 'ü', '']

/** An array of documents of at most this size, or of one. */
export function timesJson(random: Random, bytes: number): Uint8Array {
  const parts: string[] = []
  let length = 2
  // A payload is refused at its first invalid time, so most must be valid for the others to be reached.
  const changedOneIn = random.oneIn(2) ? 1e9 : 2 + random.mostlySmall(200)
  for (;;) {
    const name = random.pick(timeFields).fieldName
    let text = random.pick(nearly[name]!)
    if (random.oneIn(changedOneIn)) text = changed(random, text)
    const part = `{"${name}":${text}}`
    length += Buffer.byteLength(part) + 1
    if (length > bytes && parts.length > 0) break
    parts.push(part)
  }
  return Buffer.from(`[${parts.join(',')}]`)
}

function changed(random: Random, text: string): string {
  let result = text
  for (let left = 1 + random.below(2); left > 0; left--) {
    const at = 1 + random.below(Math.max(result.length - 2, 1))
    result = result.slice(0, at) + random.pick(characters).repeat(random.oneIn(10) ? 50 : 1) + result.slice(at + random.below(3))
  }
  return result
}
