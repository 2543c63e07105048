// Where a text stops being JSON, compared with the engine's parser on whatever can be made up.

import { array, assert, constantFrom, json, nat, oneof, property, string } from 'fast-check'
import { expect, test } from 'vitest'
import { jsonFaultOffset } from '../../../config/http/json-fault.ts'

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

test.each([
  ['{"a":1,}', 7],
  ['{"a" 1}', 5],
  ['[1,,2]', 3],
  ['[01]', 2],
  ['[1.]', 2],
  ['-', 0],
  ['"a\nb"', 2],
  ['"\\x"', 2],
  ['"\\u12g4"', 2],
  ['tru', 0],
  ['[1}', 2],
  ['{} {}', 3],
  ['"abc', 4],
  ['', 0],
  ['[', 1],
])('%j is at fault at %i', (text, offset) => {
  expect(jsonFaultOffset(text)).toBe(offset)
})

test('a text has no fault exactly when the engine parses it', () => {
  const pieces = array(
    constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"',
      '1',
      '-',
      '0',
      '.5',
      'e3',
      'true',
      'null',
      ' ',
      '\n',
      '\\n',
      '\\u00e9',
      '\u0001',
    ),
    { maxLength: 12 },
  )
  assert(
    property(
      oneof(
        json(),
        pieces.map(parts => parts.join('')),
        string(),
      ),
      text => {
        expect(jsonFaultOffset(text) === undefined).toBe(parses(text))
      },
    ),
    { numRuns: 5000 },
  )
})

test('what stands before the fault of a broken document could have gone on', () => {
  assert(
    property(json(), nat(), constantFrom('}', ']', ',', ':', 'x', '\u0000', '"'), (document, place, extra) => {
      const at = place % (document.length + 1)
      const broken = document.slice(0, at) + extra + document.slice(at)
      const offset = jsonFaultOffset(broken)
      if (offset !== undefined) expect(offset).toBeGreaterThanOrEqual(at === 0 ? 0 : Math.min(at, offset))
      expect(offset === undefined).toBe(parses(broken))
    }),
    { numRuns: 2000 },
  )
})

test('a string of a megabyte of escapes, and nesting of a million levels, are no trouble', () => {
  expect(jsonFaultOffset(`["${'\\"'.repeat(500_000)}"}`)).toBe(1_000_003)
  expect(jsonFaultOffset('['.repeat(1_000_000))).toBe(1_000_000)
})
