// Values, sums and versions, a test for each rule (RFC 8428 §4, RFC 9100).

import { describe, expect, test } from 'vitest'
import { createdUs, faultOf, type Row, rowsOf } from './rows.ts'

function column<K extends keyof Row>(rows: Row[], key: K): (Row[K] | undefined)[] {
  return rows.map(row => row[key])
}

describe('values', () => {
  test('a base value is added to a number only (RFC 8428 §4.5.4)', () => {
    expect(rowsOf('[{"bv":10,"n":"a","v":1},{"n":"b","vs":"x"},{"n":"c","vb":true},{"n":"d","vd":"AQ"}]')).toEqual([
      { index: 0, name: 'a', timeUs: createdUs, value: 11 },
      { index: 1, name: 'b', timeUs: createdUs, string: 'x' },
      { index: 2, name: 'c', timeUs: createdUs, boolean: true },
      { index: 3, name: 'd', timeUs: createdUs, data: '01' },
    ])
  })

  test('a record without a value has the current base value, also beside a sum', () => {
    expect(rowsOf('[{"bv":10},{"n":"a"},{"n":"b","s":3}]')).toEqual([
      { index: 1, name: 'a', timeUs: createdUs, value: 10 },
      { index: 2, name: 'b', timeUs: createdUs, value: 10, sum: 3 },
    ])
  })

  test('a base sum is the sum of a record without one, and is added to that of a record with one (RFC 8428 §4.5.4)', () => {
    expect(rowsOf('[{"bs":10},{"n":"a","v":1},{"n":"b","s":3},{"n":"c","vs":"x"},{"n":"d"}]')).toEqual([
      { index: 1, name: 'a', timeUs: createdUs, value: 1, sum: 10 },
      { index: 2, name: 'b', timeUs: createdUs, sum: 13 },
      { index: 3, name: 'c', timeUs: createdUs, string: 'x', sum: 10 },
      { index: 4, name: 'd', timeUs: createdUs, sum: 10 },
    ])
  })

  test('zero, false and the empty string are values', () => {
    expect(rowsOf('[{"n":"a","v":0},{"n":"b","vb":false},{"n":"c","vs":""},{"n":"d","vd":""},{"n":"e","s":0}]')).toEqual([
      { index: 0, name: 'a', timeUs: createdUs, value: 0 },
      { index: 1, name: 'b', timeUs: createdUs, boolean: false },
      { index: 2, name: 'c', timeUs: createdUs, string: '' },
      { index: 3, name: 'd', timeUs: createdUs, data: '' },
      { index: 4, name: 'e', timeUs: createdUs, sum: 0 },
    ])
  })

  test('a negative zero becomes zero', () => {
    for (const pack of [
      '[{"n":"a","v":-0,"s":-0,"ut":-0}]',
      '[{"bv":-0,"bs":-0,"n":"a","v":-0,"s":-0,"ut":-0.0e5}]',
      '[{"bv":-0,"bs":-0,"n":"a","ut":-0}]',
    ]) {
      expect(rowsOf(pack)).toEqual([{ index: 0, name: 'a', timeUs: createdUs, value: 0, sum: 0, updateTime: 0 }])
    }
  })

  test('more than one value is refused, also beside a sum', () => {
    expect(faultOf('[{"n":"a","v":1},{"n":"b","v":1},{"n":"c","v":1},{"n":"d","v":1,"vs":"x"}]')).toEqual({
      rule: 'one-value',
      message: 'record 3: both v and vs; a record has exactly one value',
      record: 3,
    })
    expect(faultOf('[{"n":"a","vb":true,"vs":"x","vd":"AQ","s":1}]').message).toBe(
      'record 0: vs, vb and vd; a record has exactly one value',
    )
  })

  test.each(['"n":"a"', '"t":1', '"u":"V"', '"ut":1', '"bn":"a","t":0'])('a record with %s but no value and no sum is refused', fields => {
    expect(faultOf(`[{${fields}}]`).rule).toBe('no-value')
  })

  test('a value or sum that overflows is refused', () => {
    expect(faultOf('[{"bv":1.7e308,"n":"a","v":1.7e308}]').rule).toBe('number-overflow')
    expect(faultOf('[{"bs":-1.7e308,"n":"a","s":-1.7e308}]').rule).toBe('number-overflow')
  })

  test('a NUL or half a surrogate pair in vs is refused, and a whole pair is kept', () => {
    expect(faultOf('[{"n":"a","vs":"x\\u0000y"}]').rule).toBe('text-nul')
    expect(faultOf('[{"n":"a","vs":"\\ud83d"}]').rule).toBe('text-surrogate')
    expect(faultOf(`[{"n":"a","vs":"${'x'.repeat(100)}\\u0000"}]`).rule).toBe('text-nul')
    expect(faultOf(`[{"n":"a","vs":"${'x'.repeat(100)}\\ude00\\ud83d"}]`).rule).toBe('text-surrogate')
    expect(column(rowsOf('[{"n":"a","vs":"\\ud83d\\ude00"},{"n":"b","vs":"😀"}]'), 'string')).toEqual(['😀', '😀'])
  })
})

describe('versions', () => {
  test.each([1, 5, 9, 10, '10.0', '1e1', 26])('version %s is accepted (RFC 8428 §4.4, RFC 9100)', version => {
    expect(rowsOf(`[{"bver":${version},"n":"a","v":1}]`)).toHaveLength(1)
  })

  test.each([11, 12, 18, 25, 27, 42, 58, 1e300])('version %s requires unknown features, and is refused', version => {
    expect(faultOf(`[{"bver":${version},"n":"a","v":1}]`).rule).toBe('version-unknown')
  })

  test.each([0, -1, 5.5, 10.5, '1e-9'])('version %s is not a positive integer, and is refused', version => {
    expect(faultOf(`[{"bver":${version},"n":"a","v":1}]`).rule).toBe('version-integer')
  })

  test('a pack has one version, which is 10 by default', () => {
    expect(rowsOf('[{"n":"a","v":1},{"bver":10,"n":"b","v":1}]')).toHaveLength(2)
    expect(rowsOf('[{"bver":5,"n":"a","v":1},{"n":"b","v":1},{"bver":5,"n":"c","v":1}]')).toHaveLength(3)
    expect(faultOf('[{"bver":5,"n":"a","v":1},{"bver":10,"n":"b","v":1}]')).toEqual({
      rule: 'version-mixed',
      message: 'record 1: bver is 10, but the pack started with 5; a pack has one version',
      record: 1,
    })
    expect(faultOf('[{"n":"a","v":1},{"bver":26,"n":"b","v":1}]').rule).toBe('version-mixed')
  })
})
