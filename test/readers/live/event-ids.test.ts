// The ids of events: what is written is read, by whom it is for and by no one else.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { eventIdCharactersMax, openEventIds } from '../../../readers/live/event-ids.ts'

const texts = openEventIds(Buffer.alloc(32, 1))
const offset = fc.nat({ max: 2 ** 44 - 1 })
const streamOffset = fc.record({
  log: fc.stringMatching(/^[0-9a-f]{16}$/),
  offsets: fc.array(offset, { minLength: 1, maxLength: 20 }),
  partition: fc.nat(4095),
  rows: fc.nat(100_000),
})

test('a place is decoded unchanged, from characters that are valid in a header and a URL', () => {
  fc.assert(
    fc.property(streamOffset, fc.string(), (one, of) => {
      const text = texts.encode(one, of)
      expect(text).toMatch(/^[\w-]+$/)
      expect(texts.decode(text, of)).toEqual(one)
    }),
  )
})

test('a place some rows after another one of the same message needs no new encryption', () => {
  fc.assert(
    fc.property(streamOffset, fc.integer({ min: 1, max: 16_384 }), (one, rows) => {
      const text = texts.behind(texts.encode(one, 'me'), rows)
      expect(text).toMatch(/^[\w-]+\.\d+$/)
      expect(texts.decode(text, 'me')).toEqual({ ...one, rows: one.rows + rows })
      expect(texts.decode(text, 'another')).toBeUndefined()
    }),
  )
})

test.each(['.', '.0', '.01', '.-1', '.1.1', '.1e3', '. 1', '.1 ', '.1234567890'])('a text that ends with "%s" is invalid', end => {
  const one = { log: '0123456789abcdef', offsets: [5, 6], partition: 0, rows: 3 }
  expect(texts.decode(texts.encode(one, 'me') + end, 'me')).toBeUndefined()
})

test('an id is invalid for any other reader', () => {
  fc.assert(
    fc.property(streamOffset, fc.string(), fc.string(), (one, of, other) => {
      fc.pre(of !== other)
      expect(texts.decode(texts.encode(one, of), other)).toBeUndefined()
    }),
  )
})

test('the same place never gives the same text, here or in another process: equal ones would reveal that nothing is published', () => {
  const one = { log: '0123456789abcdef', offsets: [5, 6], partition: 0, rows: 0 }
  const processes = [texts, openEventIds(Buffer.alloc(32, 1))]
  const made = Array.from({ length: 1000 }, (_, nth) => processes[nth % 2]!.encode(one, 'me'))
  // No part of them tells either: the nonce, the first block, the tag.
  for (const [from, to] of [
    [0, undefined],
    [0, 8],
    [16, 24],
    [-8, undefined],
  ] as const) {
    expect(new Set(made.map(text => text.slice(from, to))).size).toBe(made.length)
  }
  for (const process of processes) expect(made.map(text => process.decode(text, 'me'))).toEqual(made.map(() => one))
})

test('a text with any character changed, cut or added is invalid, and so is one under another key', () => {
  const other = openEventIds(Buffer.alloc(32, 2))
  fc.assert(
    fc.property(streamOffset, fc.nat(), fc.constantFrom('A', 'Z', 'a', 'z', '0', '9', '-', '_'), (one, at, character) => {
      const text = texts.encode(one, 'me')
      const changed = text.slice(0, at % text.length) + character + text.slice((at % text.length) + 1)
      if (changed !== text) expect(texts.decode(changed, 'me')).toBeUndefined()
      expect(texts.decode(text.slice(0, at % text.length), 'me')).toBeUndefined()
      expect(texts.decode(text + character, 'me')).toBeUndefined()
      expect(other.decode(text, 'me')).toBeUndefined()
    }),
  )
})

test('a text reveals nothing of its offsets: neighbouring places share no prefix', () => {
  const one = { log: '0123456789abcdef', offsets: [5, 6], partition: 0, rows: 0 }
  const first = texts.encode(one, 'me')
  const next = texts.encode({ ...one, offsets: [5, 7] }, 'me')
  expect(next.slice(0, 8)).not.toBe(first.slice(0, 8))
  expect(next.slice(-8)).not.toBe(first.slice(-8))
  expect(Buffer.from(first, 'base64url').includes(Buffer.from(one.log, 'hex'))).toBe(false)
})

test('a place in a thousand partitions with the largest offsets fits into a header', () => {
  const offsets = Array.from({ length: 1000 }, () => 2 ** 44 - 1)
  const text = texts.encode({ log: '0123456789abcdef', offsets, partition: 999, rows: 16_384 }, 'me')
  expect(text.length).toBeLessThanOrEqual(eventIdCharactersMax)
  expect(texts.decode(text, 'me')?.offsets).toEqual(offsets)
})
