// The months that the tables of rows are divided into, their indexes, and the functions for people.

import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { maintain, migrateStore } from '../../../sinks/postgres/schema.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { addFormat, messageColumns } from './store.ts'

const insert = (time: string) => `INSERT INTO sluice.records (time, channel, series, position, index) VALUES ('${time}', 1, 1, 1, 0);`
/** The document's creation is in the last nanosecond of the microsecond. */
const insertDocument = (
  time: string,
) => `INSERT INTO formats.engine (created, channel, subtopic, publisher, protocol, payload, position, index)
  VALUES ((extract(epoch FROM timestamptz '${time}') * 1000000)::bigint * 1000 + 999, 'c', '', 'p', 'http', '{"a":1}', 1, 0);`

/** The two kinds of tables of rows; the only format of a new database has the id 1. */
const rowTables = [
  { parent: 'sluice.records', prefix: 'records', insert },
  { parent: 'formats.engine', prefix: 'format_1', insert: insertDocument },
]

describeWithOwnPostgres('the months of the PostgreSQL store', postgres => {
  let url: string
  let database: Database
  const partitions = async (parent = 'sluice.records') =>
    (
      await database.query<{ table: string; rows: string }>(
        `SELECT tableoid::regclass::text AS table, time::text AS rows FROM ${parent} ORDER BY time`,
      )
    ).map(row => `${row.table} ${row.rows}`)

  beforeEach(async () => {
    url = await postgres.createDatabase()
    database = await openServer({ url, applicationName: 'test', connectionsMax: 4 })
    await migrateStore(database)
  })
  afterEach(() => database.close())

  test('two months back and three ahead are created of every table, across the turn of the year, and only once', async () => {
    await addFormat(database, 'engine')
    const now = new Date('2026-12-31T23:59:59Z')
    const months = ['2026_10', '2026_11', '2026_12', '2027_01', '2027_02', '2027_03']
    const made = await maintain(database, { now })
    expect(made).toEqual(rowTables.flatMap(({ prefix }) => months.map(month => `${prefix}_${month}`)))
    expect(await maintain(database, { now })).toEqual([])
    expect(await maintain(database, { now: new Date('2027-01-01T00:00:00Z') })).toEqual(['records_2027_04', 'format_1_2027_04'])
  })

  test.each(rowTables)('a new month of $parent takes over its rows from the default partition, to the microsecond', async table => {
    await addFormat(database, 'engine')
    const times = ['2025-12-31 23:59:59.999999+00', '2026-01-01 00:00:00+00', '2026-01-31 23:59:59.999999+00', '1970-01-01 00:00:00+00']
    await database.execute(times.map(table.insert).join(''))
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    expect(await partitions(table.parent)).toEqual([
      `sluice.${table.prefix}_default 1970-01-01 00:00:00+00`,
      `sluice.${table.prefix}_default 2025-12-31 23:59:59.999999+00`,
      `sluice.${table.prefix}_2026_01 2026-01-01 00:00:00+00`,
      `sluice.${table.prefix}_2026_01 2026-01-31 23:59:59.999999+00`,
    ])
    await database.execute(table.insert('2026-01-15 00:00:00+00'))
    expect(await partitions(table.parent)).toContain(`sluice.${table.prefix}_2026_01 2026-01-15 00:00:00+00`)
  })

  test('the months of one owner are created although the role may not create those of another', async () => {
    await addFormat(database, 'engine')
    await database.execute(`DO $$ BEGIN CREATE ROLE months; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
      GRANT USAGE, CREATE ON SCHEMA sluice TO months; GRANT USAGE, CREATE ON SCHEMA formats TO months;
      GRANT SELECT ON ALL TABLES IN SCHEMA sluice TO months; ALTER TABLE formats.engine OWNER TO months;
      ALTER TABLE sluice.format_1_default OWNER TO months`)
    const owner = { ...database, ...as(database, 'months') }
    await expect(maintain(owner, { now: new Date('2026-03-15T00:00:00Z') })).rejects.toMatchObject({ sqlState: '42501' })
    expect(await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })).toEqual(
      ['01', '02', '03', '04', '05', '06'].map(month => `records_2026_${month}`),
    )
  })

  /** Transactions of another role. */
  const as = (database: Database, role: string): Pick<Database, 'transaction'> => ({
    transaction: (work, abort) =>
      database.transaction(async transaction => {
        await transaction.execute(`SET LOCAL ROLE ${role}`)
        return await work(transaction)
      }, abort),
  })

  /** By table of rows, the keys of its indexes. */
  async function indexes(): Promise<Record<string, string>> {
    const found = await database.query<{ table: string; keys: string }>(
      `SELECT tablename AS table, string_agg(substring(indexdef FROM 'USING (.*)$'), ' ' ORDER BY indexdef) AS keys FROM pg_indexes
       WHERE tablename ~ '^records' GROUP BY tablename`,
    )
    return Object.fromEntries(found.map(({ table, keys }) => [table, keys.replaceAll('"', '').replace(' btree (time)', '')]))
  }

  test('every table of rows is indexed by channel and by series, and later months as an operator has changed that', async () => {
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    const both = 'btree (channel, time) btree (series, time)'
    const tables = [...['01', '02', '03', '04', '05', '06'].map(month => `records_2026_${month}`), 'records', 'records_default']
    expect(await indexes()).toEqual(Object.fromEntries(tables.map(table => [table, both])))
    await database.execute(`DROP INDEX sluice.records_series_time;
      CREATE INDEX records_series_time ON sluice.records USING brin (series) WITH (pages_per_range = 8)`)
    await maintain(database, { now: new Date('2026-04-15T00:00:00Z') })
    const small = "btree (channel, time) brin (series) WITH (pages_per_range='8')"
    expect(await indexes()).toEqual(Object.fromEntries([...tables, 'records_2026_07'].map(table => [table, small])))
    // All are parts of the table's indexes, so that dropping one of those drops them all.
    await database.execute('DROP INDEX sluice.records_series_time')
    expect(await indexes()).toEqual(Object.fromEntries([...tables, 'records_2026_07'].map(table => [table, 'btree (channel, time)'])))
  })

  test('a month of a format has the indexes and the time of its table, whether it came with the table or later', async () => {
    await addFormat(database, 'engine')
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    const shapes = await database.query<{ keys: string; time: string }>(
      `SELECT DISTINCT (SELECT string_agg(substring(pg_get_indexdef(indexrelid) FROM 'USING (.*)$'), ' ' ORDER BY pg_get_indexdef(indexrelid, 1, false))
         FROM pg_index WHERE indrelid = inhrelid) AS keys, pg_get_expr(adbin, adrelid) AS time
       FROM pg_inherits JOIN pg_attrdef ON adrelid = inhrelid WHERE inhparent = 'formats.engine'::regclass`,
    )
    expect(shapes).toEqual([
      {
        keys: expect.stringMatching(/^btree \(channel, created\) btree \(hashtextextended\(.*\), created\)$/) as string,
        time: expect.stringContaining('AT TIME ZONE') as string,
      },
    ])
  })

  test('the view has the columns of its documentation, in their order', async () => {
    const columns = await database.query<{ name: string }>(
      `SELECT column_name AS name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'messages' ORDER BY ordinal_position`,
    )
    expect(columns.map(({ name }) => name).join(', ')).toBe(messageColumns)
  })

  test('the rows of a channel, of a thing and the newest of each series are found by the indexes, as are documents of a thing', async () => {
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    await addFormat(database, 'engine')
    await database.execute(`
      INSERT INTO sluice.channels (channel) VALUES ('c'), ('d');
      INSERT INTO sluice.series (channel, publisher, subtopic, protocol, name, unit) VALUES
        (1, 'p', '', 'http', 'n', 'Cel'), (1, 'q', '', 'http', 'n', NULL), (1, 'q', NULL, NULL, NULL, NULL), (2, 'q', '', 'http', 'n', NULL);
      INSERT INTO sluice.records (time, channel, series, position, index, subtopic, protocol, name) VALUES
        ('2026-03-01', 1, 1, 1, 0, NULL, NULL, NULL), ('2026-03-02', 1, 1, 2, 0, NULL, NULL, NULL), ('2026-03-03', 1, 2, 3, 0, NULL, NULL, NULL),
        ('2026-02-03', 1, 2, 4, 0, NULL, NULL, NULL), ('2026-03-04', 1, 3, 5, 0, 'hall', 'mqtt', 'long'), ('2026-03-05', 2, 4, 6, 0, NULL, NULL, NULL);
      INSERT INTO formats.engine SELECT n, 'c', '', 'p' || n, 'http', '{}', n, 0 FROM generate_series(1, 3) AS n; ANALYZE`)
    const statements = [
      [`SELECT position FROM sluice.of_channel('c') WHERE time > '2026-03-01' ORDER BY time DESC LIMIT 2`, [5, 3], /_channel_time/],
      [`SELECT position FROM sluice.of_publisher('c', 'q') WHERE time > '2026-03-01' ORDER BY time DESC LIMIT 5`, [5, 3], /_series_time/],
      [`SELECT position FROM sluice.of_publisher('c', 'q', 1) ORDER BY time DESC`, [5, 3], /_series_time/],
      [`SELECT position FROM sluice.of_publisher('c', 'q', NULL) ORDER BY time DESC`, [5, 3, 4], /_series_time/],
      [`SELECT position FROM sluice.latest_of('c') ORDER BY time DESC`, [5, 3, 2], /_series_time/],
      [
        `SELECT position FROM formats.engine WHERE sluice.of_publisher(channel, publisher, 'c', 'p3') ORDER BY created DESC`,
        [3],
        /format_1_default_hashtextextended_created/,
      ],
    ] as const
    for (const [statement, positions, index] of statements) {
      expect(
        (await database.query<{ position: bigint }>(statement)).map(({ position }) => Number(position)),
        statement,
      ).toEqual(positions)
      const plan = await database.transaction(async transaction => {
        await transaction.execute('SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off')
        return transaction.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${statement}`)
      })
      expect(plan.map(line => line['QUERY PLAN']).join('\n'), statement).toMatch(index)
    }
    const page = await readFile('docs/stores/postgres.md', 'utf8')
    const documented = [...page.matchAll(/^```sql\n(SELECT [^`]*)```$/gm)]
      .flatMap(([, block]) => block!.trim().split(/;\n|;$/))
      .filter(Boolean)
    expect(documented.length).toBeGreaterThanOrEqual(10)
    for (const text of documented) {
      const answer = await database.query(text.replaceAll('<channel>', 'c').replaceAll('<thing>', 'q').replaceAll('<table>', 'engine'))
      if (text.includes('AS bytes')) expect(answer).toEqual([{ rows: 6n, bytes: expect.stringMatching(/^\d{4,6}\./) as string }])
    }
    expect(
      await database.query(
        `SELECT channel, subtopic, publisher, protocol, name, unit FROM messages WHERE position IN (1, 5) ORDER BY time`,
      ),
    ).toEqual([
      { channel: 'c', subtopic: '', publisher: 'p', protocol: 'http', name: 'n', unit: 'Cel' },
      { channel: 'c', subtopic: 'hall', publisher: 'q', protocol: 'mqtt', name: 'long', unit: null },
    ])
  })

  test('the newest row of a series is found among those with numbers and those with texts', async () => {
    await database.execute(`
      INSERT INTO sluice.channels (channel) VALUES ('c');
      INSERT INTO sluice.series (channel, publisher, subtopic, protocol, name, unit)
        SELECT id, 'p', subtopic, protocol, name, NULL FROM sluice.channels, (VALUES ('', 'http', 'a'), ('', 'http', 'b'), (NULL, NULL, NULL)) AS own (subtopic, protocol, name);
      INSERT INTO sluice.records (time, channel, series, position, index, subtopic, protocol, name, unit)
        SELECT '2026-03-01'::timestamptz + position * interval '1 minute', s.channel, s.id, position, 0, own.subtopic, own.protocol, own.name, own.unit
        FROM (VALUES ('a', 1, NULL, NULL, NULL, NULL), ('a', 2, NULL, NULL, NULL, NULL), ('b', 3, NULL, NULL, NULL, NULL), (NULL, 4, '', 'http', 'a', NULL),
          (NULL, 5, '', 'http', 'a', 'W'), (NULL, 6, '', 'mqtt', 'a', 'W'), (NULL, 7, 'hall', 'http', 'a', 'W'), (NULL, 8, '', 'http', 'c', NULL),
          (NULL, 9, '', 'http', 'c', NULL)) AS own (of, position, subtopic, protocol, name, unit)
        JOIN sluice.series AS s ON s.name IS NOT DISTINCT FROM own.of`)
    const latest = await database.query<{ position: bigint }>(`SELECT position FROM sluice.latest_of('c') ORDER BY position`)
    expect(latest.map(({ position }) => Number(position))).toEqual([3, 4, 5, 6, 7, 9])
  })

  test('the time of a document is its creation to the microsecond', async () => {
    await addFormat(database, 'engine')
    await database.execute(`INSERT INTO formats.engine
      SELECT (268435456 + random() * 8e9)::bigint * 1000000000 + (random() * 999999999)::bigint, 'c', '', 'p', 'http', '{}', n, 0 FROM generate_series(1, 10000) AS n`)
    const wrong = `SELECT created, time FROM formats.engine WHERE time <> timestamptz 'epoch' + created / 1000 * interval '1 microsecond'`
    expect(await database.query(wrong)).toEqual([])
  })

  test('months are created while others insert and while others create them', async () => {
    const inserts = Array.from({ length: 30 }, (_, at) => database.execute(insert(`2026-0${(at % 6) + 1}-10 12:00:00+00`)))
    const now = new Date('2026-03-15T00:00:00Z')
    const made = await Promise.all([maintain(database, { now }), maintain(database, { now }), ...inserts])
    expect([...made[0], ...made[1]].sort((a, b) => a.localeCompare(b))).toEqual([1, 2, 3, 4, 5, 6].map(month => `records_2026_0${month}`))
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
    expect(await partitions()).toEqual(['sluice.records_2026_03 2026-03-10 12:00:00+00'])
  })

  /** Resolves once the insert waits for a lock, or has ended: asked of the server, which has no event for it. */
  async function blocked(): Promise<void> {
    for (;;) {
      const inserts = await database.query<{ waits: boolean }>(
        `SELECT wait_event_type = 'Lock' AS waits FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT INTO sluice.records%'`,
      )
      if (inserts.every(({ waits }) => waits)) return
      await once(AbortSignal.timeout(5), 'abort')
    }
  }

  test('a month takes over many rows although each statement has a time limit, and keeps no CHECK of its own', async () => {
    await database.execute(`INSERT INTO sluice.records (time, channel, series, position, index)
      SELECT timestamptz '2026-03-01' + n * interval '1 second', 1, 1, n, 0 FROM generate_series(0, 59999) AS n`)
    // What moves the rows records its own limit.
    await database.execute(`CREATE TABLE limits (ms text);
      CREATE FUNCTION note_limit() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO limits VALUES (current_setting(''statement_timeout'')); RETURN NULL; END';
      CREATE TRIGGER note_limit AFTER DELETE ON sluice.records_default FOR EACH STATEMENT EXECUTE FUNCTION note_limit()`)
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
    expect(await database.query('SELECT count(*)::int FROM sluice.records_2026_03')).toEqual([{ count: 60_000 }])
    expect(
      await database.query(`SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = 'sluice.records_2026_03'::regclass`),
    ).toEqual([])
    await hurried.close()
  })

  test('a month that others prevent is an error after 2 s, blocks others no longer, and is created by the next call', async () => {
    const now = new Date('2026-05-15T00:00:00Z')
    await maintain(database, { now })
    await database.execute('DROP TABLE sluice.records_2026_08')
    await database.transaction(async dump => {
      await dump.execute('LOCK TABLE sluice.records_default IN ACCESS SHARE MODE')
      await expect(maintain(database, { now })).rejects.toMatchObject({ sqlState: '55P03' })
    })
    expect(await maintain(database, { now })).toEqual(['records_2026_08'])
  })

  test('a month has its index, and the planner uses it and no other month', async () => {
    await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
    await database.execute(`INSERT INTO sluice.channels (channel) VALUES ('c'); SET enable_seqscan = off`)
    const plan = await database.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN SELECT * FROM sluice.of_channel('c') WHERE time >= '2026-02-01Z' AND time < '2026-03-01Z' ORDER BY time DESC LIMIT 10`,
    )
    const text = plan.map(row => row['QUERY PLAN']).join('\n')
    expect(text).toContain('records_2026_02_channel_time')
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
      await addFormat(database, 'engine')
      await maintain(database, { now: new Date('2026-03-15T00:00:00Z') })
      await maintain(database, { now })
      for (const table of rowTables) await database.execute(times.map(time => table.insert(at(time))).join(''))
      await database.execute(`INSERT INTO sluice.formats (format, table_name, channel) VALUES ('gone', 'gone', 'c')`)
    })

    const kept = async () => ({
      messages: (await partitions()).length,
      documents: (await database.query('SELECT FROM formats.engine')).length,
    })

    test.each(rowTables)(
      'months of $parent before the retention are dropped as a whole, to the microsecond',
      async ({ parent, prefix }) => {
        await maintain(database, { now, retentionMonths: 1 })
        expect(await partitions(parent)).toEqual([
          `sluice.${prefix}_2026_05 2026-05-01 00:00:00+00`,
          `sluice.${prefix}_2026_06 2026-06-15 00:00:00+00`,
          `sluice.${prefix}_default 2026-12-24 00:00:00+00`,
        ])
        expect(await kept()).toEqual({ messages: 3, documents: 3 })
        const months = await database.query<{ name: string }>(
          `SELECT relname AS name FROM pg_class WHERE relname ~ '^${prefix}_\\d{4}_\\d{2}$' ORDER BY 1`,
        )
        expect(months.map(row => row.name)).toEqual(['05', '06', '07', '08', '09'].map(month => `${prefix}_2026_${month}`))
        expect(await maintain(database, { now, retentionMonths: 1 })).toEqual([])
      },
    )

    test.each([
      [{}, { messages: 7, documents: 7 }],
      [{ retentionMonths: 1 }, { messages: 3, documents: 3 }],
      [{ retentionFormats: ['engine:40'] }, { messages: 7, documents: 2 }],
    ])('by default everything is kept, and documents of months are dropped and not deleted: %j', async (retention, left) => {
      await database.execute(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not these''; END';
        CREATE TRIGGER refuse BEFORE DELETE ON sluice.format_1_2026_03 FOR EACH ROW EXECUTE FUNCTION refuse()`)
      await maintain(database, { now, ...retention })
      expect(await kept()).toEqual(left)
    })

    test('each page of a default partition is read once, however many rows are deleted', async () => {
      // Most rows of 1970, and some of 2096.
      await database.execute(`ALTER TABLE sluice.format_1_default SET (fillfactor = 30, autovacuum_enabled = off);
        TRUNCATE formats.engine;
        INSERT INTO formats.engine SELECT CASE WHEN n % 10 = 0 THEN 4000000000000000000 ELSE 0 END, 'c', '', 'p', 'http', '{}', n, 0
          FROM generate_series(1, 100000) AS n`)
      const [before] = await touched()
      await maintain(database, { now, retentionMonths: 1 })
      const [after] = await touched()
      expect(await database.query('SELECT count(*)::int FROM formats.engine')).toEqual([{ count: 10_000 }])
      // Beside that, a row that is deleted touches its page once.
      expect(after!.blocks - before!.blocks).toBeLessThan(90_000 + 2 * after!.pages)
      expect(after!.pages).toBeGreaterThan(2_000)
    })

    const touched = async () => {
      await database.query('SELECT pg_stat_force_next_flush()')
      return database.query<{ blocks: number; pages: number }>(
        `SELECT (heap_blks_hit + heap_blks_read)::float8 AS blocks, (pg_relation_size(relid) / 8192)::float8 AS pages
         FROM pg_statio_user_tables WHERE relname = 'format_1_default'`,
      )
    }

    test('if one table fails the others are still processed', async () => {
      const other = await addFormat(database, 'other')
      await maintain(database, { now })
      await database.execute(`INSERT INTO formats.other (created, channel, subtopic, publisher, protocol, payload, position, index)
          SELECT created, channel, subtopic, publisher, protocol, payload, position, index FROM formats.engine;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not these''; END';
        CREATE TRIGGER refuse BEFORE DELETE ON sluice.records_default FOR EACH ROW EXECUTE FUNCTION refuse();
        CREATE TRIGGER refuse BEFORE DELETE ON sluice.format_1_default FOR EACH ROW EXECUTE FUNCTION refuse()`)
      await expect(maintain(database, { now, retentionMonths: 1 })).rejects.toThrow(/not these.*not these/)
      expect(await partitions(other.parent)).toHaveLength(3)
      await database.execute('DROP TRIGGER refuse ON sluice.records_default')
      await expect(maintain(database, { now, retentionMonths: 1 })).rejects.toThrow('not these')
      await database.execute('DROP TRIGGER refuse ON sluice.format_1_default')
      await maintain(database, { now, retentionMonths: 1 })
      expect(await kept()).toEqual({ messages: 3, documents: 3 })
    })
  })
})
