// Base fields, and the names and units built with them, a test for each rule (RFC 8428 §4).

import { describe, expect, test } from 'vitest'
import { createdUs, faultOf, type Row, rowsOf } from './rows.ts'

const t0 = 1_600_000_000
const t0Us = t0 * 1e6

function column<K extends keyof Row>(rows: Row[], key: K): (Row[K] | undefined)[] {
  return rows.map(row => row[key])
}

describe('base fields', () => {
  test('a base field applies to its own record and to those after it (RFC 8428 §4.1)', () => {
    const rows = rowsOf(`[{"bn":"m:","bt":${t0},"bu":"A","bv":10,"n":"a","v":1},{"n":"b","v":2}]`)
    expect(rows).toEqual([
      { index: 0, name: 'm:a', unit: 'A', timeUs: t0Us, value: 11 },
      { index: 1, name: 'm:b', unit: 'A', timeUs: t0Us, value: 12 },
    ])
  })

  test('a base field applies to its own record wherever it is in it', () => {
    expect(rowsOf('[{"v":1,"n":"a","bv":10,"bn":"m:"}]')).toEqual([{ index: 0, name: 'm:a', timeUs: createdUs, value: 11 }])
  })

  test('a new base field replaces only the one with its name (RFC 8428 §5.1.6)', () => {
    const rows = rowsOf(`[{"bn":"a:","bt":${t0},"n":"x","v":1},{"bn":"b:","n":"x","v":2}]`)
    expect(column(rows, 'name')).toEqual(['a:x', 'b:x'])
    expect(column(rows, 'timeUs')).toEqual([t0Us, t0Us])
  })

  test('a base time of zero resets the previous one (RFC 8428 §4.1)', () => {
    const rows = rowsOf(`[{"bn":"m:","bt":${t0},"n":"a","v":1},{"bt":0,"n":"b","v":2}]`)
    expect(column(rows, 'timeUs')).toEqual([t0Us, createdUs])
  })

  test('an empty base name resets the previous one', () => {
    expect(column(rowsOf('[{"bn":"m:","n":"a","v":1},{"bn":"","n":"b","v":2}]'), 'name')).toEqual(['m:a', 'b'])
  })

  test('an empty base unit resets the previous one', () => {
    expect(column(rowsOf('[{"bu":"A","n":"a","v":1},{"bu":"","n":"b","v":2}]'), 'unit')).toEqual(['A', undefined])
  })

  test('a base value of zero resets the previous one, and applies', () => {
    expect(column(rowsOf('[{"bv":5,"n":"a","v":1},{"bv":0,"n":"b","v":2},{"n":"c"}]'), 'value')).toEqual([6, 2, 0])
  })

  test('a base sum of zero resets the previous one, and applies', () => {
    expect(column(rowsOf('[{"bs":5,"n":"a","s":1},{"bs":0,"n":"b","s":2},{"n":"c","v":3}]'), 'sum')).toEqual([6, 2, 0])
  })

  test('no base field of a pack applies to the next one', () => {
    rowsOf(`[{"bn":"m:","bt":${t0},"bu":"A","bv":10,"bs":5,"bver":5,"n":"a","v":1}]`)
    expect(rowsOf('[{"n":"b","v":1}]')).toEqual([{ index: 0, name: 'b', timeUs: createdUs, value: 1 }])
  })

  test('no base field of a refused pack applies to the next one', () => {
    faultOf(`[{"bn":"m:","bt":${t0},"bu":"A","bv":10,"bs":5,"bver":5,"n":"a","v":1},{"n":" ","v":1}]`)
    expect(rowsOf('[{"n":"b","v":1}]')).toEqual([{ index: 0, name: 'b', timeUs: createdUs, value: 1 }])
  })

  test('a record with base fields only gives no row, and its name is not checked (RFC 8428 §5.1.7)', () => {
    expect(rowsOf('[{"bn":" no name ","bv":7,"bs":1},{"bn":"m:","n":"a","v":1}]')).toEqual([
      { index: 1, name: 'm:a', timeUs: createdUs, value: 8, sum: 1 },
    ])
  })

  test('a pack with base fields only is valid and empty', () => {
    expect(rowsOf('[{"bn":"m:","bt":0,"bver":10}]')).toEqual([])
  })

  test('a record without any label is refused', () => {
    expect(faultOf('[{"n":"a","v":1},{}]')).toEqual({
      rule: 'record-labels',
      message: 'record 1: it has no SenML label',
      record: 1,
    })
    expect(faultOf('[{"value":1,"N":"a"}]').rule).toBe('record-labels')
  })
})

