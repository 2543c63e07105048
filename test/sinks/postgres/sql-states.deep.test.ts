// What each answer of PostgreSQL means: of those that a real server can be brought to.

import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Database, DatabaseError, isTransient } from '../../../database/database.ts'
import { openServer, type ServerOptions } from '../../../database/server.ts'
import { errorRows, meaningOf } from '../../../sinks/postgres/errors.ts'
import { classify, openSink } from '../../../sinks/postgres/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { openProxy } from '../../servers/process/proxy.ts'
import { batchOf, plain, plainBatch } from '../batches.ts'
import { options } from './store.ts'

const signal = new AbortController().signal
const ignoreRefused = async () => undefined
const identity = { options, logs: [{ logName: 'messages', logId: 'id-1', writer: 'writer-1' }] }

test('the port and the sink agree on what is transient', () => {
  for (const { key, meaning } of errorRows)
    expect(isTransient(key === 'none' ? '' : String(key).padEnd(5, '0')), String(key)).toBe(meaning === 'transient')
})

test.each([
  ['22021', 'data'],
  ['22P05', 'data'],
  ['22P03', 'systemic'],
  ['54000', 'data'],
  ['54001', 'systemic'],
  ['42P01', 'systemic'],
  ['P0001', 'systemic'],
  ['XX002', 'systemic'],
  ['0A000', 'systemic'],
  ['57P01', 'transient'],
])('%s is %s', (state, meaning) => {
  expect(meaningOf(state)).toBe(meaning)
})

