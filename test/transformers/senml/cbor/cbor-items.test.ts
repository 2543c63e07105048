// CBOR that a pack may not contain anywhere: indefinite lengths, tags, depth, truncated and malformed items (RFC 8949 §3).

import { describe, expect, test } from 'vitest'
import { createdUs } from '../rows.ts'
import { bytesOf, faultOf, rowsOf, ruleOf } from './cbor-rows.ts'

/** Every place of an item in a pack, by its surroundings. */
const places: readonly [string, (item: string) => string][] = [
  ['the pack', item => item],
  ['a record', item => `81 ${item}`],
  ['a label', item => `81 a3 00 61 'a' 02 01 ${item} 00`],
  ['the value of n', item => `81 a2 00 ${item} 02 01`],
  ['the value of v', item => `81 a2 00 61 'a' 02 ${item}`],
  ['the value of vs', item => `81 a2 00 61 'a' 03 ${item}`],
  ['the value of vb', item => `81 a2 00 61 'a' 04 ${item}`],
  ['the value of vd', item => `81 a2 00 61 'a' 08 ${item}`],
  ['the value of bver', item => `81 a3 00 61 'a' 02 01 20 ${item}`],
  ['the value of an unknown label', item => `81 a3 00 61 'a' 02 01 61 'x' ${item}`],
  ['an array under an unknown label', item => `81 a3 00 61 'a' 02 01 61 'x' 82 00 ${item}`],
  ['a key under an unknown label', item => `81 a3 00 61 'a' 02 01 61 'x' a1 ${item} 00`],
  ['a value in a map under an unknown label', item => `81 a3 00 61 'a' 02 01 61 'x' a1 00 ${item}`],
  ['an exponent', item => `81 a2 00 61 'a' 02 c4 82 ${item} 01`],
  ['a mantissa', item => `81 a2 00 61 'a' 02 c4 82 00 ${item}`],
  ['what a decimal fraction is of', item => `81 a2 00 61 'a' 02 c4 ${item}`],
  ['a mantissa under an unknown label', item => `81 a3 00 61 'a' 02 01 61 'x' c4 82 00 ${item}`],
]

describe.each(places)('in the place of %s', (_, at) => {
  test.each([
    ['an array', '9f 00 ff'],
    ['a map', 'bf 00 00 ff'],
    ['a text string', "7f 61 'x' ff"],
    ['a byte string', '5f 41 00 ff'],
  ])('%s of indefinite length is refused, because it may be a SensML stream', (kind, item) => {
    const fault = faultOf(at(item))
    expect(fault.rule).toBe('cbor-indefinite')
    expect(fault.message).toContain(`it contains ${kind} of indefinite length`)
  })

  test.each([
    ['0', "c0 74 '2013-03-21T20:04:00Z'", 0],
    ['1', 'c1 1a 514b67b0', 1],
    ['2, a bignum', 'c2 49 010000000000000000', 2],
    ['3', 'c3 41 00', 3],
    ['5, a bigfloat', 'c5 82 00 01', 5],
    ['24', 'd8 18 41 00', 24],
    ['258', 'd9 0102 80', 258],
    ['55799, which says that it is CBOR', 'd9 d9f7 80', 55_799],
    ['2^32 - 1', 'da ffffffff 00', 2 ** 32 - 1],
    ['2^64 - 1', 'db ffffffffffffffff 00', 2 ** 64],
  ])('the tag %s is refused', (__, item, tag) => {
    expect(faultOf(at(item))).toMatchObject({ rule: 'cbor-tag', message: expect.stringMatching(`it contains the tag ${tag}$`) as string })
  })

  test.each(['1c', '3d', '5e', '7c', '9c', 'be', 'dd', 'fc', 'fd', 'fe', '1f', '3f', 'df', 'ff', 'f8 00', 'f8 1f'])(
    'the malformed item %s is refused (RFC 8949 §3)',
    item => {
      expect(ruleOf(at(item))).toBe('cbor-malformed')
    },
  )
})

