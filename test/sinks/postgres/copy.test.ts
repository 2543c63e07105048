// How the culprits of a refused COPY are found, over a transaction that refuses what a test wants.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { DatabaseError, type Transaction } from '../../../database/database.ts'
import { copyTable } from '../../../sinks/postgres/copy.ts'
import { isDataError } from '../../../sinks/postgres/errors.ts'
import { batchOf, type TestMessage } from '../batches.ts'
import { encodeWithTexts } from './copied-rows.ts'

/** Reads the rows' values back from COPY bytes: they tell the rows apart. */
function valuesOf(binary: Uint8Array): number[] {
  const view = new DataView(binary.buffer, binary.byteOffset, binary.byteLength)
  const values: number[] = []
  let at = 19
  for (let fields = view.getInt16(at); fields !== -1; fields = view.getInt16(at)) {
    at += 2
    for (let field = 0; field < fields; field++) {
      const length = view.getInt32(at)
      if (field === 5) values.push(view.getFloat64(at + 4))
      at += 4 + Math.max(length, 0)
    }
  }
  expect(at + 2).toBe(binary.length)
  return values
}

/** Keeps savepoints as PostgreSQL does; `namesLine` false is a server that does not say which row it was, `foreign` one that names a row that was not sent. */
function refusing(refused: (value: number) => boolean, namesLine: boolean | 'foreign') {
  const kept: number[] = []
  let pending: number[] = []
  let failed = false
  let rowsSent = 0
  let copies = 0
  const transaction: Transaction = {
    query: async () => [],
    async execute(sql) {
      if (sql.startsWith('ROLLBACK')) {
        pending = []
        failed = false
      } else if (failed) throw new Error('current transaction is aborted')
      else kept.push(...pending.splice(0))
    },
    async copy(_target, binary) {
      if (failed) throw new Error('current transaction is aborted')
      const values = valuesOf(binary)
      copies++
      rowsSent += values.length
      const line = values.findIndex(refused) + 1
      if (line > 0) {
        failed = true
        throw new DatabaseError('refused', {
          sqlState: '22021',
          line: namesLine === 'foreign' ? 1_000_000 : namesLine ? line : undefined,
          cause: undefined,
        })
      }
      pending.push(...values)
      return values.length
    },
  }
  return { transaction, kept, sent: () => ({ rowsSent, copies }) }
}

/** Messages of `sizes` records, whose values count up over all. */
function tableOf(sizes: readonly number[]) {
  let value = 0
  const messages: TestMessage[] = sizes.map((size, offset) => ({
    offset,
    records: Array.from({ length: size }, () => ({ value: value++ })),
  }))
  return encodeWithTexts(batchOf(0, sizes.length, messages), [1]).tables[0]!
}

test.each([true, false, 'foreign'] as const)(
  'every valid message is stored and every invalid one found, as a whole (the server names lines: %s)',
  async namesLine => {
    const arbitrary = fc.record({
      sizes: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 40 }),
      bad: fc.oneof(
        fc.constant(new Set<number>()),
        fc.array(fc.nat(80)).map(some => new Set(some)),
        fc.constant(new Set(Array(160).keys())),
      ),
      leftOut: fc.array(fc.nat(40), { maxLength: 5 }).map(some => new Set(some)),
    })
    await fc.assert(
      fc.asyncProperty(arbitrary, async ({ sizes, bad, leftOut }) => {
        const store = refusing(value => bad.has(value), namesLine)
        const rejections = await copyTable(store.transaction, 't', tableOf(sizes), leftOut)
        const good: number[] = []
        const refused: number[] = []
        let value = 0
        for (const [message, size] of sizes.entries()) {
          const values = Array.from({ length: size }, () => value++)
          if (leftOut.has(message)) continue
          if (values.some(value => bad.has(value))) refused.push(message)
          else good.push(...values)
        }
        expect(store.kept).toEqual(good)
        expect(rejections.map(rejection => rejection.message).sort((a, b) => a - b)).toEqual(refused)
      }),
      { numRuns: 300 },
    )
  },
)

test('10,000 refused messages cost a few rows each, not the whole batch', async () => {
  const store = refusing(() => true, true)
  expect(await copyTable(store.transaction, 't', tableOf(Array<number>(10_000).fill(1)), new Set())).toHaveLength(10_000)
  expect(store.sent().copies).toBe(10_000)
  expect(store.sent().rowsSent).toBeLessThan(10_000 * 5)
})

test('one refused message among 10,000 causes the others to be sent about twice', async () => {
  const store = refusing(value => value === 9_000, true)
  expect(await copyTable(store.transaction, 't', tableOf(Array<number>(10_000).fill(1)), new Set())).toHaveLength(1)
  expect(store.sent().rowsSent).toBeLessThan(20_001)
  expect(store.sent().copies).toBeLessThan(15)
})

test.each([
  ['22021', true],
  ['54000', true],
  ['22P03', false],
  ['22P04', false],
  ['54001', false],
  ['23505', false],
  ['', false],
])('SQLSTATE "%s" is about the data: %s', (sqlState, isData) => {
  expect(isDataError(new DatabaseError('x', { sqlState, cause: undefined }))).toBe(isData)
})
