// Which rows a store did not take is found, whatever it says of them: against a store of the test's own, so that every answer can be had.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Connection } from '../../../sinks/mongodb/connection.ts'
import { type EncodedTable, encode } from '../../../sinks/mongodb/encode.ts'
import type { WriteError } from '../../../sinks/mongodb/errors.ts'
import { insertRows, outcomeOf, type RowErrors } from '../../../sinks/mongodb/insert.ts'
import { classify } from '../../../sinks/mongodb/sink.ts'
import { batchOf } from '../batches.ts'

const { signal } = new AbortController()

/** As the driver throws it. */
function serverError(code: number, message = 'refused'): Error {
  return Object.assign(new Error(message), { name: 'MongoServerError', code, hasErrorLabel: () => false })
}

/** How many documents lie one behind the other. */
function lengthsOf(documents: Uint8Array): number[] {
  const lengths: number[] = []
  const view = new DataView(documents.buffer, documents.byteOffset, documents.byteLength)
  for (let at = 0; at < documents.length; at += lengths.at(-1)!) lengths.push(view.getInt32(at, true))
  return lengths
}

/** The value of each row tells which it is. */
function tableOf(rows: number): EncodedTable {
  const messages = Array.from({ length: rows }, (_, offset) => ({ offset, records: [{ name: `row-${offset}.`, value: 1 }] }))
  return encode(batchOf(0, rows, messages), [1]).tables[0]!
}

function rowsIn(documents: Uint8Array): number[] {
  return [
    ...Buffer.from(documents)
      .toString('latin1')
      .matchAll(/row-(\d+)\./g),
  ].map(([, row]) => Number(row))
}

interface Sent {
  readonly rows: number[]
}

function connectionOf(answer: (rows: number[]) => WriteError[] | Promise<WriteError[]>, sent: Sent[] = []): Connection {
  return {
    insert: async (_collection: string, documents: Uint8Array) => {
      const rows = rowsIn(documents)
      expect(lengthsOf(documents)).toHaveLength(rows.length)
      sent.push({ rows })
      return await answer(rows)
    },
  } as unknown as Connection
}

async function insert(
  table: EncodedTable,
  connection: Connection,
  { leftOut = new Set<number>(), probe = async () => undefined, writesInFlight = 4 } = {},
): Promise<RowErrors> {
  return await insertRows({ connection, targets: [{ table, collection: 'messages' }], leftOut, writesInFlight, probe, signal })
}

describe('pieces', () => {
  test('have at most 1,000 rows, without those that are left out, with a limited number in flight', async () => {
    const table = tableOf(4_500)
    const leftOut = new Set([0, 7, 1_500, 4_499])
    const sent: Sent[] = []
    let [inFlight, most] = [0, 0]
    const connection = connectionOf(async () => {
      most = Math.max(most, ++inFlight)
      await new Promise(setImmediate)
      inFlight--
      return []
    }, sent)
    await insert(table, connection, { leftOut, writesInFlight: 3 })
    expect(sent.map(({ rows }) => rows.length)).toEqual([1000, 1000, 1000, 1000, 496])
    const expected = Array.from({ length: 4_500 }, (_, row) => row).filter(row => !leftOut.has(row))
    expect(sent.flatMap(({ rows }) => rows).sort((one, other) => one - other)).toEqual(expected)
    expect(most).toBe(3)
  })

  test('after a failure nothing more is sent, and inserts in flight are waited for', async () => {
    const sent: Sent[] = []
    let waited = false
    const connection = connectionOf(async rows => {
      if (rows[0] === 0) throw serverError(10_107)
      await new Promise(setImmediate)
      waited = true
      return []
    }, sent)
    await expect(insert(tableOf(10_000), connection, { writesInFlight: 2 })).rejects.toMatchObject({ code: 10_107 })
    expect([sent.length, waited]).toEqual([2, true])
  })
})