describe('a truncated pack', () => {
  test('is refused at every place', () => {
    const pack = bytesOf(`83
      aa  21 62 'm:'  22 fb 41d97d7840000000  23 61 'A'  24 f9 3c00  20 05  00 61 'a'  01 61 'V'  02 1a 00010000  06 39 0001  63 'xyz' 82 01 a1 02 61 'y'
      a3  00 78 03 'abc'  08 58 02 01ff 62 'yz' c4 82 20 19 0100
      a2  00 61 'b'  02 c4 82 20 18 20`)
    expect(rowsOf(pack)).toHaveLength(3)
    for (let end = 0; end < pack.length; end++) expect(ruleOf(pack.subarray(0, end)), `cut at ${end}`).toBe('cbor-cut')
  })

  test.each([
    ['2^32 - 1', 'a ffffffff'],
    ['2^32', 'b 0000000100000000'],
    ['2^53', 'b 0020000000000000'],
    ['2^63', 'b 8000000000000000'],
    ['2^64 - 1', 'b ffffffffffffffff'],
  ])('a declared length of %s is refused, and allocates nothing', (_, length) => {
    const before = process.memoryUsage().arrayBuffers
    for (const pack of [
      `9${length} a2 00 61 'a' 02 01`,
      `81 b${length} 00 61 'a' 02 01`,
      `81 a2 02 01 00 7${length} 'a'`,
      `81 a2 00 61 'a' 08 5${length} 00`,
      `81 a3 00 61 'a' 02 01 61 'x' 9${length} 00`,
      `81 a3 00 61 'a' 02 01 61 'x' b${length} 00 00`,
      `81 a3 00 61 'a' 02 01 61 'x' 7${length} 'x'`,
      `81 a3 00 61 'a' 02 01 61 'x' 5${length} 'x'`,
      `81 a3 00 61 'a' 02 01 7${length} 'x'`,
    ]) {
      expect(ruleOf(pack), pack).toBe('cbor-cut')
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 24)
  })
})

describe('depth', () => {
  const under = (item: string): string => `81 a3 00 61 'a' 02 01 61 'x' ${item}`

  test.each(['81 81 00', 'a1 00 a1 00 00', 'a1 81 00 00', '81 a1 00 00', 'a1 00 80', 'c4 82 00 00', '82 80 80'])(
    '%s is within 4 levels, including pack and record',
    item => {
      expect(rowsOf(under(item))).toEqual([{ index: 0, name: 'a', timeUs: createdUs, value: 1 }])
    },
  )

  test.each([
    '81 81 81 00',
    '81 81 80',
    '81 81 a0',
    'a1 00 a1 00 80',
    'a1 81 80 00',
    '81 c4 82 00 00',
    'a1 00 c4 82 00 00',
    'a1 c4 82 00 00 00',
    '81 81 c4 82 00 00',
  ])('%s is deeper, and is refused', item => {
    expect(faultOf(under(item))).toEqual({
      rule: 'nesting-depth',
      message: 'record 0: it has more than 4 nested levels of arrays, maps and tags',
      record: 0,
    })
  })
})

describe('keys of maps under unknown labels', () => {
  const under = (count: number, pairs: string): string => `81 a3 00 61 'a' 02 01 61 'x' ${(0xa0 + count).toString(16)} ${pairs}`

  test.each([
    '01 00 01 00',
    '01 00 18 01 00',
    '1b 8000000000000001 00 1b 8000000000000001 00',
    '20 00 38 00 00',
    "61 'k' 00 61 'k' 00",
    "61 'k' 00 79 0001 'k' 00",
    "41 'k' 00 58 01 'k' 00",
    '60 00 60 00',
    'f5 00 f5 00',
    'f9 3c00 00 f9 3c00 00',
    '81 01 00 81 01 00',
    'a1 01 02 00 a1 01 02 00',
  ])('%s contains a duplicate, and is refused', pairs => {
    expect(ruleOf(under(2, pairs))).toBe('cbor-duplicate-key')
  })

  test.each([
    '01 00 20 00',
    "61 'k' 00 41 'k' 00",
    '1b 8000000000000001 00 1b 8000000000000000 00',
    '1b 0000000100000001 00 01 00',
    '60 00 40 00',
    'f4 00 f5 00',
    'f8 20 00 18 20 00',
    'f9 0014 00 f4 00',
    'f9 3c00 00 01 00',
    '81 01 00 81 02 00',
    '82 01 01 00 81 01 00',
  ])('%s contains each once', pairs => {
    expect(ruleOf(under(2, pairs))).toBe('none')
  })

  test('a map in a key or value has its own keys', () => {
    expect(ruleOf(under(2, '01 a1 01 00 02 a1 01 00'))).toBe('none')
    expect(ruleOf(under(3, '01 a2 01 00 02 00 02 00 01 00'))).toBe('cbor-duplicate-key')
    expect(ruleOf(under(2, 'a1 01 00 00 01 00'))).toBe('none')
  })
})