describe('names', () => {
  test('the name is base name and name joined (RFC 8428 §4.5.1)', () => {
    expect(column(rowsOf('[{"bn":"urn:dev:ow:1","n":":t","v":1},{"v":2},{"n":"-x/y._0","v":3}]'), 'name')).toEqual([
      'urn:dev:ow:1:t',
      'urn:dev:ow:1',
      'urn:dev:ow:1-x/y._0',
    ])
  })

  test.each(['-a', ':a', '.a', '/a', '_a'])('a joined name must begin with a letter or digit: %s', name => {
    expect(faultOf(`[{"n":"${name}","v":1}]`).rule).toBe('name-start')
    expect(faultOf(`[{"bn":"${name}","v":1}]`).rule).toBe('name-start')
    expect(faultOf(`[{"bn":"${name}","n":"b","v":1}]`).rule).toBe('name-start')
  })

  test.each(['a b', 'a\\u0000', 'ä', 'a+b', 'a\\ud800', 'a,b', 'a@b', 'a[0]'])('a joined name has only allowed characters: %s', name => {
    expect(faultOf(`[{"n":"m${name}","v":1}]`).rule).toBe('name-characters')
    expect(faultOf(`[{"bn":"m${name}","n":"c","v":1}]`).rule).toBe('name-characters')
  })

  test('every allowed character of a name is accepted', () => {
    const name = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-:./_'
    expect(column(rowsOf(`[{"n":"${name}","v":1},{"n":"9${name}","v":1}]`), 'name')).toEqual([name, `9${name}`])
  })

  test('a record without a name is refused', () => {
    expect(faultOf('[{"v":1}]').rule).toBe('name-empty')
    expect(faultOf('[{"bn":"m","v":1},{"bn":"","n":"","v":1}]')).toEqual({
      rule: 'name-empty',
      message: 'record 1: it has no name: bn and n are both empty',
      record: 1,
    })
  })

  test('the fault names the character and its place, and shortens a long name', () => {
    expect(faultOf('[{"n":"room 1","v":1}]').message).toBe('record 0: the name "room 1" contains " " at 4')
    expect(faultOf(`[{"n":"${'a'.repeat(500)} ","v":1}]`).message).toBe(`record 0: the name "${'a'.repeat(40)}"… contains " " at 500`)
  })
})

describe('units', () => {
  test('a unit replaces the base unit, and an empty one means none (RFC 8428 §4.5.2)', () => {
    expect(column(rowsOf('[{"bu":"A","n":"a","v":1},{"n":"b","u":"V","v":1},{"n":"c","u":"","v":1}]'), 'unit')).toEqual([
      'A',
      'V',
      undefined,
    ])
  })

  test('an unregistered unit is kept unchanged', () => {
    expect(column(rowsOf('[{"n":"a","u":"°C","v":1},{"n":"b","u":"smoots","v":1}]'), 'unit')).toEqual(['°C', 'smoots'])
  })

  test.each(['u', 'bu'])('a NUL or half a surrogate pair in %s is refused', label => {
    expect(faultOf(`[{"n":"a","${label}":"V\\u0000","v":1}]`)).toEqual({
      rule: 'text-nul',
      message: `record 0: ${label} contains a NUL`,
      record: 0,
    })
    expect(faultOf(`[{"n":"a","${label}":"\\udc00V","v":1}]`).rule).toBe('text-surrogate')
  })
})
