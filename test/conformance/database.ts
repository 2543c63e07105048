// The conformance suite of the database interface, for a server and the embedded database (database/database.ts).
// Longer than most files: one contract, whose tests share one table and are read as a list.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Database, DatabaseError } from '../../database/database.ts'
import { binaryRows, int4, text } from './binary-rows.ts'

/** @param open opens a separate database for this suite, which closes it */
export function databaseConformance(name: string, open: () => Promise<Database>): void {
  describe(name, () => {
    let database: Database

    beforeAll(async () => {
      database = await open()
    })
    afterAll(() => database.close())
    beforeEach(async () => {
      await database.execute(
        'DROP TABLE IF EXISTS plants; CREATE TABLE plants (id int4 PRIMARY KEY, name text NOT NULL CHECK (name <> $$weed$$))',
      )
    })

    const names = async (): Promise<unknown[]> => (await database.query('SELECT name FROM plants ORDER BY id')).map(row => row['name'])
    const failureOf = async (work: Promise<unknown>): Promise<DatabaseError> => {
      const error = await work.then(
        () => undefined,
        (error: unknown) => error,
      )
      expect(error).toBeInstanceOf(DatabaseError)
      return error as DatabaseError
    }

    describe('values', () => {
      test.each([
        ['int8', 9_223_372_036_854_775_807n],
        ['int8', -9_223_372_036_854_775_808n],
        ['int8', 0n],
        ['int4', -2_147_483_648],
        ['float8', 0.1],
        ['float8', Number.NaN],
        ['float8', Number.NEGATIVE_INFINITY],
        ['float8', -0],
        ['float8', 5e-324],
        ['bool', false],
        ['bool', true],
        ['text', ''],
        ['text', 'NULL'],
        ['text', `a 'b' "c" \\d\n\té 😀`],
        ['text', '\ufeff a byte order mark'],
        ['int8', null],
        ['jsonb', '{"a": 1234567890123456789}'],
        ['json', '{"b":1,  "a":2}'],
        ['timestamptz', '2026-01-31 23:59:59.123456+00'],
        ['date', '2026-01-31'],
        ['numeric', '1.10'],
        ['uuid', '0d3f6e0a-7a52-4c47-9d5b-6f4f2f9b1a11'],
        ['text[]', ['', 'a,b', '"quoted"', 'back\\slash', '{}', 'NULL', ' ']],
        ['int8[]', [9_223_372_036_854_775_807n, -1n]],
        ['int4[]', [1, -2]],
        ['float8[]', [1.5, -0]],
        ['text[]', []],
      ])('%s %o is returned unchanged', async (type, value) => {
        const [row] = await database.query(`SELECT $1::${type} AS value`, [value])
        expect(row?.['value']).toStrictEqual(value)
      })

      test('bytes are returned unchanged, and as bytes', async () => {
        const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
        const [row = {}] = await database.query('SELECT $1::bytea AS all, $2::bytea AS part, $3::bytea AS none', [
          bytes,
          bytes.subarray(10, 12),
          new Uint8Array(0),
        ])
        expect(row['all']).toBeInstanceOf(Uint8Array)
        expect([...(row['all'] as Uint8Array)]).toEqual([...bytes])
        expect([...(row['part'] as Uint8Array)]).toEqual([10, 11])
        expect([...(row['none'] as Uint8Array)]).toEqual([])
      })

      test('an array is a parameter of = ANY', async () => {
        await database.execute(`INSERT INTO plants VALUES (1, 'fern'), (2, 'moss'), (3, 'oak')`)
        const rows = await database.query('SELECT id FROM plants WHERE name = ANY($1::text[]) ORDER BY id', [['oak', 'fern']])
        expect(rows).toEqual([{ id: 1 }, { id: 3 }])
      })

      test("times are printed in UTC whatever the machine's zone", async () => {
        expect(await database.query(`SELECT timestamptz '2026-07-01 12:00:00+02' AS time`)).toEqual([{ time: '2026-07-01 10:00:00+00' }])
      })
    })

    describe('transactions', () => {
      test('committed rows are there afterwards', async () => {
        const result = await database.transaction(async transaction => {
          await transaction.query('INSERT INTO plants VALUES ($1, $2)', [1, 'fern'])
          return 'the result of the work'
        })
        expect(result).toBe('the result of the work')
        expect(await names()).toEqual(['fern'])
      })

      test('an error of the work rolls back and is thrown unchanged', async () => {
        const thrown = new Error('changed its mind')
        const work = database.transaction(async transaction => {
          await transaction.query('INSERT INTO plants VALUES ($1, $2)', [1, 'fern'])
          throw thrown
        })
        await expect(work).rejects.toBe(thrown)
        expect(await names()).toEqual([])
      })

      test('a failed statement rolls back everything, and the database stays usable', async () => {
        const error = await failureOf(
          database.transaction(async transaction => {
            await transaction.execute(`INSERT INTO plants VALUES (1, 'fern')`)
            await transaction.execute(`INSERT INTO plants VALUES (1, 'moss')`)
          }),
        )
        expect(error).toMatchObject({ sqlState: '23505', constraint: 'plants_pkey', transient: false })
        expect(await names()).toEqual([])
      })

      test('a failed statement whose error the work ignores is an error at the commit, because nothing is stored', async () => {
        const error = await failureOf(
          database.transaction(async transaction => {
            await transaction.execute(`INSERT INTO plants VALUES (1, 'fern')`)
            await transaction.execute('SELECT 1/0').catch(() => undefined)
          }),
        )
        expect(error.sqlState).toBe('25P02')
        expect(await names()).toEqual([])
      })

      test('after a failed statement a savepoint rolls back only its part', async () => {
        await database.transaction(async transaction => {
          await transaction.execute(`INSERT INTO plants VALUES (1, 'fern'); SAVEPOINT part`)
          const error = await failureOf(transaction.execute(`INSERT INTO plants VALUES (2, 'weed')`))
          expect(error).toMatchObject({ sqlState: '23514', constraint: 'plants_name_check' })
          await transaction.execute(`ROLLBACK TO SAVEPOINT part; INSERT INTO plants VALUES (3, 'oak')`)
        })
        expect(await names()).toEqual(['fern', 'oak'])
      })

      test('statements that are not awaited one by one run in the order of their calls', async () => {
        await database.transaction(async transaction => {
          await Promise.all(
            ['fern', 'moss', 'oak'].map((plant, at) => transaction.query('INSERT INTO plants VALUES ($1, $2)', [at, plant])),
          )
        })
        expect(await names()).toEqual(['fern', 'moss', 'oak'])
      })

      test('an ended transaction accepts nothing more', async () => {
        let kept: { query(sql: string): Promise<unknown> } | undefined
        await database.transaction(async transaction => {
          kept = transaction
        })
        await expect(kept?.query('SELECT 1')).rejects.toThrow(/transaction/i)
      })

      test('concurrent transactions do not mix', async () => {
        const insert = (id: number): Promise<void> =>
          database.transaction(async transaction => {
            await transaction.query('INSERT INTO plants VALUES ($1, $2)', [id, `plant ${id}`])
            await transaction.query('SELECT 1')
            if (id % 2 === 1) throw new Error('odd')
          })
        await Promise.allSettled([0, 1, 2, 3, 4, 5].map(insert))
        expect(await names()).toEqual(['plant 0', 'plant 2', 'plant 4'])
      })
    })

    describe('COPY', () => {
      const target = '"plants" ("id", "name")'
      const rows = (count: number, bad = 0): Uint8Array =>
        binaryRows(Array.from({ length: count }, (_, at) => [int4(at + 1), text(at + 1 === bad ? 'a\0b' : `plant ${at + 1}`)]))

      test('many rows are stored, and counted', async () => {
        expect(await database.transaction(transaction => transaction.copy(target, rows(20_000)))).toBe(20_000)
        expect(await database.query('SELECT count(*), min(id), max(id) FROM plants')).toEqual([{ count: 20_000n, min: 1, max: 20_000 }])
      })

      test('no rows are not an error', async () => {
        expect(await database.transaction(transaction => transaction.copy(target, rows(0)))).toBe(0)
      })

      test.each([1, 1_500, 3_000])('the error of row %i of 3000 names it', async bad => {
        const error = await failureOf(database.transaction(transaction => transaction.copy(target, rows(3_000, bad))))
        expect(error).toMatchObject({ sqlState: '22021', line: bad, transient: false })
        expect(await names()).toEqual([])
      })

      test('the error of a row that violates a constraint names it', async () => {
        const error = await failureOf(
          database.transaction(transaction =>
            transaction.copy(
              target,
              binaryRows([
                [int4(1), text('fern')],
                [int4(2), text('weed')],
                [int4(3), text('oak')],
              ]),
            ),
          ),
        )
        expect(error).toMatchObject({ sqlState: '23514', line: 2 })
      })

      test('the error for a table whose name looks like a line number names the row', async () => {
        await database.execute('CREATE TABLE IF NOT EXISTS "x, line 77" (id int4, name text)')
        const error = await failureOf(database.transaction(transaction => transaction.copy('"x, line 77"', rows(5, 4))))
        expect(error.line).toBe(4)
      })

      test('after a failed COPY, a savepoint and another COPY work', async () => {
        await database.transaction(async transaction => {
          await transaction.execute('SAVEPOINT batch')
          await failureOf(transaction.copy(target, rows(100, 50)))
          await transaction.execute('ROLLBACK TO SAVEPOINT batch')
          expect(await transaction.copy(target, rows(49))).toBe(49)
        })
        expect(await names()).toHaveLength(49)
      })

      test('20 MB with an error in the first row fail like a few rows', async () => {
        const long = 'x'.repeat(1_000)
        const many = binaryRows(Array.from({ length: 20_000 }, (_, at) => [int4(at), text(at === 0 ? '\0' : long)]))
        const error = await failureOf(database.transaction(transaction => transaction.copy(target, many)))
        expect(error).toMatchObject({ sqlState: '22021', line: 1 })
        expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
      })

      test('invalid COPY data is an error', async () => {
        const error = await failureOf(database.transaction(transaction => transaction.copy(target, new Uint8Array([1, 2, 3]))))
        expect(error.sqlState).toMatch(/^22P0/)
      })
    })

    describe('known steps', () => {
      const insert = (id: number, name: string) => ({ sql: 'INSERT INTO plants VALUES ($1, $2)', values: [id, name] })
      const target = '"plants" ("id", "name")'
      const copy = (...plants: [id: number, name: string][]) => ({
        target,
        binary: binaryRows(plants.map(([id, name]) => [int4(id), text(name)])),
      })

      test('run in order, as one transaction', async () => {
        await database.run([
          insert(1, 'fern'),
          copy([2, 'moss'], [3, 'oak']),
          { sql: `UPDATE plants SET name = name || $1::text WHERE id < 3`, values: ['!'] },
          copy(),
          insert(4, `'); DROP TABLE plants; --`),
        ])
        expect(await names()).toEqual(['fern!', 'moss!', 'oak', `'); DROP TABLE plants; --`])
        await database.run([])
      })

      test.each([
        ['a statement before a COPY', () => [insert(1, 'fern'), insert(1, 'moss'), copy([2, 'oak'])], { sqlState: '23505' }],
        ['a COPY', () => [insert(1, 'fern'), copy([2, 'moss'], [3, 'a\0b']), insert(4, 'oak')], { sqlState: '22021', line: 2 }],
        [
          'a statement behind a COPY',
          () => [copy([2, 'moss']), { sql: 'SELECT 1/0', values: [] }, copy([3, 'oak'])],
          { sqlState: '22012' },
        ],
        ['a COPY into nowhere', () => [insert(1, 'fern'), { ...copy([1, 'x']), target: 'nowhere' }], { sqlState: '42P01' }],
      ])('if one fails nothing is stored, and the database stays usable: %s', async (_which, steps, expected) => {
        expect(await failureOf(database.run(steps()))).toMatchObject(expected)
        expect(await names()).toEqual([])
        await database.run([insert(1, 'fern')])
        expect(await names()).toEqual(['fern'])
      })

      test('20 MB after a failed statement are skipped', async () => {
        const long = 'x'.repeat(1_000)
        const many = binaryRows(Array.from({ length: 20_000 }, (_, at) => [int4(at), text(long)]))
        expect(
          await failureOf(
            database.run([
              { sql: 'SELECT 1/0', values: [] },
              { target, binary: many },
            ]),
          ),
        ).toMatchObject({ sqlState: '22012' })
        await database.run([{ target, binary: many }])
        expect(await names()).toHaveLength(20_000)
      })

      test('with an aborted signal nothing is begun', async () => {
        const reason = new Error('not any more')
        await expect(database.run([insert(1, 'fern')], AbortSignal.abort(reason))).rejects.toBe(reason)
        await expect(database.transaction(async () => 'begun', AbortSignal.abort(reason))).rejects.toBe(reason)
        expect(await names()).toEqual([])
      })

      test('a transaction whose signal aborts is not committed, and the reason is thrown', async () => {
        const giveUp = new AbortController()
        const reason = new Error('not any more')
        const work = database.transaction(async transaction => {
          await transaction.query('INSERT INTO plants VALUES ($1, $2)', [1, 'fern'])
          giveUp.abort(reason)
        }, giveUp.signal)
        await expect(work).rejects.toBe(reason)
        expect(await names()).toEqual([])
      })
    })

    describe('errors', () => {
      test.each([
        ['SELECT 1/0', '22012', false],
        ['SELECT * FROM nowhere', '42P01', false],
        ['SELEC 1', '42601', false],
        [`INSERT INTO plants VALUES (1, NULL)`, '23502', false],
        [`DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`, '40001', true],
        [`DO $$ BEGIN RAISE SQLSTATE '53100'; END $$`, '53100', true],
      ])('%s is SQLSTATE %s', async (sql, sqlState, transient) => {
        const asQuery = await failureOf(database.query(sql))
        const asScript = await failureOf(database.execute(sql))
        for (const error of [asQuery, asScript]) expect(error).toMatchObject({ sqlState, transient, line: undefined })
        expect(asQuery.cause).toBeInstanceOf(Error)
      })

      test('the detail says more than the message', async () => {
        await database.execute(`INSERT INTO plants VALUES (7, 'fern')`)
        const error = await failureOf(database.execute(`INSERT INTO plants VALUES (7, 'fern')`))
        expect(error.detail).toBe('Key (id)=(7) already exists.')
      })
    })
  })

  test(`${name}: close waits for running work, and refuses later work`, async () => {
    const database = await open()
    const slow = database.transaction(async transaction => {
      await transaction.query('SELECT pg_sleep(0.2)::text')
      return 'done'
    })
    const asked = database.query('SELECT 1 AS one')
    const closed = database.close()
    await expect(database.query('SELECT 2')).rejects.toThrow(/closed/)
    expect(await slow).toBe('done')
    expect(await asked).toEqual([{ one: 1 }])
    await closed
    await expect(database.close()).resolves.toBeUndefined()
  })
}
