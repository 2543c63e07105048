// Cursors: they come back as they went, and nothing else is one.

import { createDecipheriv, hkdfSync } from 'node:crypto'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { nonceBytes } from '../../config/secrets.ts'
import { type Keyset, openCursorCodec, openCursors } from '../../readers/cursor.ts'

const cursors = openCursors(Buffer.alloc(32, 1))
/** After the nonce and the tag. */
const textAt = nonceBytes + 16
const keyset: Keyset = { key: { timeNs: 1_793_491_199_000_000_001n, position: 5n, index: 3 }, total: { total: 10_000, isExact: false } }

const keysets: fc.Arbitrary<Keyset> = fc.record({
  key: fc.record({
    timeNs: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    position: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    index: fc.nat({ max: 2 ** 32 - 1 }),
  }),
  total: fc.option(fc.record({ total: fc.nat({ max: 2 ** 31 - 3 }), isExact: fc.boolean() }), { nil: undefined }),
})

test('a keyset is decoded unchanged', () => {
  fc.assert(
    fc.property(keysets, fc.string(), (some, query) => {
      expect(cursors.decode(cursors.encode(some, query), query)).toEqual(some)
    }),
  )
})

test('it is valid for one query and one key', () => {
  const cursor = cursors.encode(keyset, 'one')
  expect(cursors.decode(cursor, 'one')).toEqual(keyset)
  expect(cursors.decode(cursor, 'other')).toBeUndefined()
  expect(cursors.decode(cursor, '')).toBeUndefined()
  expect(openCursors(Buffer.alloc(32, 2)).decode(cursor, 'one')).toBeUndefined()
})

test('one with any changed character is invalid', () => {
  const cursor = cursors.encode(keyset, 'one')
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  for (let at = 0; at < cursor.length; at++) {
    for (const character of [alphabet[(alphabet.indexOf(cursor[at]!) + 1) % 64]!, '=', '/', ' ']) {
      expect(cursors.decode(cursor.slice(0, at) + character + cursor.slice(at + 1), 'one'), `${at} ${character}`).toBeUndefined()
    }
  }
})

test('arbitrary texts are invalid', () => {
  for (const text of [
    '',
    'A',
    'x'.repeat(100_000),
    `${cursors.encode(keyset, 'one')}A`,
    cursors.encode(keyset, 'one').slice(1),
    '\0',
    '{"offset":1}',
  ]) {
    expect(cursors.decode(text, 'one')).toBeUndefined()
  }
})

test('a total that a cursor cannot represent is a lower bound', () => {
  const huge = { ...keyset, total: { total: 2 ** 40, isExact: true } }
  expect(cursors.decode(cursors.encode(huge, ''), '')?.total).toEqual({ total: 2 ** 31 - 2, isExact: false })
})

test('it reveals nothing of the keyset: two that differ by one bit share nothing', () => {
  const bytes = Buffer.from(cursors.encode(keyset, 'one'), 'base64url')
  const other = Buffer.from(cursors.encode({ ...keyset, key: { ...keyset.key, position: keyset.key.position + 1n } }, 'one'), 'base64url')
  const same = bytes.filter((byte, at) => byte === other[at]).length
  expect(same).toBeLessThan(8)
  const plain = Buffer.alloc(8)
  plain.writeBigInt64BE(keyset.key.timeNs)
  expect(bytes.includes(plain)).toBe(false)
})

test('the same keyset of the same query gives the same cursor, so that an unchanged page has the same bytes; another query shares no part of it', () => {
  const cursor = Buffer.from(cursors.encode(keyset, 'one'), 'base64url')
  expect(Buffer.from(cursors.encode(keyset, 'one'), 'base64url')).toEqual(cursor)
  const other = Buffer.from(cursors.encode(keyset, 'other'), 'base64url')
  for (const [from, to] of [
    [0, nonceBytes],
    [nonceBytes, textAt],
    [textAt, undefined],
  ] as const)
    expect(other.subarray(from, to)).not.toEqual(cursor.subarray(from, to))
})

test('a cursor is AES-256-GCM as in Node.js, with its query as additional data', () => {
  const bytes = Buffer.from(cursors.encode(keyset, 'one'), 'base64url')
  const key = Buffer.from(hkdfSync('sha256', Buffer.alloc(32, 1), new Uint8Array(0), 'cursors cipher', 32))
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes))
    .setAAD(Buffer.from('one'))
    .setAuthTag(bytes.subarray(nonceBytes, textAt))
  const plain = Buffer.concat([decipher.update(bytes.subarray(textAt)), decipher.final()])
  expect([plain.length, plain[0], plain.readBigInt64BE(1), plain.readBigInt64BE(9)]).toEqual([
    25,
    2,
    keyset.key.timeNs,
    keyset.key.position,
  ])
})

test('a cursor of an earlier version, or for another purpose, is invalid', () => {
  const bytes = Buffer.alloc(25)
  for (const version of [0, 1, 3]) {
    bytes[0] = version
    expect(cursors.decode(openCursorCodec(Buffer.alloc(32, 1), 'cursors').encode(bytes, 'one'), 'one')).toBeUndefined()
  }
  bytes[0] = 2
  expect(cursors.decode(openCursorCodec(Buffer.alloc(32, 1), 'cursors').encode(bytes, 'one'), 'one')).toBeDefined()
  expect(cursors.decode(openCursorCodec(Buffer.alloc(32, 1), 'live').encode(bytes, 'one'), 'one')).toBeUndefined()
  // Of a release before: tag and AES-256-CTR.
  expect(cursors.decode('vd5ARTYxYRC7DlTX_MyHbODmz_P7qDqD5pO157-dTdhj4l0KASZya2I', 'one')).toBeUndefined()
})
