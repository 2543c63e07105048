// Common faults of other decoders, so that a change which introduces one is noticed.

import { expect, test } from 'vitest'
import { createdUs, faultOf, rowsOf } from './rows.ts'

test('a base value applies beyond its own record', () => {
  expect(rowsOf('[{"bn":"m","bv":10,"v":1},{"v":2},{"v":3}]').map(row => row.value)).toEqual([11, 12, 13])
})

test('bt 0, bn "" and bv 0 reset', () => {
  expect(rowsOf('[{"bn":"m:","bt":1600000000,"bv":10,"n":"a","v":1},{"bn":"","bt":0,"bv":0,"n":"b","v":1}]')).toEqual([
    { index: 0, name: 'm:a', timeUs: 1_600_000_000_000_000, value: 11 },
    { index: 1, name: 'b', timeUs: createdUs, value: 1 },
  ])
})

test('a version above 10 with an unknown feature is refused', () => {
  expect(faultOf('[{"bver":11,"n":"a","v":1}]').rule).toBe('version-unknown')
})

test('a label that ends in _ is not ignored', () => {
  expect(faultOf('[{"n":"a","v":1,"foo_":1}]').rule).toBe('must-understand')
})

test('a record with base fields only is accepted', () => {
  expect(rowsOf('[{"bn":"m:"},{"n":"a","v":1}]').map(row => row.name)).toEqual(['m:a'])
})

test('a base sum without a sum gives a sum', () => {
  expect(rowsOf('[{"bs":10,"n":"a","v":1}]')[0]?.sum).toBe(10)
})

test('records with the same time stay in the order received', () => {
  const names = 'zyxwvutsrqponmlkjihgfedcba0123456789'.split('')
  const rows = rowsOf(`[{"bn":"m","t":1,"v":0},${names.map(name => `{"n":"${name}","t":0,"v":1}`).join(',')}]`)
  expect(rows.map(row => row.name)).toEqual([...names.map(name => `m${name}`), 'm'])
})

test('a data value is accepted', () => {
  expect(rowsOf('[{"n":"a","vd":"AQID"}]')[0]?.data).toBe('010203')
})

test('a relative time becomes an absolute one', () => {
  expect(rowsOf('[{"n":"a","t":-1,"v":1}]')[0]?.timeUs).toBe(createdUs - 1_000_000)
})
