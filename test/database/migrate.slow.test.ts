// Migrations, on both drivers.

import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Database, DatabaseError } from '../../database/database.ts'
import { openEmbedded } from '../../database/embedded/embedded.ts'
import { migrate } from '../../database/migrate.ts'
import { openServer } from '../../database/server.ts'
import { embeddedFolder } from '../servers/embedded.ts'
import { describeWithOwnPostgres } from '../servers/postgres.ts'

let folder: string
const schema = 'Green house'
const table = 'migrations'
const options = (): Parameters<typeof migrate>[1] => ({ folder, schema, table })

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-migrations-'))
  await file('0001-plants.sql', '-- The plants.\nCREATE TABLE plants (id int4);\nINSERT INTO plants VALUES (1);')
  await file('0002-names.sql', 'ALTER TABLE plants ADD COLUMN name text;')
  await file('README.md', 'Not a migration.')
})
afterEach(() => rm(folder, { recursive: true }))

function file(name: string, content: string): Promise<void> {
  return writeFile(join(folder, name), content)
}

function behaviours(open: () => Promise<Database>): void {
  let database: Database
  beforeAll(async () => {
    database = await open()
  })
  afterAll(() => database.close())
  beforeEach(() => database.execute(`DROP SCHEMA IF EXISTS "Green house" CASCADE`))
  const columns = async (): Promise<unknown[]> =>
    (
      await database.query(
        'SELECT column_name FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position',
        [schema, 'plants'],
      )
    ).map(row => row['column_name'])

  test('all are applied in order, in the schema that they do not name', async () => {
    expect(await migrate(database, options())).toEqual(['0001-plants', '0002-names'])
    expect(await columns()).toEqual(['id', 'name'])
  })

  test('if all are applied it is one query', async () => {
    await migrate(database, options())
    const asked: string[] = []
    const watched: Database = {
      ...database,
      query: (sql, values) => {
        asked.push(sql)
        return database.query(sql, values)
      },
      transaction: () => Promise.reject(new Error('a transaction where nothing is pending')),
    }
    expect(await migrate(watched, options())).toEqual([])
    expect(asked).toHaveLength(1)
  })

  test('only new ones are applied', async () => {
    await migrate(database, options())
    await file('0010-height.sql', 'SELECT 1; ALTER TABLE plants ADD COLUMN height float8')
    expect(await migrate(database, options())).toEqual(['0010-height'])
    expect(await columns()).toEqual(['id', 'name', 'height'])
  })

  test('a failed one is named, and none of the pending ones is applied', async () => {
    await file('0003-wrong.sql', 'ALTER TABLE plants ADD COLUMN name text;')
    const error = await migrate(database, options()).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(DatabaseError)
    expect(error).toMatchObject({
      sqlState: '42701',
      message: expect.stringContaining('the migration 0003-wrong of the schema Green house failed') as string,
    })
    expect(await columns()).toEqual([])
  })

  test('a database of a newer version is refused with an error, and not changed', async () => {
    await file('0003-newer.sql', 'ALTER TABLE plants ADD COLUMN newer text')
    await migrate(database, options())
    await rm(join(folder, '0003-newer.sql'))
    await file('0004-other.sql', 'DROP TABLE plants')
    await expect(migrate(database, options())).rejects.toThrow(
      /has the migration 0003-newer, which this release does not know: .*Start that release/,
    )
    expect(await columns()).toEqual(['id', 'name', 'newer'])
  })

  test('a name with quotes is refused, because it is put into SQL', async () => {
    await expect(migrate(database, { ...options(), schema: 'a"b' })).rejects.toThrow(/letters, digits, spaces/)
    await expect(migrate(database, { ...options(), table: "a'b" })).rejects.toThrow(/letters, digits, spaces/)
  })

  test('a connection keeps its search path', async () => {
    const before = await database.query('SHOW search_path')
    await migrate(database, options())
    expect(await database.query('SHOW search_path')).toEqual(before)
  })
}

describe('embedded', () => {
  behaviours(async () => {
    const folder = await embeddedFolder()
    const database = await openEmbedded({ folder: folder.path })
    return { ...database, close: () => database.close().then(() => folder.remove()) }
  })
})

describeWithOwnPostgres('server', postgres => {
  behaviours(async () => openServer({ url: await postgres.createDatabase(), applicationName: 'migrate', connectionsMax: 1 }))

  test('of ten that start together one applies them, and the others wait for it', async () => {
    const url = await postgres.createDatabase()
    await file('0003-slow.sql', 'SELECT pg_sleep(0.3); CREATE TABLE slow (id int4);')
    const databases = await Promise.all(
      Array.from({ length: 10 }, () => openServer({ url, applicationName: 'migrate', connectionsMax: 1, lockTimeoutMs: 50 })),
    )
    const applied = await Promise.all(databases.map(database => migrate(database, options())))
    expect(applied.map(names => names.length).sort((a, b) => a - b)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 3])
    await Promise.all(databases.map(database => database.close()))
  })

  test('one that waits for another waits on the same connection for longer than a statement may take', async () => {
    const url = await postgres.createDatabase()
    const [holder, waiter] = await Promise.all(
      ['holder', 'waiter'].map(applicationName => openServer({ url, applicationName, connectionsMax: 2, statementTimeoutMs: 60_000 })),
    )
    let migrating: Promise<string[]> | undefined
    await holder!.transaction(async transaction => {
      await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('migrations of ${schema}.${table}', 0))`)
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      migrating = migrate(waiter!, options())
      migrating.catch(() => undefined)
      const waiting = `SELECT pid FROM pg_stat_activity WHERE application_name = 'waiter' AND wait_event = 'advisory'`
      while ((await holder!.query(waiting)).length === 0) await once(AbortSignal.timeout(5), 'abort')
      await vi.advanceTimersByTimeAsync(3_600_000)
      vi.useRealTimers()
    })
    expect(await migrating).toHaveLength(2)
    await Promise.all([holder!.close(), waiter!.close()])
  })

  test('a role with read access is enough if all are applied, and otherwise the error says what it lacks', async () => {
    const url = await postgres.createDatabase()
    const owner = await openServer({ url, applicationName: 'owner', connectionsMax: 1 })
    await migrate(owner, options())
    await owner.execute(
      `CREATE ROLE reader LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
       GRANT USAGE ON SCHEMA "Green house" TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA "Green house" TO reader`,
    )
    const reader = await openServer({ url: url.replace('postgres@', 'reader@'), applicationName: 'reader', connectionsMax: 1 })
    expect(await migrate(reader, options())).toEqual([])
    await file('0003-more.sql', 'CREATE TABLE more (id int4)')
    await expect(migrate(reader, options())).rejects.toMatchObject({ sqlState: '42501' })
    await reader.close()
    await owner.close()
  })

  test('an existing schema is used', async () => {
    const url = await postgres.createDatabase()
    const database = await openServer({ url, applicationName: 'migrate', connectionsMax: 1 })
    await database.execute(`CREATE ROLE keeper LOGIN; CREATE SCHEMA "Green house" AUTHORIZATION keeper`)
    const keeper = await openServer({ url: url.replace('postgres@', 'keeper@'), applicationName: 'keeper', connectionsMax: 1 })
    expect(await migrate(keeper, options())).toHaveLength(2)
    await keeper.close()
    await database.close()
  })

  test('a server that is away is a transient error', async () => {
    const database = await openServer({ url: 'postgres://127.0.0.1:1/none', applicationName: 'migrate', connectionsMax: 1 })
    await expect(migrate(database, options())).rejects.toMatchObject({ sqlState: '', transient: true })
    await database.close()
  })
})
