// The relational store of a site: a PostgreSQL server, read with the tests' own SQL: positions, ledger, and every row.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from 'pg'
import { type Postgres, type PostgresOptions, startPostgres } from '../../servers/postgres.ts'
import { openProxy } from '../../servers/process/proxy.ts'
import { documentText, senmlText } from '../messages.ts'
import type { Books, StoredRow, StoreSite } from './store-site.ts'

export interface RelationalSite extends StoreSite {
  readonly postgres: Postgres
  /** The database without the proxy. */
  readonly url: string
  positions(): Promise<ReadonlyMap<number, number>>
  books(): Promise<readonly Books[]>
  query<Row>(sql: string): Promise<Row[]>
}

export interface RelationalSiteOptions {
  readonly postgres?: PostgresOptions
  /** The writers' role, which owns the database and needs its password; superuser by default. */
  readonly role?: { readonly name: string; readonly password: string }
}

const pageRows = 20_000
const place = `(position >> 56)::int AS log, ((position >> 44) & 4095)::int AS partition, (position & 17592186044415)::float8 AS "offset", index`
/** The logs by the number that the store gave them: as those of a site, in the order of their topics' names. */
const logs = '(SELECT number, (dense_rank() OVER (ORDER BY name COLLATE "C") - 1)::int AS log FROM sluice.logs) AS logs'
const fromOffsets = `FROM sluice.offsets JOIN ${logs} ON number = offsets.log`
const partitionsOfLog = 4096

export async function openRelationalSite({ postgres: options, role }: RelationalSiteOptions = {}): Promise<RelationalSite> {
  const postgres = await startPostgres(options)
  const url = await postgres.createDatabase()
  const proxy = await openProxy({ port: Number(new URL(url).port) })
  const view = await openStoreView(url)
  const proxiedUrl = new URL(url)
  proxiedUrl.port = String(proxy.port)
  if (role !== undefined) {
    await admit(postgres, view, role, new URL(url).pathname.slice(1))
    proxiedUrl.username = role.name
    proxiedUrl.password = role.password
  }
  return {
    ...view,
    name: 'relational',
    postgres,
    url,
    proxy,
    environment: {
      SVC_RELATIONAL_URL: proxiedUrl.href,
      SVC_STORE_STATEMENT_TIMEOUT_MS: '10000',
    },
    directEnvironment: { SVC_RELATIONAL_URL: url },
    kill: () => postgres.kill(),
    restart: () => postgres.restart(),
    async close() {
      await proxy.close()
      await postgres.stop()
    },
  }
}

export type StoreView = Pick<RelationalSite, 'positions' | 'books' | 'rows' | 'query'>

/** Each query has its own connection, because the server is killed from time to time. */
export async function openStoreView(url: string): Promise<StoreView> {
  const { default: pg } = await import('pg')

  async function connected<Result>(work: (client: Client) => Promise<Result>): Promise<Result> {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 60_000 })
    // The pending query gets the error.
    client.on('error', () => undefined)
    await client.connect()
    try {
      return await work(client)
    } finally {
      await client.end().catch(() => undefined)
    }
  }

  const query = <Row>(sql: string): Promise<Row[]> => connected(async client => (await client.query(sql)).rows as Row[])

  async function* page<Row>(client: Client, sql: string): AsyncGenerator<Row> {
    await client.query('BEGIN')
    await client.query(`DECLARE looked NO SCROLL CURSOR FOR ${sql}`)
    for (;;) {
      const { rows } = await client.query(`FETCH ${pageRows} FROM looked`)
      yield* rows as Row[]
      if (rows.length < pageRows) break
    }
    await client.query('COMMIT')
  }

  return {
    query,
    async positions() {
      try {
        const rows = await query<{ partition: number; next: number }>(
          `SELECT ${partitionsOfLog} * logs.log + partition AS partition, next_offset::float8 AS next ${fromOffsets}`,
        )
        return new Map(rows.map(({ partition, next }) => [partition, next]))
      } catch (error) {
        if (/^(42P01|3F000)$/.test(String((error as { code?: string }).code))) return new Map()
        throw error
      }
    },
    books: () =>
      query<Books>(
        `SELECT ${partitionsOfLog} * logs.log + partition AS partition, ${[
          'next_offset',
          'received',
          'stored',
          'empty',
          'filtered',
          'skipped',
          'duplicate',
          'dead_lettered',
          'lost',
        ]
          .map(name => `${name}::float8 AS ${name}`)
          .join(', ')} ${fromOffsets} ORDER BY 1`,
      ),
    async *rows() {
      const client = new pg.Client(url)
      await client.connect()
      try {
        const known = await client.query<{ number: number; log: number }>(`SELECT * FROM ${logs}`)
        const byNumber = new Map(known.rows.map(({ number, log }) => [number, log]))
        const placeOf = ({ log, partition, offset, index }: StoredRow & { log: number }) => ({
          partition: partitionsOfLog * byNumber.get(log)! + partition,
          offset,
          index,
        })
        const senml = `SELECT ${place}, channel, publisher, subtopic, name, value, extract(epoch FROM time)::float8 AS seconds FROM public.messages ORDER BY position, index`
        type SenmlColumns = Parameters<typeof senmlText>[0] & StoredRow & { log: number }
        for await (const row of page<SenmlColumns>(client, senml)) yield { ...placeOf(row), table: 'messages', text: senmlText(row) }
        const { rows: tables } = await client.query<{ format: string; table_name: string }>('SELECT format, table_name FROM sluice.formats')
        for (const { format, table_name: table } of tables) {
          const sql = `SELECT ${place}, channel, publisher, subtopic, payload FROM formats."${table}" ORDER BY position, index`
          type DocumentColumns = Parameters<typeof documentText>[0] & StoredRow & { log: number }
          for await (const row of page<DocumentColumns>(client, sql)) yield { ...placeOf(row), table: format, text: documentText(row) }
        }
      } finally {
        await client.end()
      }
    },
  }
}

async function admit(
  postgres: Postgres,
  store: Pick<StoreView, 'query'>,
  { name, password }: { name: string; password: string },
  database: string,
): Promise<void> {
  await store.query(
    `CREATE ROLE ${name} LOGIN PASSWORD '${password}'; ALTER DATABASE ${database} OWNER TO ${name}; GRANT ALL ON SCHEMA public TO ${name}`,
  )
  const rules = join(postgres.folder, 'data', 'pg_hba.conf')
  // The first matching rule counts.
  await writeFile(rules, `host all ${name} all scram-sha-256\n${await readFile(rules, 'utf8')}`)
  await store.query('SELECT pg_reload_conf()')
}
