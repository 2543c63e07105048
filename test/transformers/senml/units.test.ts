// Secondary units and their conversion (RFC 8798, RFC 9100).

import { describe, expect, test } from 'vitest'
import registry from '../../../transformers/senml/units.json' with { type: 'json' }
import { secondaryUnits } from '../../../transformers/senml/units.ts'
import { createdUs, faultOf, rowsOf } from './rows.ts'

/** The symbols of the primary registry (RFC 8428 §12.1, RFC 8798 §2). */
const primaryUnits: ReadonlySet<string> = new Set(registry.primary)

describe('the registry', () => {
  test('each secondary unit has a registered primary one, and is not primary itself', () => {
    for (const { unit, primary } of secondaryUnits.values()) {
      expect(primaryUnits.has(primary), `${unit} → ${primary}`).toBe(true)
      expect(primaryUnits.has(unit), unit).toBe(false)
    }
    expect([primaryUnits.size, secondaryUnits.size]).toEqual([66, 33])
  })

  test.each([
    ['ms', 5, 's', 0.005],
    ['min', 2, 's', 120],
    ['h', 2, 's', 7200],
    ['MHz', 2, 'Hz', 2e6],
    ['kW', 2, 'W', 2000],
    ['kVA', 2, 'VA', 2000],
    ['kvar', 2, 'var', 2000],
    ['Ah', 2, 'C', 7200],
    ['Wh', 2, 'J', 7200],
    ['kWh', 2, 'J', 7.2e6],
    ['varh', 2, 'vars', 7200],
    ['kvarh', 2, 'vars', 7.2e6],
    ['kVAh', 2, 'VAs', 7.2e6],
    ['Wh/km', 2, 'J/m', 7.2],
    ['KiB', 2, 'B', 2048],
    ['GB', 2, 'B', 2e9],
    ['Mbit/s', 2, 'bit/s', 2e6],
    ['B/s', 2, 'bit/s', 16],
    ['MB/s', 2, 'bit/s', 16e6],
    ['mV', 3, 'V', 0.003],
    ['mA', 3, 'A', 0.003],
    ['dBm', 10, 'dBW', -20],
    ['ug/m3', 3, 'kg/m3', 3e-9],
    ['mm/h', 36, 'm/s', 1e-5],
    ['m/h', 36, 'm/s', 0.01],
    ['ppm', 3, '/', 3e-6],
    ['/100', 50, '/', 0.5],
    ['/1000', 500, '/', 0.5],
    ['hPa', 1013.25, 'Pa', 101_325],
    ['mm', 3, 'm', 0.003],
    ['cm', 3, 'm', 0.03],
    ['km', 3, 'm', 3000],
    ['km/h', 36, 'm/s', 10],
  ])('%s: %d becomes %s %d', (unit, value, primary, converted) => {
    expect(rowsOf(`[{"bver":26,"n":"a","u":"${unit}","v":${value}}]`)).toEqual([
      { index: 0, name: 'a', unit: primary, timeUs: createdUs, value: converted },
    ])
  })
})

describe('a pack', () => {
  test('without version 26 keeps secondary units unchanged', () => {
    expect(rowsOf('[{"n":"a","u":"km/h","v":36}]')[0]).toMatchObject({ unit: 'km/h', value: 36 })
    expect(rowsOf('[{"bver":10,"n":"a","u":"km/h","v":36}]')[0]).toMatchObject({ unit: 'km/h', value: 36 })
  })

  test('with version 26 also converts by base unit, and keeps primary and unknown units', () => {
    const rows = rowsOf(
      '[{"bver":26,"bu":"ms","bv":10,"n":"a","v":5},{"n":"b","u":"V","v":5},{"n":"c","u":"smoots","v":5},{"n":"d","u":"","v":5}]',
    )
    expect(rows.map(row => [row.unit, row.value])).toEqual([
      ['s', 0.015],
      ['V', 15],
      ['smoots', 15],
      [undefined, 15],
    ])
  })

  test('scales a sum without adding an offset', () => {
    expect(rowsOf('[{"bver":26,"n":"a","u":"dBm","v":10,"s":100},{"n":"b","u":"kWh","s":2},{"n":"c","u":"kWh","vs":"x","s":2}]')).toEqual([
      { index: 0, name: 'a', unit: 'dBW', timeUs: createdUs, value: -20, sum: 100 },
      { index: 1, name: 'b', unit: 'J', timeUs: createdUs, sum: 7.2e6 },
      { index: 2, name: 'c', unit: 'J', timeUs: createdUs, string: 'x', sum: 7.2e6 },
    ])
  })

  test('keeps the unit of a record without a number', () => {
    expect(rowsOf('[{"bver":26,"bu":"km/h","n":"a","vs":"fast"},{"n":"b","vb":true},{"n":"c","vd":"AQ"}]').map(row => row.unit)).toEqual([
      'km/h',
      'km/h',
      'km/h',
    ])
  })

  test('is refused if the conversion overflows', () => {
    expect(faultOf('[{"bver":26,"n":"a","u":"kWh","v":1e303}]').rule).toBe('number-overflow')
    expect(faultOf('[{"bver":26,"n":"a","u":"kWh","s":-1e303}]').rule).toBe('number-overflow')
  })
})
