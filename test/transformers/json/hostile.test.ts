// Payloads of 256 KiB that are made to be dear: each is answered at once, taken or refused.

import { expect, test } from 'vitest'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { openJsonDocuments } from '../../../transformers/json/documents.ts'
import { outcomeOf, utf8 } from './rows.ts'

const bytes = 262_144

/** As often as it fits between what comes before and after. */
function filled(part: string, before = '', after = ''): string {
  return before + part.repeat(Math.floor((bytes - before.length - after.length) / utf8(part).length)) + after
}

const transformer = openJsonDocuments({
  timeFields: [
    { fieldName: 'unix', fieldFormat: 'unix' },
    { fieldName: 'stamp', fieldFormat: 'Jan _2 15:04:05 MST', location: 'Europe/Berlin' },
    { fieldName: 'text', fieldFormat: '2006-01-02 15:04:05', location: 'Australia/Lord_Howe' },
  ],
})

/** A date for every three days of 45 years. */
const dates = Array.from({ length: 5500 }, (_, at) => new Date(280e9 + at * 258e6).toISOString().slice(0, 19).replace('T', ' '))

const payloads: [what: string, payload: string, outcome: string][] = [
  ['brackets', filled('['), 'nesting-depth'],
  ['nested keys', filled('{"a":'), 'nesting-depth'],
  ['empty arrays', filled('[],', '{"a":[', '[]]}'), 'container-count'],
  ['empty documents', filled('{},', '[', '{}]'), 'container-count'],
  ['keys', filled('"a":1,', '{', '"b":1}'), 'key-count'],
  ['short texts', filled('"ab",', '[', '1]'), 'element-object'],
  ['numbers, cut off', filled('1.5,', '{"a":['), 'json-syntax'],
  ['exponents', filled('1e100,', '{"a":[', '1]}'), '1 row'],
  ['exponents at the edge', filled('1e308,', '{"a":[', '1]}'), '1 row'],
  ['exponents of exponents', filled('1e', '{"a":', '}'), 'json-syntax'],
  ['one integer', filled('9', '{"a":', '}'), 'number-finite'],
  ['one exponent', filled('9', '{"a":1e', '}'), 'number-finite'],
  ['one fraction as a time', filled('0', '{"unix":0.', '1}'), 'time-range'],
  ['one text of digits as a time', filled('9', '{"unix":"', '"}'), 'time-range'],
  ['long integers', filled('1234567890123456789,', '{"a":[', '1]}'), '1 row'],
  ['the longest integers', filled(`${'9'.repeat(308)},`, '{"a":[', '1]}'), '1 row'],
  ['escapes', filled('\\u00e4', '{"a":"', '"}'), '1 row'],
  ['escapes in a key', filled('\\u00e4', '{"', '":1}'), '1 row'],
  ['backslashes', filled('\\\\', '{"a":"', '"}'), '1 row'],
  ['blanks', filled(' ', '{"a"', ':1}'), '1 row'],
  ['blanks behind texts with escapes', filled(`"\\n"${' '.repeat(100)},`, '{"a":[', '1]}'), '1 row'],
  ['blanks in a time', filled(' ', '{"stamp":"Jan', '1 15:04:05 CET"}'), '1 row'],
  [
    'times with long fractions',
    `[${Array.from({ length: 8500 }, (_, at) => `{"unix":1.6999999${String(at).padStart(9, '0')}e9}`).join(',')}]`,
    '8500 row',
  ],
  ['times all over the years', `[${dates.map(date => `{"text":"${date}"}`).join(',')}]`, '5500 row'],
  ['leap days without a year', `[${Array(7000).fill('{"stamp":"Feb 29 10:00:00 CET"}').join(',')}]`, '7000 row'],
  ['not UTF-8', filled('\u00ff'), 'json-syntax'],
]

test.each(payloads)('%s', (_what, payload, expected) => {
  const sent = utf8(payload).subarray(0, bytes)
  const began = performance.now()
  const outcome = outcomeOf(sent, transformer)
  const tookMs = performance.now() - began
  expect(outcome instanceof DecodeError ? outcome.rule : `${outcome.length} row`).toBe(expected)
  // A few milliseconds on a machine at rest; what grows with the square of its length takes many seconds.
  expect(tookMs).toBeLessThan(500)
})
