// Prepared statements on a server: planned for each query's values, correct behind a pooler, and bounded if columns change.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import type { Database } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { describeWithOwnPostgres } from '../servers/postgres.ts'

describeWithOwnPostgres('prepared statements', postgres => {
  const opened: { close(): unknown }[] = []
  const open = async (connectionsMax = 1, url = postgres.url, how: object = { plansEach: true }): Promise<Database> => {
    const database = await openServer({ url, applicationName: 'sluice test', connectionsMax, ...how })
    opened.push(database)
    return database
  }
  afterEach(async () => {
    for (const each of opened.splice(0)) await each.close()
  })

  const asked = 'SELECT $1::int4 + 1 AS sum'
  const ask = async (database: Database, times: number): Promise<void> => {
    for (let nth = 0; nth < times; nth++) expect(await database.query(asked, [nth])).toEqual([{ sum: nth + 1 }])
  }
  const plansOf = (database: Database): Promise<unknown> =>
    database.query('SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement = $1', [asked])
  const changing = 'SELECT *, pg_sleep(0.05)::text AS slept FROM changing'
  const createChanging = (database: Database): Promise<void> =>
    database.execute('DROP TABLE IF EXISTS changing; CREATE TABLE changing (a int4); INSERT INTO changing VALUES (1)')
  const changeType = (database: Database): Promise<void> => database.execute('ALTER TABLE changing ALTER a TYPE text')

  test('a repeated statement is prepared once, and planned for the values of each', async () => {
    const database = await open()
    await ask(database, 9)
    expect(await plansOf(database)).toEqual([{ custom_plans: 8n, generic_plans: 0n }])
  })

  test('on request it is planned once for all, although no plan is good for all values', async () => {
    const database = await open(1, postgres.url, { prepares: true })
    await ask(database, 9)
    // PostgreSQL plans five times for the values before it compares.
    expect(await plansOf(database)).toEqual([{ custom_plans: 5n, generic_plans: 3n }])
    expect(await database.query('SHOW jit')).toEqual([{ jit: 'off' }])
  })

  test('a statement with an error of its own fails each time', async () => {
    const database = await open()
    for (let nth = 0; nth < 4; nth++) await expect(database.query('SELECT 1 / $1::int4', [0])).rejects.toMatchObject({ sqlState: '22012' })
  })

  test('if a connection has lost its prepared statements, everything is sent unprepared from then on', async () => {
    const database = await open()
    await ask(database, 3)
    // As a connection that another client of a pooler has used.
    await database.execute('DEALLOCATE ALL')
    await ask(database, 3)
    expect(await plansOf(database)).toEqual([])
  })

  describe('behind a pooler', () => {
    const openBoth = async (): Promise<{ one: Database; other: Database; swap: () => void }> => {
      const pooler = await openPooler(Number(new URL(postgres.url).port))
      const url = postgres.url.replace(`:${new URL(postgres.url).port}`, `:${pooler.port}`)
      const [one, other] = [await open(1, url), await open(1, url)]
      opened.push(pooler)
      return { one, other, swap: pooler.swap }
    }

    test.each([
      ['as many', 'SELECT $1::int4 * 10 AS product', [3]],
      ['other', 'SELECT $1::int4 * $2::int4 AS product', [3, 10]],
    ])('two clients with different queries, with %s parameters, each get their own answers', async (_how, product, factors) => {
      const { one, other, swap } = await openBoth()
      await ask(one, 3)
      for (let nth = 0; nth < 3; nth++) expect(await other.query(product, factors)).toEqual([{ product: 30 }])
      swap()
      await ask(one, 3)
      for (let nth = 0; nth < 3; nth++) expect(await other.query(product, factors)).toEqual([{ product: 30 }])
    })

    test('a statement prepared by another client from the same text is used', async () => {
      const { one, other, swap } = await openBoth()
      await ask(one, 5)
      await ask(other, 2)
      swap()
      await ask(one, 1)
      expect(await plansOf(one)).toEqual([{ custom_plans: 2n, generic_plans: 0n }])
    })

    test('a connection on which another client has prepared the text works too', async () => {
      const { one, other, swap } = await openBoth()
      await ask(one, 3)
      await other.query('SELECT 1')
      swap()
      await ask(other, 3)
      await ask(one, 3)
    })

    test('after columns changed the query is repeated without a name', async () => {
      const { one, other, swap } = await openBoth()
      await createChanging(one)
      const all = async (database: Database): Promise<unknown> => (await database.query(changing))[0]?.['a']
      for (const database of [one, one, other, other]) expect(await all(database)).toBe(1)
      await changeType(one)
      expect(await all(other)).toBe('1')
      swap()
      expect(await all(one)).toBe('1')
    })
  })

  describe('a table whose columns changed their types', () => {
    const all = async (database: Database): Promise<unknown> => (await database.query(changing))[0]?.['a']

    test('is queried again', async () => {
      const database = await open()
      await createChanging(database)
      for (let nth = 0; nth < 3; nth++) expect(await all(database)).toBe(1)
      await changeType(database)
      for (let nth = 0; nth < 3; nth++) expect(await all(database)).toBe('1')
    })

    test('is queried unprepared from then on, however many fail together', async () => {
      const database = await open(4)
      const fourTimes = <Result>(work: () => Promise<Result>): Promise<Result[]> => Promise.all(Array.from({ length: 4 }, work))
      await createChanging(database)
      for (let nth = 0; nth < 3; nth++) expect(await fourTimes(() => all(database))).toEqual([1, 1, 1, 1])
      await changeType(database)
      for (let nth = 0; nth < 3; nth++) expect(await fourTimes(() => all(database))).toEqual(['1', '1', '1', '1'])
      const kept = await fourTimes(() =>
        database.query('SELECT count(*), pg_sleep(0.05)::text AS slept FROM pg_prepared_statements WHERE statement = $1', [changing]),
      )
      expect(kept.map(([row]) => row?.['count'])).toEqual([1n, 1n, 1n, 1n])
    })
  })

  test('a statement that fails with 0A000 by itself fails each time, and leaves at most one on a connection', async () => {
    const database = await open()
    await database.execute(`CREATE OR REPLACE FUNCTION refused() RETURNS int4 LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '0A000'; END $$`)
    for (let nth = 0; nth < 20; nth++) await expect(database.query('SELECT refused()')).rejects.toMatchObject({ sqlState: '0A000' })
    expect(await database.query("SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT refused()'")).toEqual([
      { count: 1n },
    ])
  })
})

/** A pooler in transaction mode with two clients: `swap`, between statements, exchanges their connections to the server. */
async function openPooler(target: number): Promise<{ port: number; swap: () => void; close(): void }> {
  const clients: Socket[] = []
  const upstreams: Socket[] = []
  const server = createServer(client => {
    const at = clients.push(client) - 1
    const upstream = connect(target, '127.0.0.1')
    upstreams.push(upstream)
    client.on('data', bytes => upstreams[at]!.write(bytes))
    upstream.on('data', bytes => clients[upstreams.indexOf(upstream)]!.write(bytes))
    for (const socket of [client, upstream]) socket.on('error', () => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    swap: () => {
      upstreams.reverse()
    },
    close: () => {
      for (const socket of [...clients, ...upstreams]) socket.destroy()
      server.close()
    },
  }
}
