// Times and the order of rows, a test for each rule (RFC 8428 §4.5.3, §4.6).

import { describe, expect, test } from 'vitest'
import { openSenmlJson } from '../../../transformers/senml/json.ts'
import { createdUs, faultOf, type Row, rowsOf } from './rows.ts'

const t0 = 1_600_000_000
const t0Us = t0 * 1e6

function column<K extends keyof Row>(rows: Row[], key: K): (Row[K] | undefined)[] {
  return rows.map(row => row[key])
}

describe('times', () => {
  test('a record without a time has the time of the message (RFC 8428 §4.5.3)', () => {
    expect(column(rowsOf('[{"n":"a","v":1}]'), 'timeUs')).toEqual([createdUs])
  })

  test('a time below 2^28 is relative to the time of the message, which is the same for the whole pack', () => {
    expect(column(rowsOf('[{"n":"a","t":-10.5,"v":1},{"n":"b","t":0,"v":1},{"n":"c","t":60,"v":1}]'), 'timeUs')).toEqual([
      createdUs - 10_500_000,
      createdUs,
      createdUs + 60_000_000,
    ])
  })

  test('the rule of 2^28 applies to the sum of base time and time', () => {
    const rows = rowsOf(`[{"bt":${2 ** 28 - 1},"n":"a","t":1,"v":1},{"bt":${t0},"n":"b","t":-${t0 + 5},"v":1}]`)
    expect(column(rows, 'timeUs')).toEqual([2 ** 28 * 1e6, createdUs - 5_000_000])
  })

  test('a time is rounded to the microsecond once', () => {
    expect(column(rowsOf('[{"bt":1276020076.001,"n":"a","v":1},{"n":"b","t":0.3,"v":1}]'), 'timeUs')).toEqual([
      1_276_020_076_001_000, 1_276_020_076_301_000,
    ])
    expect(column(rowsOf('[{"n":"a","t":1600000000.000001,"v":1},{"n":"b","t":1600000000.9999996,"v":1}]'), 'timeUs')).toEqual([
      t0Us + 1,
      t0Us + 1_000_000,
    ])
  })

  test('rows are in the order of time, those with the same time as received, each with its original ordinal (RFC 8428 §4.6)', () => {
    const rows = rowsOf(
      `[{"bt":${t0},"n":"a","t":2,"v":1},{"n":"b","t":1,"v":2},{"n":"c","t":2,"v":3},{"bn":"m:"},{"n":"d","t":1.0000001,"v":4},{"n":"e","t":0,"v":5}]`,
    )
    expect(rows.map(row => [row.index, row.name])).toEqual([
      [5, 'm:e'],
      [1, 'b'],
      [4, 'm:d'],
      [0, 'a'],
      [2, 'c'],
    ])
  })

  test('a large pack in the worst order is sorted like a small one', () => {
    const records = Array.from({ length: 5000 }, (_, at) => `{"n":"r${at}","t":${-(at >> 1)},"v":${at}}`)
    const rows = rowsOf(`[${records.join(',')}]`)
    const wanted = Array.from({ length: 2500 }, (_, pair) => [2 * (2499 - pair), 2 * (2499 - pair) + 1]).flat()
    expect(column(rows, 'index')).toEqual(wanted)
    expect(column(rows, 'value')).toEqual(wanted)
  })

  test('a row keeps all values of its record when the pack is sorted', () => {
    const records = [
      '{"n":"number","u":"V","t":9,"v":1.5,"s":3,"ut":4}',
      '{"n":"string","t":8,"vs":"on"}',
      '{"n":"boolean","t":7,"vb":true,"ut":2}',
      '{"n":"data","t":6,"vd":"_-8"}',
      '{"n":"sum","u":"J","t":5,"s":8}',
    ]
    const rowAt = (record: string, index: number): Row => ({ ...rowsOf(`[${record}]`)[0]!, index })
    expect(rowsOf(`[${records.join(',')}]`)).toEqual(records.map(rowAt).toReversed())
    for (const later of records) {
      for (const earlier of records.slice(records.indexOf(later) + 1)) {
        expect(rowsOf(`[${later},${earlier}]`)).toEqual([rowAt(earlier, 1), rowAt(later, 0)])
      }
    }
    expect(rowsOf('[{"bs":1},{"n":"a","t":2,"v":1},{"bs":2},{"n":"b","t":1,"v":1}]').map(row => row.sum)).toEqual([2, 1])
  })

  test('an update time is a duration, in seconds as sent', () => {
    expect(column(rowsOf(`[{"bt":${t0},"n":"a","v":1,"ut":12.5},{"n":"b","v":1,"ut":0},{"n":"c","v":1}]`), 'updateTime')).toEqual([
      12.5,
      0,
      undefined,
    ])
  })

  test('a time before 2^28 s or more than 366 days ahead is refused', () => {
    const ahead = 366 * 86_400
    expect(column(rowsOf(`[{"n":"a","t":${ahead},"v":1},{"n":"b","t":${createdUs / 1e6 + ahead},"v":1}]`), 'timeUs')).toEqual([
      createdUs + ahead * 1e6,
      createdUs + ahead * 1e6,
    ])
    expect(faultOf(`[{"n":"a","t":${ahead + 1e-6},"v":1}]`)).toEqual({
      rule: 'time-range',
      message: 'record 0: its time, 1731622400.000001 s since 1970, is after the latest allowed, 1731622400 s',
      record: 0,
    })
    const earliest = 2 ** 28 - createdUs / 1e6
    expect(column(rowsOf(`[{"n":"a","t":${earliest},"v":1}]`), 'timeUs')).toEqual([2 ** 28 * 1e6])
    expect(faultOf(`[{"n":"a","t":${earliest - 1e-6},"v":1}]`).rule).toBe('time-range')
  })

  test('time bounds can be configured', () => {
    const narrow = openSenmlJson({ timeMinUs: t0Us, timeAheadMaxUs: 0 })
    expect(rowsOf(`[{"n":"a","t":${t0},"v":1},{"n":"b","v":1}]`, narrow)).toHaveLength(2)
    expect(faultOf(`[{"n":"a","t":${t0 - 1},"v":1}]`, narrow).rule).toBe('time-range')
    expect(faultOf('[{"n":"a","t":1,"v":1}]', narrow).rule).toBe('time-range')
  })

  test('a time beyond the safe integers of microseconds is refused with any bounds', () => {
    const open = openSenmlJson({ timeMinUs: Number.NEGATIVE_INFINITY, timeAheadMaxUs: Number.POSITIVE_INFINITY })
    expect(column(rowsOf('[{"n":"a","t":9007199254,"v":1}]', open), 'timeUs')).toEqual([9_007_199_254_000_000])
    expect(faultOf('[{"n":"a","t":9007199255,"v":1}]', open).rule).toBe('time-range')
    expect(faultOf('[{"n":"a","t":-1e300,"v":1}]', open).rule).toBe('time-range')
    expect(faultOf('[{"bt":1.7e308,"n":"a","t":1.7e308,"v":1}]', open).rule).toBe('time-range')
  })
})
