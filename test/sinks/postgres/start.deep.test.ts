// How a sink starts: many at once on an empty database, and with a role that may write and not create.

import { readdir } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { readLogs } from '../../../sinks/postgres/registry.ts'
import { maintain } from '../../../sinks/postgres/schema.ts'
import { openSink } from '../../../sinks/postgres/sink.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { logsOf, withNumbers } from '../../conformance/sink/fixture.ts'
import { startConformance } from '../../conformance/sink/starts.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { batchOf, noonUs, plain, plainBatch } from '../batches.ts'
import { options, storeOn } from './store.ts'

const signal = new AbortController().signal
const ignoreRefused = async () => undefined
const identity = { options, logs: [{ logName: 'messages', logId: 'id-1', writer: 'writer-1' }] }

/** As docs/stores/postgres.md lists them. */
const grants = (role: string) => `
  GRANT USAGE ON SCHEMA public, sluice, formats TO ${role};
  GRANT SELECT ON public.messages TO ${role};
  GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA sluice TO ${role};
  GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA formats TO ${role}`

describeWithOwnPostgres('the start of a PostgreSQL sink', postgres => {
  let url: string
  let owner: Database
  const opened: Database[] = []
  async function connect(as: string): Promise<Database> {
    const database = await openServer({ url: url.replace('postgres@', `${as}@`), applicationName: 'test', connectionsMax: 3 })
    opened.push(database)
    return database
  }

  beforeEach(async () => {
    url = await postgres.createDatabase()
    owner = await connect('postgres')
  })
  afterEach(async () => {
    for (const database of opened.splice(0)) await database.close()
  })

  startConformance(
    'PostgreSQL',
    async () => ({
      async open(given, limits) {
        const database = await connect('postgres')
        return await withNumbers(openSink({ database, options: { ...options, ...limits }, logs: logsOf(given) }), given)
      },
      logs: () => readLogs(owner),
      formats: () => owner.query<{ format: string; channel: string }>('SELECT format, channel FROM sluice.formats'),
      rowCount: async () => (await storeOn(owner, async () => undefined).rows()).length,
      async expectOneSchema() {
        const migrations = await readdir(new URL('../../../sinks/postgres/migrations', import.meta.url))
        expect(await owner.query('SELECT count(*)::int FROM sluice.migrations')).toEqual([{ count: migrations.length }])
      },
    }),
    { transactional: true },
  )

  const monthsOf = async (): Promise<string[]> => {
    const rows = await owner.query<{ name: string }>(
      `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'sluice.records'::regclass ORDER BY 1`,
    )
    return rows.map(row => row.name)
  }

  test('a month that a dump prevents is reported, and the sink opens and stores', async () => {
    await (await withNumbers(openSink({ database: owner, ...identity }))).close()
    const months = await monthsOf()
    await owner.execute(`DROP TABLE ${months.at(-2)}`)
    const database = await connect('postgres')
    const notices: string[] = []
    await owner.transaction(async dump => {
      await dump.execute('LOCK TABLE sluice.records_default IN ACCESS SHARE MODE')
      const sink = await withNumbers(openSink({ database, ...identity, onNotice: sentence => void notices.push(sentence) }))
      await sink.write(sink.encode(plainBatch(0, 2)), ignoreRefused, signal)
      await sink.close()
    })
    expect(notices).toEqual([
      expect.stringMatching(/partitions by month cannot be created.*lock timeout.*sluice\.records_default.*retried/),
    ])
    expect(await owner.query('SELECT count(*)::int FROM messages')).toEqual([{ count: 2 }])
    await (await withNumbers(openSink({ database, ...identity }))).close()
    expect(await monthsOf()).toEqual(months)
  })

  test('without the table of records the sink does not open', async () => {
    await (await withNumbers(openSink({ database: owner, ...identity }))).close()
    await owner.execute('DROP TABLE sluice.records CASCADE')
    await expect(withNumbers(openSink({ database: owner, ...identity }))).rejects.toMatchObject({ sqlState: '42P01' })
  })

  test('months before the retention are not created', async () => {
    await (await withNumbers(openSink({ database: owner, ...identity, options: { ...options, retentionMonths: 1 } }))).close()
    const [oldest] = await monthsOf()
    const now = new Date()
    const before = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1)).toISOString().slice(0, 7).replace('-', '_')
    expect(oldest).toBe(`sluice.records_${before}`)
  })

  describe('with a role that may not create', () => {
    let limited: Database
    let notices: string[]
    let rejections: Rejection[]
    const keep = async (some: readonly Rejection[]) => void rejections.push(...some)
    const onNotice = (sentence: string): void => void notices.push(sentence)
    const document = (offset: number, format: string) => ({ offset, documents: [{ format, payload: {} }] })

    beforeEach(async () => {
      const sink = await withNumbers(openSink({ database: owner, ...identity }))
      await sink.write(sink.encode(batchOf(0, 1, [document(0, 'engine')])), ignoreRefused, signal)
      await sink.close()
      await owner.execute(`DROP OWNED BY limited`).catch(() => owner.execute('CREATE ROLE limited LOGIN'))
      await owner.execute(grants('limited'))
      limited = await connect('limited')
      notices = []
      rejections = []
    })

    test('it stores, in messages and in existing formats', async () => {
      const sink = await withNumbers(openSink({ database: limited, ...identity, onNotice }))
      await sink.write(sink.encode(batchOf(1, 3, [plain(1), document(2, 'engine')])), keep, signal)
      expect(await owner.query('SELECT stored::int, next_offset::int FROM sluice.offsets')).toEqual([{ stored: 3, next_offset: 3 }])
      expect(notices).toEqual([
        expect.stringMatching(/role "limited".*format-not-allowed.*GRANT CREATE ON SCHEMA formats, sluice TO "limited"/),
      ])
      await sink.close()
    })

    test('a message of a new format is a dead letter that says what to grant, and the others are stored', async () => {
      let sink = await withNumbers(openSink({ database: limited, ...identity }))
      await sink.write(sink.encode(batchOf(1, 4, [plain(1), document(2, 'gearbox'), document(3, 'engine')])), keep, signal)
      expect(rejections).toEqual([
        {
          message: 1,
          rule: 'format-not-allowed',
          reason: expect.stringMatching(/42501.*permission denied for schema formats/) as string,
          hint: expect.stringContaining('grant CREATE on the schemas "formats" and "sluice"') as string,
        },
      ])
      await owner.execute('GRANT CREATE ON SCHEMA formats, sluice TO limited')
      // What was refused is not asked for again at once.
      await sink.close()
      sink = await withNumbers(openSink({ database: limited, ...identity }))
      await sink.write(sink.encode(batchOf(4, 5, [document(4, 'gearbox')])), keep, signal)
      expect(await owner.query('SELECT count(*)::int FROM formats.gearbox')).toEqual([{ count: 1 }])
      await sink.close()
    })

    test('missing months are reported, their rows go to the default partition, and the owner creates them', async () => {
      await owner.execute(
        `DO $$ DECLARE month text; BEGIN FOR month IN SELECT tablename FROM pg_tables WHERE schemaname = 'sluice' AND tablename ~ '_\\d{4}_\\d{2}$' LOOP EXECUTE 'DROP TABLE sluice.' || month; END LOOP; END $$`,
      )
      const sink = await withNumbers(openSink({ database: limited, ...identity, onNotice }))
      expect(notices).toEqual([
        expect.stringMatching(/partitions by month cannot be created.*permission denied.*sluice\.records_default/),
        expect.stringContaining('format-not-allowed'),
      ])
      await sink.write(sink.encode(batchOf(1, 3, [plain(1), document(2, 'engine')])), keep, signal)
      const tables = async () =>
        (
          await owner.query<{ table: string }>(`SELECT tableoid::regclass::text AS table FROM sluice.records
            UNION SELECT tableoid::regclass::text FROM formats.engine ORDER BY 1 DESC`)
        ).map(({ table }) => table)
      expect(await tables()).toEqual(['sluice.records_default', 'sluice.format_1_default'])
      await maintain(owner, { now: new Date(noonUs / 1000) })
      expect(await tables()).toEqual(['sluice.records_2026_03', 'sluice.format_1_2026_03'])
      await sink.close()
    })

    test.each([
      ['INSERT on records', 'REVOKE INSERT ON sluice.records FROM limited', /permission denied for table records/],
      ['INSERT on series', 'REVOKE INSERT ON sluice.series FROM limited', /permission denied for table series/],
      ['INSERT on a format', 'REVOKE INSERT ON formats.engine FROM limited', /permission denied for table engine/],
      ['UPDATE on the offsets', 'REVOKE UPDATE ON sluice.offsets FROM limited', /permission denied for table offsets/],
    ])('without %s the write fails for good, and rejects nothing', async (_right, revoke, sentence) => {
      const sink = await withNumbers(openSink({ database: limited, ...identity }))
      await owner.execute(revoke)
      const error = await sink
        .write(sink.encode(batchOf(1, 3, [plain(1), document(2, 'engine')])), keep, signal)
        .catch((error: unknown) => error as Error)
      expect(error).toMatchObject({ sqlState: '42501', message: expect.stringMatching(sentence) as string })
      expect(sink.classify(error)).toBe('systemic')
      expect(rejections).toEqual([])
      await sink.close()
    })
  })
})
