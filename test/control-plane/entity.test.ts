// The form in which names are compared, and the limits of metadata that a schema cannot express.

import { expect, test } from 'vitest'
import { metadataFault as faultOf, foldedName, type Metadata, parseMetadataFilter } from '../../control-plane/entity.ts'

const metadataFault = (metadata: Metadata): string | undefined => faultOf(metadata, '/body/metadata')?.detail
const nested = (levels: number): Record<string, unknown> => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`)

test('sixteen levels are accepted and seventeen are not, in objects and in lists', () => {
  expect(metadataFault(nested(16))).toBeUndefined()
  expect(metadataFault(nested(17))).toContain('16 levels')
  expect(metadataFault({ a: JSON.parse(`${'['.repeat(15)}${']'.repeat(15)}`) })).toBeUndefined()
  expect(metadataFault({ a: JSON.parse(`${'['.repeat(16)}${']'.repeat(16)}`) })).toContain('16 levels')
})

test('65,536 bytes as JSON are accepted and one more is not, counted in UTF-8', () => {
  const bytesAround = Buffer.byteLength('{"a":""}')
  expect(metadataFault({ a: 'x'.repeat(65_536 - bytesAround) })).toBeUndefined()
  expect(metadataFault({ a: 'x'.repeat(65_537 - bytesAround) })).toContain('65537 bytes')
  expect(metadataFault({ a: 'é'.repeat(32_768) })).toContain('bytes')
})

test('numbers count with their written-out length', () => {
  expect(metadataFault({ a: Array(200).fill(1e-300) })).toBeUndefined()
  expect(metadataFault({ a: Array(220).fill(1e-300) })).toContain('bytes')
})

test('a number that JSON cannot hold, NUL and half of a surrogate pair are faults, in keys too', () => {
  expect(metadataFault({ a: [Number.POSITIVE_INFINITY] })).toContain('too large to keep')
  expect(metadataFault({ a: { b: 'x\0' } })).toContain('NUL')
  expect(metadataFault({ a: { 'b\0': 1 } })).toContain('NUL')
  expect(metadataFault({ a: ['\ud800'] })).toContain('surrogate')
  expect(metadataFault({ a: ['😀', null, true, ''] })).toBeUndefined()
})

test('whole numbers are accepted up to 2^53 - 1, and the fault gives the place of a larger one', () => {
  expect(metadataFault({ a: [9_007_199_254_740_991, -9_007_199_254_740_991, 0.1, 1e-300] })).toBeUndefined()
  for (const number of [9_007_199_254_740_992, -9_007_199_254_740_992, 1e21]) {
    expect(faultOf({ a: ['', { 'b/c': number }] }, '/body/0/metadata')).toEqual({
      pointer: '/body/0/metadata/a/1/b~1c',
      detail: expect.stringContaining('give it as a string'),
    })
  }
})

test('a key of the filter that is written with an escape is that key, whatever key came before', () => {
  expect(parseMetadataFilter('{"first":1,"\\\\":2}')).toEqual({ first: 1, '\\': 2 })
  expect(parseMetadataFilter('{"first":1,"\\"":2}')).toEqual({ first: 1, '"': 2 })
})

test.each([
  ['ΟΔΟΣ', 'οδοσ'],
  ['οδος', 'οδοσ'],
  ['Straße', 'strasse'],
  ['STRAẞE', 'strasse'],
  ['ﬁlter ǅ', 'filter ǆ'],
  ['CAFE\u0301', 'caf\u00e9'],
  ['\u212bngstr\u00f6m', '\u00e5ngstr\u00f6m'],
  ['I ı İ I\u0307', 'i i i\u0307 i\u0307'],
  ['ΐ', '\u0390'],
])('%s is folded to %s', (name, folded) => expect(foldedName(name)).toBe(folded))

test('every character folds like its capital, its small letter and its parts, to a text that stays the same and is at most three times as long', () => {
  const wrong: string[] = []
  for (let code = 1; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const character = String.fromCodePoint(code)
    const spellings = new Set([character, character.toUpperCase(), character.toLowerCase(), character.normalize('NFD')])
    const folded = foldedName(character)
    // Nothing to show for the million that have no other spelling.
    if (spellings.size === 1 && folded === character) continue
    const isLong = Buffer.byteLength(folded) > 3 * Buffer.byteLength(character)
    if (isLong || [...spellings, folded].some(spelling => foldedName(spelling) !== folded)) wrong.push(code.toString(16))
  }
  expect(wrong).toEqual([])
})
