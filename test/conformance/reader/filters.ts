// Filters: each alone, on every value of the fixture and on neighbouring values, and random combinations.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Comparator, Filter } from '../../../readers/reader.ts'
import type { ReaderBench } from './bench.ts'
import { channel, dayUs, formats, publishers, records, startUs } from './fixture.ts'
import { filterOf, inOrder, selected } from './oracle.ts'

const comparators: readonly Comparator[] = ['eq', 'lt', 'le', 'gt', 'ge']
const numbers = [...new Set(records.rows.flatMap(({ value }) => (value === undefined ? [] : [value, value + 0.5])))]

export function filtersSuite(bench: ReaderBench): void {
  async function expectRows(some: Partial<Filter>): Promise<number> {
    const filter = filterOf({ channel, ...some })
    const expected = inOrder(selected(bench.stored, filter), 'desc')
    expect((await bench.read(some)).map(keys), JSON.stringify(some, texts)).toEqual(expected.map(keys))
    expect(await bench.count(some), JSON.stringify(some, texts)).toBe(expected.length)
    return expected.length
  }

  describe('filters', () => {
    test.each(comparators)('a number is compared by %s', async comparator => {
      for (const number of [...numbers, 0, -0, 1e-300]) await expectRows({ value: { comparator, number } })
    })

    test('values that often mean "none" filter too: zero, false, the empty text, no bytes, no unit, no subtopic', async () => {
      const falsy: readonly Partial<Filter>[] = [
        { value: { comparator: 'eq', number: 0 } },
        { boolValue: false },
        { stringValue: '' },
        { dataValue: new Uint8Array(0) },
        { unit: '' },
        { subtopic: '' },
      ]
      for (const filter of falsy) expect(await expectRows(filter), JSON.stringify(filter)).toBeGreaterThan(0)
      expect(await expectRows({ fromNs: 0n })).toBe(records.rows.length)
      expect(await expectRows({ toNs: 0n })).toBe(0)
    })

    test('every text of the fixture is found by itself, and not by a part of it', async () => {
      for (const { name, unit, stringValue, dataValue, subtopic, boolValue } of records.rows) {
        await expectRows({ name })
        await expectRows({ name: name.slice(0, -1) })
        await expectRows({ subtopic })
        if (unit !== undefined) await expectRows({ unit })
        if (stringValue !== undefined) await expectRows({ stringValue })
        if (dataValue !== undefined) await expectRows({ dataValue })
        if (boolValue !== undefined) await expectRows({ boolValue })
      }
      await expectRows({ protocol: 'http' })
      await expectRows({ protocol: 'mqtt' })
    })

    test('from is inclusive and to exclusive, to the nanosecond', async () => {
      for (const row of records.rows.slice(0, 6)) {
        const ns = BigInt(row.timeUs) * 1000n
        for (const near of [-1000n, -1n, 0n, 1n, 999n, 1000n]) {
          await expectRows({ fromNs: ns + near })
          await expectRows({ toNs: ns + near })
        }
      }
      for (const created of [BigInt(startUs) * 1000n, BigInt(startUs) * 1000n + 1n, BigInt(startUs) * 1000n + 999n]) {
        for (const near of [-1n, 0n, 1n]) {
          await expectRows({ format: formats[0], fromNs: created + near })
          await expectRows({ format: formats[0], toNs: created + near })
        }
      }
    })

    test('from and to at the ends of what can be stored, and of what can be requested', async () => {
      const storable = 2n ** 53n * 1000n
      const askable = 2n ** 63n
      const near = [-1001n, -1000n, -999n, -1n, 0n, 1n, 999n, 1000n]
      const ends = [-askable, -askable + 1n, ...near.flatMap(ns => [-storable + ns, storable + ns]), askable - 1n]
      for (const ns of ends) {
        for (const format of ['messages', formats[0]]) {
          for (const bound of [{ fromNs: ns }, { toNs: ns }]) {
            const rows = await expectRows({ format, ...bound })
            expect(rows > 0).toBe('fromNs' in bound === ns < 0n)
          }
          expect((await bench.read({ format, fromNs: ns, direction: 'asc' })).length).toBe(await bench.count({ format, fromNs: ns }))
          const latest = await bench.latest({ format, fromNs: ns })
          expect(latest.total > 0).toBe(ns < 0n)
        }
        const { total } = await bench.aggregate({ fromNs: ns })
        expect(total > 0).toBe(ns < 0n)
      }
    })

    test.each([
      [['a', '10'], 'null'],
      [['a', '9'], 'true'],
      [['a', '9'], 'false'],
      [['a', 'z'], '1'],
      [['a', 'z', '0'], '1'],
      [['b'], '1'],
      [['b'], '1.0'],
      [['f'], '1.5'],
      [['tiny'], '1e-7'],
      [['huge'], '1e+21'],
      [['whole'], '1000000000000000'],
      [['zero'], '0'],
      [['zero'], '-0'],
      [['zero'], 'false'],
      [['id'], '8659456789564231564'],
      [['id'], '8659456789564231565'],
      [['least'], '-9223372036854775808'],
      [['beyond'], '12345678901234567000'],
      [['beyond'], '12345678901234567890'],
      [['later'], 'true'],
      [['later'], 'false'],
      [['a/b'], 'slash'],
      [['quote"'], '\\'],
      [['😀'], '\u2028\u0001'],
      [['__proto__', 'a'], '2'],
      [['constructor'], 'c'],
      [['toString'], 'x'],
      [['none'], ''],
      [['1-0:1.8.0'], '5'],
      [['1-0:1', '8', '0'], '5'],
      [['c:\\', 'x.y'], 'both'],
    ])('a field of a payload is found by its path and text: %j is %j', async (path, text) => {
      await expectRows({ format: formats[0], payload: [{ path, text }] })
    })

    test('all filters of a query apply', async () => {
      const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined, freq: 1 })
      const timeNs = fc.constantFrom(...records.rows.map(({ timeUs }) => BigInt(timeUs) * 1000n), BigInt(startUs - 500 * dayUs) * 1000n)
      const filters: fc.Arbitrary<Partial<Filter>> = fc.record({
        publisher: optional(fc.constantFrom(...publishers)),
        subtopic: optional(fc.constantFrom('', 'a', 'bedroom.temperature', 'none')),
        unit: optional(fc.constantFrom('', 'Cel', '%RH')),
        name: optional(fc.constantFrom('number', 'zero', 'all', 'none')),
        value: optional(fc.record({ comparator: fc.constantFrom(...comparators), number: fc.constantFrom(...numbers) })),
        boolValue: optional(fc.boolean()),
        fromNs: optional(timeNs),
        toNs: optional(timeNs),
      })
      await fc.assert(
        fc.asyncProperty(filters, async filter => {
          await expectRows(filter)
        }),
        { numRuns: 40 },
      )
    })
  })
}

function keys({ position, index }: { position: bigint; index: number }): string {
  return `${position} ${index}`
}

function texts(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}
