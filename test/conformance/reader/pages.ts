// Pages: by offset and after a row, in both directions, with and without filters; together they contain every row once.

import { describe, expect, test } from 'vitest'
import { keyOf, type PageQuery, type Row, senmlFormat } from '../../../readers/reader.ts'
import { pageQuery, type ReaderBench } from './bench.ts'
import { dayUs, formats, publishers, startUs } from './fixture.ts'

export function pagesSuite(bench: ReaderBench): void {
  const queries: readonly Partial<PageQuery>[] = [
    {},
    { publisher: publishers[1] },
    { format: formats[0] },
    { format: formats[0], publisher: publishers[0] },
    { value: { comparator: 'ge', number: -1 } },
    { fromNs: BigInt(startUs) * 1000n, toNs: BigInt(startUs + 3 * dayUs) * 1000n },
    { publisher: publishers[0], fromNs: BigInt(startUs - dayUs) * 1000n },
  ]
  const directions = ['desc', 'asc'] as const
  const cases = queries.flatMap(query => directions.map(direction => ({ ...query, direction })))
  const shown = (query: object): string =>
    JSON.stringify(query, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value))

  describe('pages', () => {
    test.each(cases.map(one => [shown(one), one] as const))('by offset: %s', async (_shown, query) => {
      const whole = await bench.read(query)
      expect(whole.length).toBeGreaterThan(1)
      const rows: Row[] = []
      for (let offset = 0; offset < whole.length; offset += 3) rows.push(...(await bench.read({ ...query, offset, limit: 3 })))
      expect(rows).toEqual(whole)
      expect(await bench.read({ ...query, offset: whole.length, limit: 1 })).toEqual([])
    })

    test.each(cases.map(one => [shown(one), one] as const))('after the last row of the previous page: %s', async (_shown, query) => {
      const whole = await bench.read(query)
      for (const limit of [1, 2]) {
        const rows: Row[] = []
        for (;;) {
          const last = rows.at(-1)
          const page = await bench.read({ ...query, limit, after: last === undefined ? undefined : keyOf(last) })
          rows.push(...page)
          if (page.length < limit) break
        }
        expect(rows).toEqual(whole)
      }
    })

    test('after a row that was deleted or never existed, the next ones follow', async () => {
      const whole = await bench.read()
      const { timeNs, position, index } = keyOf(whole[3]!)
      const between = { timeNs, position: position + 1n, index }
      const expected = whole.filter(row => {
        const key = keyOf(row)
        if (key.timeNs !== timeNs) return key.timeNs < timeNs
        return key.position < between.position || (key.position === between.position && key.index < index)
      })
      expect(await bench.read({ after: between })).toEqual(expected)
    })

    test('a count stops at its bound', async () => {
      const whole = (await bench.read()).length
      expect(await bench.count({}, whole)).toBe(whole)
      expect(await bench.count({}, whole - 1)).toBe(whole)
      expect(await bench.count({}, 3)).toBe(4)
      expect(await bench.count({}, 0)).toBe(1)
    })

    test('a read whose caller has disconnected fails', async () => {
      const gone = AbortSignal.abort()
      await expect(bench.site.reader.read(pageQuery({ format: senmlFormat }), gone)).rejects.toMatchObject({ name: 'AbortError' })
    })
  })
}
