// The months that the table `messages` is divided into.

import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { tableStatements } from '../../../sinks/postgres/registry.ts'
import { maintain, migrateStore } from '../../../sinks/postgres/schema.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'

const insert = (time: string) =>
  `INSERT INTO messages (time, channel, subtopic, publisher, protocol, name, position, index) VALUES ('${time}', 'c', '', 'p', 'http', 'n', 1, 0);`

describeWithOwnPostgres('the months of the PostgreSQL store', postgres => {
  let url: string
  let database: Database
  const partitions = async () =>
    (
      await database.query<{ table: string; rows: string }>(
        'SELECT tableoid::regclass::text AS table, time::text AS rows FROM messages ORDER BY time',
      )
    ).map(row => `${row.table} ${row.rows}`)

  beforeEach(async () => {
    url = await postgres.createDatabase()
    database = await openServer({ url, applicationName: 'test', connectionsMax: 4 })
    await migrateStore(database)
  })
  afterEach(() => database.close())

  test('two months back and three ahead are created, across the turn of the year, and only once', async () => {
    const made = await maintain(database, { now: new Date('2026-12-31T23:59:59Z') })
    const months = ['2026_10', '2026_11', '2026_12', '2027_01', '2027_02', '2027_03']
    expect(made).toEqual(months.map(month => `messages_${month}`))
    expect(await maintain(database, { now: new Date('2026-12-31T23:59:59Z') })).toEqual([])
    expect(await maintain(database, { now: new Date('2027-01-01T00:00:00Z') })).toEqual(['messages_2027_04'])
  })

  test('a new month takes over its rows from the default partition, to the microsecond', async () => {
    const times = ['2025-12-31 23:59:59.999999+00', '2026-01-01 00:00:00+00', '2026-01-31 23:59:59.999999+00', '1999-01-01 00:00:00+00']
    await database.execute(times.map(insert).join(''))
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    expect(await partitions()).toEqual([
      'sluice.messages_default 1999-01-01 00:00:00+00',
      'sluice.messages_default 2025-12-31 23:59:59.999999+00',
      'sluice.messages_2026_01 2026-01-01 00:00:00+00',
      'sluice.messages_2026_01 2026-01-31 23:59:59.999999+00',
    ])
  })

  test('every table of rows is indexed by channel and by publisher, once', async () => {
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    const indexes = await database.query<{ table: string; keys: string }>(
      `SELECT tablename AS table, string_agg(substring(indexdef FROM 'btree (.*)$'), ' ' ORDER BY indexdef) AS keys FROM pg_indexes
       WHERE tablename ~ '^messages' GROUP BY tablename ORDER BY tablename`,
    )
    const both = '(channel, "time" DESC) (hashtextextended(publisher, hashtextextended(channel, (0)::bigint)), "time" DESC)'
    const months = ['01', '02', '03', '04', '05', '06'].map(month => ({ table: `messages_2026_${month}`, keys: both }))
    expect(indexes.map(({ table, keys }) => ({ table, keys: keys.replace(' ("time")', '') }))).toEqual([
      { table: 'messages', keys: both },
      ...months,
      { table: 'messages_default', keys: both },
    ])
  })

  test('the index by name is created beside a writer, also for months that come later, and what was stopped half-way is finished', async () => {
    const now = new Date('2026-03-15T00:00:00Z')
    const named = async () =>
      (
        await database.query<{ table: string }>(
          `SELECT indrelid::regclass::text AS table FROM pg_index
           WHERE indisvalid AND pg_get_indexdef(indexrelid) LIKE '%(channel, name, "time" DESC)' ORDER BY 1`,
        )
      ).map(({ table }) => table)
    await maintain(database, { now })
    await database.execute(insert('2026-03-01'))
    expect(await named()).toEqual([])
    // As if a process had ended while it built this one.
    await database.execute(`CREATE INDEX messages_2026_02_name_time ON sluice.messages_2026_02 (channel, name, time DESC);
      UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'sluice.messages_2026_02_name_time'::regclass`)
    await maintain(database, { now, nameIndex: true })
    const months = ['01', '02', '03', '04', '05', '06'].map(month => `sluice.messages_2026_${month}`)
    expect(await named()).toEqual(['messages', ...months, 'sluice.messages_default'])
    await maintain(database, { now: new Date('2026-05-15T00:00:00Z') })
    const later = ['sluice.messages_2026_07', 'sluice.messages_2026_08']
    expect(await named()).toEqual(['messages', ...months, ...later, 'sluice.messages_default'])
    await maintain(database, { now, nameIndex: true })
    expect(await named()).toHaveLength(2 + months.length + later.length)
  })

  test('the rows of one publisher are found by their index, as rows of messages and by a condition on a format', async () => {
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    await database.execute(`${tableStatements('engine')} ${insert('2026-03-01')} ${insert('2026-03-02')}
      INSERT INTO messages (time, channel, subtopic, publisher, protocol, name, position, index) VALUES ('2026-03-03', 'c', '', 'q', 'http', 'n', 2, 0);
      INSERT INTO formats.engine SELECT n, 'c', '', 'p' || n, 'http', '{}', n, 0 FROM generate_series(1, 3) AS n; ANALYZE`)
    const statements = [
      [`SELECT position FROM sluice.of_publisher('c', 'q') WHERE time > '2026-03-01' ORDER BY time DESC LIMIT 5`, 2n, /_publisher_time/],
      [
        `SELECT position FROM formats.engine WHERE sluice.of_publisher(channel, publisher, 'c', 'p3') ORDER BY created DESC`,
        3n,
        /\$\$publisher\$/,
      ],
    ] as const
    for (const [statement, position, index] of statements) {
      expect(await database.query(statement)).toEqual([{ position }])
      const plan = await database.transaction(async transaction => {
        await transaction.execute('SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off')
        return transaction.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${statement}`)
      })
      expect(plan.map(line => line['QUERY PLAN']).join('\n')).toMatch(index)
    }
  })

  test('the time of a document is its creation to the microsecond', async () => {
    await database.execute(`${tableStatements('engine')} INSERT INTO formats.engine
      SELECT (268435456 + random() * 8e9)::bigint * 1000000000 + (random() * 999999999)::bigint, 'c', '', 'p', 'http', '{}', n, 0 FROM generate_series(1, 10000) AS n`)
    const wrong = `SELECT created, time FROM formats.engine WHERE time <> timestamptz 'epoch' + created / 1000 * interval '1 microsecond'`
    expect(await database.query(wrong)).toEqual([])
  })

  test('months are created while others insert and while others create them', async () => {
    const inserts = Array.from({ length: 30 }, (_, at) => database.execute(insert(`2026-0${(at % 6) + 1}-10 12:00:00+00`)))
    const now = new Date('2026-03-15T00:00:00Z')
    const made = await Promise.all([maintain(database, { now }), maintain(database, { now }), ...inserts])
    expect([...made[0], ...made[1]].sort((a, b) => a.localeCompare(b))).toEqual([1, 2, 3, 4, 5, 6].map(month => `messages_2026_0${month}`))
    expect((await partitions()).every(row => !row.includes('default'))).toBe(true)
    expect(await partitions()).toHaveLength(30)
  })

  test('a row that is inserted while a month is being attached goes into it, without an error', async () => {
    let inserting: Promise<void> | undefined
    const insertBeforeCommit: Database = {
      ...database,
      transaction: work =>
        database.transaction(async transaction => {
          const result = await work(transaction)
          inserting ??= database.execute(insert('2026-03-10 12:00:00+00'))
          await blocked()
          return result
        }),
    }
    await maintain(insertBeforeCommit, { now: new Date('2026-05-15T00:00:00Z') })
    await inserting
    expect(await partitions()).toEqual(['sluice.messages_2026_03 2026-03-10 12:00:00+00'])
  })

  /** Resolves once the insert waits for a lock, or has ended: asked of the server, which has no event for it. */
  async function blocked(): Promise<void> {
    for (;;) {
      const inserts = await database.query<{ waits: boolean }>(
        `SELECT wait_event_type = 'Lock' AS waits FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT INTO messages%'`,
      )
      if (inserts.every(({ waits }) => waits)) return
      await once(AbortSignal.timeout(5), 'abort')
    }
  }

  test('a month takes over many rows although each statement has a time limit, and keeps no CHECK of its own', async () => {
    await database.execute(`INSERT INTO messages (time, channel, subtopic, publisher, protocol, name, position, index)
      SELECT timestamptz '2026-03-01' + n * interval '1 second', 'c', '', 'p', 'http', 'n', n, 0 FROM generate_series(0, 59999) AS n`)
    // What moves the rows records its own limit.
    await database.execute(`CREATE TABLE limits (ms text);
      CREATE FUNCTION note_limit() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO limits VALUES (current_setting(''statement_timeout'')); RETURN NULL; END';
      CREATE TRIGGER note_limit AFTER DELETE ON sluice.messages_default FOR EACH STATEMENT EXECUTE FUNCTION note_limit()`)
    const hurried = await openServer({ url, applicationName: 'test', connectionsMax: 2, statementTimeoutMs: 60_000 })
    const patience = new Set<boolean | undefined>()
    const watched: Database = {
      ...hurried,
      transaction: work =>
        hurried.transaction(transaction =>
          work({
            ...transaction,
            execute: (sql, options) => {
              if (/moved|ATTACH/.test(sql)) patience.add(options?.unhurried)
              return transaction.execute(sql, options)
            },
          }),
        ),
    }
    await maintain(watched, { now: new Date('2026-05-15T00:00:00Z') })
    expect(patience).toEqual(new Set([true]))
    expect(await database.query('SELECT DISTINCT ms FROM limits')).toEqual([{ ms: '0' }])
    expect(await database.query('SELECT count(*)::int FROM sluice.messages_2026_03')).toEqual([{ count: 60_000 }])
    expect(
      await database.query(`SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = 'sluice.messages_2026_03'::regclass`),
    ).toEqual([])
    await hurried.close()
  })

  test('a month that others prevent is an error after 2 s, blocks others no longer, and is created by the next call', async () => {
    const now = new Date('2026-05-15T00:00:00Z')
    await maintain(database, { now })
    await database.execute('DROP TABLE sluice.messages_2026_08')
    await database.transaction(async dump => {
      await dump.execute('LOCK TABLE sluice.messages_default IN ACCESS SHARE MODE')
      await expect(maintain(database, { now })).rejects.toMatchObject({ sqlState: '55P03' })
    })
    expect(await maintain(database, { now })).toEqual(['messages_2026_08'])
  })

  test('a month has its index, and the planner uses it and no other month', async () => {
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    await database.execute('SET enable_seqscan = off')
    const plan = await database.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN SELECT * FROM messages WHERE channel = 'c' AND time >= '2026-02-01Z' AND time < '2026-03-01Z' ORDER BY time DESC LIMIT 10`,
    )
    const text = plan.map(row => row['QUERY PLAN']).join('\n')
    expect(text).toContain('messages_2026_02_channel_time')
    expect(text).not.toContain('2026_03')
  })

  describe('retention', () => {
    const now = new Date('2026-06-15T12:00:00Z')
    const times = [
      '1999-01-01',
      '2026-02-28 23:59:59.999999',
      '2026-03-01',
      '2026-04-30 23:59:59.999999',
      '2026-05-01',
      '2026-06-15',
      '2026-12-24',
    ]
    const at = (time: string) => `${time.length > 10 ? time : `${time} 00:00:00`}+00`

    beforeEach(async () => {
      await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
      await maintain(database, { now })
      await database.execute(times.map(time => insert(at(time))).join(''))
      await database.execute(`INSERT INTO sluice.formats (format, table_name, channel) VALUES ('engine', 'engine', 'c'), ('gone', 'gone', 'c');
        CREATE TABLE formats.engine AS SELECT (extract(epoch FROM time) * 1000000)::bigint * 1000 AS created FROM messages`)
    })

    const kept = async () => ({
      messages: (await partitions()).length,
      documents: (await database.query('SELECT FROM formats.engine')).length,
    })

    test('months before the retention are dropped as a whole, to the microsecond, and documents with them', async () => {
      await maintain(database, { now, retentionMonths: 1 })
      expect(await partitions()).toEqual([
        'sluice.messages_2026_05 2026-05-01 00:00:00+00',
        'sluice.messages_2026_06 2026-06-15 00:00:00+00',
        'sluice.messages_default 2026-12-24 00:00:00+00',
      ])
      expect(await kept()).toEqual({ messages: 3, documents: 3 })
      const months = await database.query<{ name: string }>(
        `SELECT relname AS name FROM pg_class WHERE relname ~ '^messages_\\d{4}_\\d{2}$' ORDER BY 1`,
      )
      expect(months.map(row => row.name)).toEqual(['05', '06', '07', '08', '09'].map(month => `messages_2026_${month}`))
      expect(await maintain(database, { now, retentionMonths: 1 })).toEqual([])
    })

    test('by default everything is kept', async () => {
      await maintain(database, { now })
      expect(await kept()).toEqual({ messages: 7, documents: 7 })
    })

    test('each page of a table is read once, however many rows are deleted', async () => {
      await database.execute(`CREATE TABLE formats.long (created bigint) WITH (fillfactor = 10, autovacuum_enabled = off);
        INSERT INTO formats.long SELECT CASE WHEN n % 10 = 0 THEN 4000000000000000000 ELSE 0 END FROM generate_series(1, 100000) AS n;
        INSERT INTO sluice.formats (format, table_name, channel) VALUES ('long', 'long', 'c')`)
      const [before] = await touched()
      await maintain(database, { now, retentionMonths: 1 })
      const [after] = await touched()
      expect(await database.query('SELECT count(*)::int FROM formats.long')).toEqual([{ count: 10_000 }])
      // Beside that, a row that is deleted touches its page once.
      expect(after!.blocks - before!.blocks).toBeLessThan(90_000 + 2 * after!.pages)
      expect(after!.pages).toBeGreaterThan(2_000)
    })

    const touched = async () => {
      await database.query('SELECT pg_stat_force_next_flush()')
      return database.query<{ blocks: number; pages: number }>(
        `SELECT (heap_blks_hit + heap_blks_read)::float8 AS blocks, (pg_relation_size(relid) / 8192)::float8 AS pages
         FROM pg_statio_user_tables WHERE relname = 'long'`,
      )
    }

    test('if one table fails the others are still processed', async () => {
      await database.execute(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not these''; END';
        CREATE TABLE formats.before AS SELECT * FROM formats.engine;
        INSERT INTO sluice.formats (format, table_name, channel) VALUES ('before', 'before', 'c');
        CREATE TRIGGER refuse BEFORE DELETE ON sluice.messages_default FOR EACH ROW EXECUTE FUNCTION refuse();
        CREATE TRIGGER refuse BEFORE DELETE ON formats.before FOR EACH ROW EXECUTE FUNCTION refuse()`)
      await expect(maintain(database, { now, retentionMonths: 1 })).rejects.toThrow(/not these.*not these/)
      expect(await kept()).toMatchObject({ documents: 3 })
      await database.execute('DROP TRIGGER refuse ON sluice.messages_default')
      await expect(maintain(database, { now, retentionMonths: 1 })).rejects.toThrow('not these')
      await database.execute('DROP TRIGGER refuse ON formats.before')
      await maintain(database, { now, retentionMonths: 1 })
      expect(await kept()).toEqual({ messages: 3, documents: 3 })
    })
  })
})
