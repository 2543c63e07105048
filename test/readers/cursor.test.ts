// Cursors: they come back as they went, and nothing else is one.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { openCursors, type Place } from '../../readers/cursor.ts'

const cursors = openCursors(Buffer.alloc(32, 1))
const place: Place = { key: { timeNs: 1_793_491_199_000_000_001n, position: 5n, index: 3 }, total: { total: 10_000, isExact: false } }

const places: fc.Arbitrary<Place> = fc.record({
  key: fc.record({
    timeNs: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    position: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    index: fc.nat({ max: 2 ** 32 - 1 }),
  }),
  total: fc.option(fc.record({ total: fc.nat({ max: 2 ** 31 - 3 }), isExact: fc.boolean() }), { nil: undefined }),
})

test('a place comes back as it went', () => {
  fc.assert(
    fc.property(places, fc.string(), (some, query) => {
      expect(cursors.decode(cursors.encode(some, query), query)).toEqual(some)
    }),
  )
})

test('it is of one query, and of one key', () => {
  const cursor = cursors.encode(place, 'one')
  expect(cursors.decode(cursor, 'one')).toEqual(place)
  expect(cursors.decode(cursor, 'other')).toBeUndefined()
  expect(cursors.decode(cursor, '')).toBeUndefined()
  expect(openCursors(Buffer.alloc(32, 2)).decode(cursor, 'one')).toBeUndefined()
})

test('one that differs in any character is none', () => {
  const cursor = cursors.encode(place, 'one')
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  for (let at = 0; at < cursor.length; at++) {
    for (const character of [alphabet[(alphabet.indexOf(cursor[at]!) + 1) % 64]!, '=', '/', ' ']) {
      expect(cursors.decode(cursor.slice(0, at) + character + cursor.slice(at + 1), 'one'), `${at} ${character}`).toBeUndefined()
    }
  }
})

test('texts of strangers are none', () => {
  for (const text of [
    '',
    'A',
    'x'.repeat(100_000),
    `${cursors.encode(place, 'one')}A`,
    cursors.encode(place, 'one').slice(1),
    '\0',
    '{"offset":1}',
  ]) {
    expect(cursors.decode(text, 'one')).toBeUndefined()
  }
})

test('a total beyond what a cursor holds is a lower bound', () => {
  const huge = { ...place, total: { total: 2 ** 40, isExact: true } }
  expect(cursors.decode(cursors.encode(huge, ''), '')?.total).toEqual({ total: 2 ** 31 - 2, isExact: false })
})

test('nothing of the place can be read in it: two that differ by one bit look like any two', () => {
  const bytes = Buffer.from(cursors.encode(place, 'one'), 'base64url')
  const other = Buffer.from(cursors.encode({ ...place, key: { ...place.key, position: place.key.position + 1n } }, 'one'), 'base64url')
  const same = bytes.filter((byte, at) => byte === other[at]).length
  expect(same).toBeLessThan(8)
  const plain = Buffer.alloc(8)
  plain.writeBigInt64BE(place.key.timeNs)
  expect(bytes.includes(plain)).toBe(false)
})