describe('refused rows', () => {
  test('are those that the server names by index, whatever was left out before them', async () => {
    const connection = connectionOf(rows =>
      rows.flatMap((row, index) => (row % 100 === 7 ? [{ index, code: 121, errmsg: 'validation' }] : [])),
    )
    const table = tableOf(2_200)
    const errors = await insert(table, connection, { leftOut: new Set([3, 107, 1_001]) })
    const expected = Array.from({ length: 22 }, (_, nth) => nth * 100 + 7).filter(row => row !== 107)
    expect([...errors.get(table)!.keys()].sort((one, other) => one - other)).toEqual(expected)
  })

  test('are found by halving, and no others, if the server refuses the whole command', async () => {
    const few = fc.uniqueArray(fc.nat(59), { maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(few, async culprits => {
        const bad = new Set(culprits)
        const connection = connectionOf(rows => {
          if (rows.some(row => bad.has(row))) throw serverError(22, 'not BSON')
          return []
        })
        const table = tableOf(60)
        const errors = await insert(table, connection)
        expect([...(errors.get(table)?.keys() ?? [])].sort((one, other) => one - other)).toEqual([...bad].sort((one, other) => one - other))
      }),
    )
  })

  test('are none if the server also refuses a valid insert', async () => {
    const probe = async (): Promise<undefined> => Promise.reject(serverError(2, 'wrong option'))
    const connection = connectionOf(() => Promise.reject(serverError(2)))
    const thrown: unknown = await insert(tableOf(10), connection, { probe }).catch((error: unknown) => error)
    expect([classify(thrown), String(thrown)]).toEqual(['systemic', 'MongoServerError: wrong option'])
  })
})

describe('the outcome of a message', () => {
  const looked: unknown[] = []
  let unique = true
  const command = async () => ({ cursor: { firstBatch: [{ key: { _id: 1 } }, { key: { serial: 1 }, unique }] } })
  const database = {
    collection: () => ({
      find: ({ _id: { $in: rowIds } }: { _id: { $in: Uint8Array[] } }) => {
        looked.push(...rowIds)
        return { toArray: async () => [] }
      },
    }),
  }
  const outcome = (errors: [number, Partial<WriteError>][]) => {
    const table = tableOf(3)
    const tableErrors = new Map(errors.map(([row, error]) => [row, { index: 0, code: 11_000, errmsg: 'E11000', ...error }]))
    looked.length = 0
    const targets = [{ table, collection: 'messages' }]
    return outcomeOf({ command, database } as unknown as Connection, targets, new Map([[table, tableErrors]]), new Set(), signal)
  }

  test('a duplicate of the _id, according to the server, needs no lookup', async () => {
    const { duplicates, rejections } = await outcome([[1, { keyPattern: { _id: 1 } }]])
    expect([[...duplicates], rejections, looked.length]).toEqual([[1], [], 0])
  })

  test.each([
    ['of another index', { keyPattern: { serial: 1 } }],
    ['of an index that the _id is a part of', { keyPattern: { _id: 1, serial: 1 } }],
    ['in an unknown index', {}],
  ])('a duplicate %s is looked up, and refused if its _id does not exist', async (_which, error) => {
    const { duplicates, rejections } = await outcome([[2, error]])
    expect([[...duplicates], looked.length]).toEqual([[], 1])
    expect(rejections).toEqual([expect.objectContaining({ message: 2, record: 0, rule: 'store-refused' })])
  })

  test('a duplicate in an unknown index is of the _id if no other index is unique', async () => {
    unique = false
    const { duplicates, rejections } = await outcome([[2, {}]]).finally(() => (unique = true))
    expect([[...duplicates], rejections, looked.length]).toEqual([[2], [], 0])
  })

  test("a long row in a server's message is not quoted in full", async () => {
    const { rejections } = await outcome([[2, { errmsg: `invalid: ${'😀'.repeat(10_000)}` }]])
    expect(rejections[0]!.reason.length).toBeLessThan(600)
    expect(rejections[0]!.reason.isWellFormed()).toBe(true)
  })

  test.each([
    [91, 'transient'],
    [14_031, 'transient'],
    [13, 'systemic'],
    [4_711, 'systemic'],
  ])('a row that is not inserted with code %i is an error of the write: %s', async (code, errorClass) => {
    const thrown: unknown = await outcome([[0, { code }]]).catch((error: unknown) => error)
    expect(classify(thrown)).toBe(errorClass)
  })
})
