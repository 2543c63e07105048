// The relational store of a site: a PostgreSQL server, read by SQL of the tests' own: positions, books, and every row.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from 'pg'
import { type Postgres, type PostgresOptions, startPostgres } from '../../servers/postgres.ts'
import { openProxy } from '../../servers/proxy.ts'
import { documentText, senmlText } from '../messages.ts'
import type { Books, StoredRow, StoreSite } from './store-site.ts'

export interface RelationalSite extends StoreSite {
  readonly postgres: Postgres
  /** The database, not through the proxy. */
  readonly url: string
  positions(): Promise<ReadonlyMap<number, number>>
  books(): Promise<readonly Books[]>
  query<Row>(sql: string): Promise<Row[]>
}

export interface RelationalSiteOptions {
  readonly postgres?: PostgresOptions
  /** The writers come as this role, which owns the database and needs its password; as superuser if not given. */
  readonly role?: { readonly name: string; readonly password: string }
}

const pageRows = 20_000
const place = `((position >> 44) & 4095)::int AS partition, (position & 17592186044415)::float8 AS "offset", index`

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
      SVC_STORE_STATEMENT_TIMEOUT_MS: '2000',
      SVC_STORE_LOCK_TIMEOUT_MS: '1000',
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

/** Each question on a connection of its own: the server is killed now and then. */
export async function openStoreView(url: string): Promise<StoreView> {
  const { default: pg } = await import('pg')

  async function connected<Result>(work: (client: Client) => Promise<Result>): Promise<Result> {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 })
    // Whoever waits for an answer gets the error.
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
        const rows = await query<{ partition: number; next: number }>('SELECT partition, next_offset::float8 AS next FROM sluice.offsets')
        return new Map(rows.map(({ partition, next }) => [partition, next]))
      } catch (error) {
        if (/^(42P01|3F000)$/.test(String((error as { code?: string }).code))) return new Map()
        throw error
      }
    },
    books: () =>
      query<Books>(
        `SELECT partition, ${['next_offset', 'received', 'stored', 'empty', 'filtered', 'skipped', 'duplicate', 'dead_lettered', 'lost']
          .map(name => `${name}::float8 AS ${name}`)
          .join(', ')} FROM sluice.offsets ORDER BY partition`,
      ),
    async *rows() {
      const client = new pg.Client(url)
      await client.connect()
      try {
        const senml = `SELECT ${place}, channel, publisher, subtopic, name, value, extract(epoch FROM time)::float8 AS seconds FROM public.messages ORDER BY position, index`
        type SenmlColumns = Parameters<typeof senmlText>[0] & StoredRow
        for await (const row of page<SenmlColumns>(client, senml)) yield { ...placeOf(row), table: 'messages', text: senmlText(row) }
        const { rows: tables } = await client.query<{ format: string; table_name: string }>('SELECT format, table_name FROM sluice.formats')
        for (const { format, table_name: table } of tables) {
          const sql = `SELECT ${place}, channel, publisher, subtopic, payload FROM formats."${table}" ORDER BY position, index`
          type DocumentColumns = Parameters<typeof documentText>[0] & StoredRow
          for await (const row of page<DocumentColumns>(client, sql)) yield { ...placeOf(row), table: format, text: documentText(row) }
        }
      } finally {
        await client.end()
      }
    },
  }
}

function placeOf({ partition, offset, index }: StoredRow): Pick<StoredRow, 'partition' | 'offset' | 'index'> {
  return { partition, offset, index }
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
  // The first rule that fits is the one that counts.
  await writeFile(rules, `host all ${name} all scram-sha-256\n${await readFile(rules, 'utf8')}`)
  await store.query('SELECT pg_reload_conf()')
}
