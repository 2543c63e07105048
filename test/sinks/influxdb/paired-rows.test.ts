// Two fields of each point are put together, however their series come.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Columns, Row } from '../../../sinks/influxdb/annotated-csv.ts'
import { pairedRows } from '../../../sinks/influxdb/paired-rows.ts'

const names = ['', 'result', 'table', '_time', '_value', '_field', '_measurement', 'name']
const columns: Columns = { types: [], places: new Map(names.map((name, place) => [name, place])) }

function rowsOf(table: number, field: string, name: string, values: readonly number[]): Row[] {
  return values.map(value => ({ columns, cells: ['', '_result', String(table), 't', String(value), field, 'messages', name] }))
}

test('each series gives its pairs, and one whose fields have not the same number none', () => {
  const series = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 9 })), { maxLength: 8 })
  fc.assert(
    fc.property(series, fc.boolean(), (given, positionsFirst) => {
      const found: string[] = []
      const pairs = pairedRows((position, index) => void found.push(`${position}/${index}`))
      const expected: string[] = []
      const uneven: string[] = []
      for (const [nth, [points, more]] of given.entries()) {
        const positions = Array.from({ length: points }, (_, at) => nth * 100 + at)
        const indexes = positions.map((_, at) => at)
        // One in ten was written to meanwhile.
        if (more === 0) indexes.push(99)
        const fields = [rowsOf(nth * 2, '/index', `s${nth}`, indexes), rowsOf(nth * 2 + 1, '/position', `s${nth}`, positions)]
        for (const row of (positionsFirst ? fields.toReversed() : fields).flat()) pairs.add(row)
        if (more === 0) uneven.push(`s${nth}`)
        else expected.push(...positions.map((position, at) => `${position}/${at}`))
      }
      expect(pairs.finish().map(({ name }) => name)).toEqual(uneven)
      expect(found).toEqual(expected)
    }),
  )
})