describeWithOwnPostgres('answers of a server', postgres => {
  let url: string
  let operator: Database
  const opened: Database[] = []
  const connect = async (some: Partial<ServerOptions> = {}) => {
    const database = await openServer({ url, applicationName: 'test', connectionsMax: 3, ...some })
    opened.push(database)
    return database
  }
  const open = async (database: Database) => withNumbers(openSink({ database, ...identity }))

  beforeEach(async () => {
    url = await postgres.createDatabase()
    operator = await connect()
  })
  afterEach(async () => {
    for (const database of opened.splice(0)) await database.close()
  })

  /** What the write of one record throws. */
  async function failureOf(sink: Awaited<ReturnType<typeof open>>, batch = plainBatch(0, 1)): Promise<DatabaseError> {
    const error = await sink.write(sink.encode(batch), ignoreRefused, signal).then(
      () => 'it was written',
      (error: unknown) => error,
    )
    expect(error).toBeInstanceOf(DatabaseError)
    return error as DatabaseError
  }

  const expectTransient = (error: DatabaseError, sqlState: string | RegExp) => {
    expect(error.sqlState).toMatch(sqlState)
    expect(classify(error)).toBe('transient')
  }

  describe('transient: the next attempt stores the same batch', () => {
    test('a connection that is cut (no SQLSTATE)', async () => {
      const proxy = await openProxy({ port: Number(new URL(url).port) })
      const sink = await open(await connect({ url: url.replace(/:\d+\//, `:${proxy.port}/`) }))
      const encoded = sink.encode(plainBatch(0, 2_000))
      void proxy.cutAfter(50_000)
      const error = await sink.write(encoded, ignoreRefused, signal).catch((error: unknown) => error as DatabaseError)
      expectTransient(error as DatabaseError, /^$/)
      await sink.write(encoded, ignoreRefused, signal)
      expect(await operator.query('SELECT count(*)::int FROM messages')).toEqual([{ count: 2_000 }])
      await proxy.close()
    })

    test('a read-only server (25006)', async () => {
      const database = await connect()
      const sink = await open(database)
      await operator.execute(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = on`)
      await operator.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      )
      // The pool learns of its ended connections when it uses them.
      await database.query('SELECT 1').catch(() => undefined)
      expectTransient(await failureOf(sink), '25006')
      await operator.execute(`ALTER DATABASE ${new URL(url).pathname.slice(1)} RESET default_transaction_read_only`)
    })

    test('a deadlock (40P01)', async () => {
      const sink = await open(await connect())
      await sink.write(sink.encode(plainBatch(0, 1)), ignoreRefused, signal)
      const other = await connect()
      const encoded = sink.encode(plainBatch(1, 2))
      const failed = await other.transaction(async transaction => {
        // The sink's connection is to be the one that finds out.
        await transaction.execute(`SET LOCAL deadlock_timeout = '1min'; LOCK TABLE sluice.records IN EXCLUSIVE MODE`)
        const writing = sink.write(encoded, ignoreRefused, signal).catch((error: unknown) => error as DatabaseError)
        await expect
          .poll(() =>
            operator.query(`SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'sluice writer-1/%' AND wait_event_type = 'Lock'`),
          )
          .toHaveLength(1)
        await transaction.query('SELECT FROM sluice.offsets FOR UPDATE')
        return await writing
      })
      expectTransient(failed as DatabaseError, '40P01')
      await sink.write(encoded, ignoreRefused, signal)
    })

    test('too many connections (53300)', async () => {
      const sink = await open(operator)
      await sink.close()
      await operator.execute('DROP ROLE IF EXISTS crowded; CREATE ROLE crowded LOGIN CONNECTION LIMIT 0')
      const error = await open(await connect({ url: url.replace('postgres@', 'crowded@') })).catch((error: unknown) => error)
      expectTransient(error as DatabaseError, '53300')
    })

    test.each([
      ['a statement timeout (57014)', { statementTimeoutMs: 3_000 }, '57014'],
      ['a lock that is not had in time (55P03)', {}, '55P03'],
    ])('%s', async (_what, some, sqlState) => {
      // What a start creates is there, so that only the write can meet the limit.
      await (await open(operator)).close()
      const database = await connect(some)
      const sink = await withNumbers(
        openSink({ database, ...identity, options: { ...options, lockTimeoutMs: sqlState === '55P03' ? 200 : 10_000 } }),
      )
      const encoded = sink.encode(plainBatch(0, 1))
      const failed = await operator.transaction(async transaction => {
        await transaction.execute('LOCK TABLE sluice.records IN EXCLUSIVE MODE')
        return await sink.write(encoded, ignoreRefused, signal).catch((error: unknown) => error as DatabaseError)
      })
      expectTransient(failed as DatabaseError, sqlState)
      await sink.write(encoded, ignoreRefused, signal)
    })

    test('a server that is shut down and comes back (57P01, then no connection)', async () => {
      const sink = await open(await connect())
      const encoded = sink.encode(plainBatch(0, 1))
      const failed = operator.transaction(async transaction => {
        await transaction.execute('LOCK TABLE sluice.records IN EXCLUSIVE MODE')
        const writing = sink.write(encoded, ignoreRefused, signal).catch((error: unknown) => error as DatabaseError)
        await postgres.restart()
        return await writing
      })
      await failed.catch(() => undefined)
      expect(await sink.write(encoded, ignoreRefused, signal)).toMatchObject([{ received: 1 }])
    })

    test('a missing file of the server (58P01)', async () => {
      const sink = await open(await connect())
      const document = (offset: number) => batchOf(offset, offset + 1, [{ offset, documents: [{ format: 'engine', payload: {} }] }])
      await sink.write(sink.encode(document(0)), ignoreRefused, signal)
      const [file] = await operator.query<{ path: string }>(`SELECT pg_relation_filepath(tableoid) AS path FROM formats.engine`)
      await operator.execute('CHECKPOINT')
      await operator.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      )
      await rm(join(postgres.folder, 'data', file!.path))
      await postgres.restart()
      expectTransient(await failureOf(sink, document(1)), /58P01|57P01|^$/)
      expectTransient(await failureOf(sink, document(1)), '58P01')
    })
  })

  describe('systemic: the writer stops', () => {
    test.each([
      ['a role that does not exist (28000)', () => url.replace('postgres@', 'nobody@'), '28000'],
      ['a database that does not exist (3D000)', () => url.replace(/[^/]*$/, 'nowhere'), '3D000'],
    ])('%s', async (_what, elsewhere, sqlState) => {
      const error = await open(await connect({ url: elsewhere() })).catch((error: unknown) => error)
      expect(error).toMatchObject({ sqlState })
      expect(classify(error)).toBe('systemic')
    })

    test.each([
      ['a constraint (23514)', 'ALTER TABLE sluice.records ADD CHECK (value < 0)', '23514'],
      ['a missing column (42703)', 'ALTER TABLE sluice.records DROP COLUMN sum CASCADE', '42703'],
      ['a missing table (42P01)', 'DROP TABLE sluice.records CASCADE', '42P01'],
      ['a column of another type (22P03)', 'DROP VIEW messages CASCADE; ALTER TABLE sluice.records ALTER COLUMN value TYPE int', '22P03'],
      [
        'a trigger that refuses (P0001)',
        `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
         CREATE TRIGGER refuse BEFORE INSERT ON sluice.records FOR EACH ROW EXECUTE FUNCTION refuse()`,
        'P0001',
      ],
    ])('%s', async (_what, change, sqlState) => {
      const sink = await open(await connect())
      await operator.execute(change)
      const error = await failureOf(sink, batchOf(0, 1, [plain(0)]))
      expect(error.sqlState).toBe(sqlState)
      expect(classify(error)).toBe('systemic')
    })
  })
})
