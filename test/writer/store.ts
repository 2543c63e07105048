// What a PostgreSQL store holds, read by SQL of the tests' own: positions, books, and every row.

import type { Client } from 'pg'
import { documentText, senmlText } from './messages.ts'

export interface StoredRow {
  readonly table: string
  readonly partition: number
  readonly offset: number
  readonly index: number
  /** Its id is in there. */
  readonly text: string
}

export interface Books {
  readonly partition: number
  readonly next_offset: number
  readonly received: number
  readonly stored: number
  readonly empty: number
  readonly filtered: number
  readonly skipped: number
  readonly duplicate: number
  readonly dead_lettered: number
  readonly lost: number
}

export interface StoreView {
  /** By partition, where the store goes on. Empty before a writer has made the schema. */
  positions(): Promise<ReadonlyMap<number, number>>
  books(): Promise<readonly Books[]>
  /** Every row of every table, message by message. */
  rows(): AsyncIterable<StoredRow>
  query<Row>(sql: string): Promise<Row[]>
}

const pageRows = 20_000
const place = `((position >> 44) & 4095)::int AS partition, (position & 17592186044415)::float8 AS "offset", index`

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

export function sumOf(positions: ReadonlyMap<number, number>): number {
  let sum = 0
  for (const offset of positions.values()) sum += offset
  return sum
}
