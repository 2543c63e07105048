// The ids of events: what is written is read, by whom it is for and by nobody else.

import { createDecipheriv, createHmac, hkdfSync } from 'node:crypto'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { openPlaceTexts, placeCharactersMax } from '../../../readers/live/place-text.ts'

const texts = openPlaceTexts(Buffer.alloc(32, 1))
const offset = fc.nat({ max: 2 ** 44 - 1 })
const place = fc.record({
  log: fc.stringMatching(/^[0-9a-f]{16}$/),
  offsets: fc.array(offset, { minLength: 1, maxLength: 20 }),
  partition: fc.nat(4095),
  rows: fc.nat(100_000),
})

test('a place comes back as it was, in characters that a header and a URL take', () => {
  fc.assert(
    fc.property(place, fc.string(), (one, of) => {
      const text = texts.encode(one, of)
      expect(text).toMatch(/^[\w-]+$/)
      expect(texts.decode(text, of)).toEqual(one)
    }),
  )
})

test('a place some rows behind another one of the same message needs no seal of its own', () => {
  fc.assert(
    fc.property(place, fc.integer({ min: 1, max: 16_384 }), (one, rows) => {
      const text = texts.behind(texts.encode(one, 'me'), rows)
      expect(text).toMatch(/^[\w-]+\.\d+$/)
      expect(texts.decode(text, 'me')).toEqual({ ...one, rows: one.rows + rows })
      expect(texts.decode(text, 'another')).toBeUndefined()
    }),
  )
})

test.each(['.', '.0', '.01', '.-1', '.1.1', '.1e3', '. 1', '.1 ', '.1234567890'])('a text that ends with "%s" is none', end => {
  const one = { log: '0123456789abcdef', offsets: [5, 6], partition: 0, rows: 3 }
  expect(texts.decode(texts.encode(one, 'me') + end, 'me')).toBeUndefined()
})

test('no other reader can use a text', () => {
  fc.assert(
    fc.property(place, fc.string(), fc.string(), (one, of, other) => {
      fc.pre(of !== other)
      expect(texts.decode(texts.encode(one, of), other)).toBeUndefined()
    }),
  )
})

test('the same place is never the same text, here or at another process: equal ones would tell that nobody publishes', () => {
  const one = { log: '0123456789abcdef', offsets: [5, 6], partition: 0, rows: 0 }
  const processes = [texts, openPlaceTexts(Buffer.alloc(32, 1))]
  const made = Array.from({ length: 1000 }, (_, nth) => processes[nth % 2]!.encode(one, 'me'))
  // No part of them tells either: the tag is over all bytes, and each block is ciphered under its own counter.
  for (const [from, to] of [
    [0, undefined],
    [0, 8],
    [-8, undefined],
  ] as const) {
    expect(new Set(made.map(text => text.slice(from, to))).size).toBe(made.length)
  }
  for (const process of processes) expect(made.map(text => process.decode(text, 'me'))).toEqual(made.map(() => one))
})

test('a text is HMAC-SHA256 and AES-256-CTR as the library has them', () => {
  const one = { log: '0123456789abcdef', offsets: Array.from({ length: 12 }, (_, at) => at * 1e9), partition: 3, rows: 300 }
  const text = Buffer.from(texts.encode(one, 'me'), 'base64url')
  const tag = text.subarray(0, 16)
  const key = (purpose: string) => Buffer.from(hkdfSync('sha256', Buffer.alloc(32, 1), new Uint8Array(0), `live ${purpose}`, 32))
  const plain = createDecipheriv('aes-256-ctr', key('cipher'), tag).update(text.subarray(16))
  expect(plain[0]).toBe(2)
  expect(plain.subarray(15, 23).toString('hex')).toBe(one.log)
  expect(createHmac('sha256', key('mac')).update('2 me').update(plain).digest().subarray(0, 16)).toEqual(tag)
})

test('a text with any character changed, cut or added is none, and neither is one under another key', () => {
  const other = openPlaceTexts(Buffer.alloc(32, 2))
  fc.assert(
    fc.property(place, fc.nat(), fc.constantFrom('A', 'Z', 'a', 'z', '0', '9', '-', '_'), (one, at, character) => {
      const text = texts.encode(one, 'me')
      const changed = text.slice(0, at % text.length) + character + text.slice((at % text.length) + 1)
      if (changed !== text) expect(texts.decode(changed, 'me')).toBeUndefined()
      expect(texts.decode(text.slice(0, at % text.length), 'me')).toBeUndefined()
      expect(texts.decode(text + character, 'me')).toBeUndefined()
      expect(other.decode(text, 'me')).toBeUndefined()
    }),
  )
})

test('nothing of its offsets can be read off a text: neighbouring places share no beginning', () => {
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
  expect(text.length).toBeLessThanOrEqual(placeCharactersMax)
  expect(texts.decode(text, 'me')?.offsets).toEqual(offsets)
})
