// The most expensive JSON documents; their time fields are those of the fuzzer.

import { containersMax } from '../../../transformers/json/limits.ts'
import { filled, listed, shortestFull, type WorstCase } from './filling.ts'

/** As many empty objects as a payload of that size may have beside a few others. */
function empties(bytes: number): string {
  return '{},'.repeat(containersMax(bytes) - 4)
}

/** A date for every three days of 45 years, each in an uncached part of a zone's history. */
function dates(at: number): string {
  return `{"wall":"${new Date(280e9 + (at % 5500) * 258e6).toISOString().slice(0, 19).replace('T', ' ')}"}`
}

/** Keys that V8 treats as indexes, far apart: each goes into a dictionary with a seeded hash. */
function indexKey(at: number): string {
  return `"${(at * 429_497 + 7) % 2 ** 32}":1`
}

export const worstDocuments: readonly WorstCase[] = [
  ['brackets', 'nesting-depth', bytes => filled(bytes, '[')],
  ['nested keys', 'nesting-depth', bytes => filled(bytes, '{"a":')],
  [
    'levels as deep as allowed, again and again',
    'taken',
    bytes => listed(Math.min(bytes, 2 * containersMax(bytes)), () => `{"a":${'['.repeat(62)}${']'.repeat(62)}}`, '[', ']').padEnd(bytes),
  ],
  ['empty arrays', 'container-count', bytes => filled(bytes, '[],', '{"a":[', '[]]}')],
  [
    'as many empty objects as allowed, and texts',
    'taken',
    bytes => listed(bytes, at => `"${at.toString(36)}"`, `{"a":[${empties(bytes)}`, ']}'),
  ],
  [
    'as many empty documents as allowed, and texts, the last is none',
    'element-object',
    bytes => listed(bytes, at => `"${at.toString(36)}"`, `[${empties(bytes)}{"€":[`, ']},1]'),
  ],
  ['nothing but empty documents, the last is none', 'element-object', bytes => filled(shortestFull(bytes, 3), '{},', '[', '1]')],
  ['empty documents', 'container-count', bytes => filled(bytes, '{},', '[', '{}]')],
  ['documents of one key, the last is none', 'element-object', bytes => listed(Math.min(bytes, 80_000), () => '{"a":1}', '[', ',1]')],
  ['as many keys as allowed', 'taken', bytes => listed(bytes, at => `"k${at.toString(36).padStart(21, '0')}":1`, '{"a":{', '}}')],
  ['keys', 'key-count', bytes => filled(bytes, '"a":1,', '{', '"b":1}')],
  ['keys that are indexes', 'taken', bytes => listed(Math.min(bytes, 130_000), indexKey, '{', '}')],
  [
    'each document with a key of its own',
    'taken',
    bytes => listed(Math.min(bytes, 200_000), at => `{"${at.toString(36).padStart(16, 'k')}":1}`, '[', ']'),
  ],
  ['short texts', 'element-object', bytes => filled(bytes, '"ab",', '[', '1]')],
  ['texts of one letter', 'taken', bytes => filled(bytes, '"a",', '{"a":[', '1]}')],
  ['texts of two letters, each another', 'taken', bytes => listed(bytes, at => `"${at.toString(36)}"`, '{"a":[', ']}')],
  ['numbers of one digit', 'taken', bytes => filled(bytes, '1,', '{"a":[', '1]}')],
  ['fractions', 'taken', bytes => filled(bytes, '.5,'.replace('.', '0.'), '{"a":[', '1]}')],
  ['numbers, cut off', 'json-syntax', bytes => filled(bytes, '1.5,', '{"a":[')],
  ['nulls', 'taken', bytes => filled(bytes, 'null,', '{"a":[', '1]}')],
  ['exponents', 'taken', bytes => filled(bytes, '1e100,', '{"a":[', '1]}')],
  ['exponents at the edge', 'taken', bytes => filled(bytes, '1e308,', '{"a":[', '1]}')],
  ['exponents of exponents', 'json-syntax', bytes => filled(bytes, '1e', '{"a":', '}')],
  ['one integer', 'number-finite', bytes => filled(bytes, '9', '{"a":', '}')],
  ['one exponent', 'number-finite', bytes => filled(bytes, '9', '{"a":1e', '}')],
  ['one exponent of zeros', 'taken', bytes => filled(bytes, '0', '{"unix":1600000000e', '}')],
  ['one small fraction', 'taken', bytes => filled(bytes, '0', '{"a":0.', '1}')],
  ['one fraction as a time', 'time-range', bytes => filled(bytes, '0', '{"unix":0.', '1}')],
  ['one text of digits as a time', 'time-range', bytes => filled(bytes, '9', '{"unix":"', '"}')],
  ['one fraction of a second', 'taken', bytes => filled(bytes, '9', '{"at":"2023-11-14T22:13:20.', 'Z"}')],
  ['integers of 16 digits', 'taken', bytes => filled(bytes, '9999999999999999,', '{"a":[', '1]}')],
  ['long integers', 'taken', bytes => filled(bytes, '1234567890123456789,', '{"a":[', '1]}')],
  ['the longest integers', 'taken', bytes => filled(bytes, `${'9'.repeat(308)},`, '{"a":[', '1]}')],
  ['fractions of 17 digits', 'taken', bytes => filled(bytes, '0.12345678901234567,', '{"a":[', '1]}')],
  ['a long integer, and numbers of one digit', 'taken', bytes => filled(bytes, '1,', '{"a":[1234567890123456789,', '1]}')],
  ['a long integer, and texts', 'taken', bytes => filled(bytes, '"a",', '{"a":[1234567890123456789,', '1]}')],
  [
    'a long integer, and as many empty objects as allowed',
    'taken',
    bytes => filled(bytes, ' ', `{"a":[1234567890123456789,${empties(bytes)}`, '{}]}'),
  ],
  ['escapes', 'taken', bytes => filled(bytes, '\\u00e4', '{"a":"', '"}')],
  ['escapes in a key', 'taken', bytes => filled(bytes, '\\u00e4', '{"', '":1}')],
  ['short keys with escapes', 'taken', bytes => listed(Math.min(bytes, 100_000), at => `"\\n${at}":1`, '{', '}')],
  ['escapes of pairs', 'taken', bytes => filled(bytes, '\\ud83d\\ude00', '{"a":"', '"}')],
  ['backslashes', 'taken', bytes => filled(bytes, '\\\\', '{"a":"', '"}')],
  ['blanks', 'taken', bytes => filled(bytes, ' ', '{"a"', ':1}')],
  ['blanks behind texts with escapes', 'taken', bytes => filled(bytes, `"\\n"${' '.repeat(100)},`, '{"a":[', '1]}')],
  ['blanks in a time', 'taken', bytes => filled(bytes, ' ', '{"yearless":"Jan', '1 15:04:05 CET"}')],
  [
    'times with long fractions',
    'taken',
    bytes => listed(bytes, at => `{"unix":1.6999999${String(at % 1e9).padStart(9, '0')}e9}`, '[', ']'),
  ],
  [
    'times under a key with an escape',
    'taken',
    bytes => listed(bytes, at => `{"\\u0075nix":1600000000.${String(at % 1e9).padStart(9, '0')}}`, '[', ']'),
  ],
  [
    'one long fraction, and as many keys',
    'taken',
    bytes => listed(Math.min(bytes, 120_000), at => `"unix${at}":1`, '{"unix":1600000000.123456789,', '}'),
  ],
  ['times of all the years', 'taken', bytes => listed(bytes, dates, '[', ']')],
  ['leap days without a year', 'taken', bytes => listed(bytes, () => '{"yearless":"Feb 29 10:00:00 CET"}', '[', ']')],
  ['offsets for abbreviations', 'taken', bytes => listed(bytes, () => '{"yearless":"Feb 28 10:00:00 +01"}', '[', ']')],
  [
    'times, the last of them wrong',
    'time-syntax',
    bytes => listed(bytes, () => '{"far":"Tuesday, 14-Nov-23 22:13:20 +05:45:00"}', '[', ',{"at":"x"}]'),
  ],
  ['halves of letters', 'json-syntax', bytes => filled(bytes, 'ÿ', '{"a":')],
  ['not UTF-8 at the end', 'utf-8', bytes => Buffer.from(filled(bytes, 'x', '{"a":"', '\xff"}'), 'latin1')],
  ['letters of two bytes', 'taken', bytes => filled(bytes, '€', '{"a":"', '"}')],
]
