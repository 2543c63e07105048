// The limits of PostgreSQL on this machine: psql's \copy of prepared rows over one connection, into the store's own table and into a table that
// repeats all texts in each row.

import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import type { Postgres } from '../../../test/servers/postgres.ts'
import { postgresCpuSeconds } from '../../process-figures.ts'

const execute = promisify(execFile)

/** The reference: the layout that a person writes first, with the texts in each row, and the same two ways to find rows. */
const textLayout = `
  CREATE TABLE public.messages (
    time timestamptz NOT NULL,
    channel text NOT NULL,
    subtopic text NOT NULL,
    publisher text NOT NULL,
    protocol text NOT NULL,
    name text NOT NULL,
    unit text,
    value float8,
    string_value text,
    bool_value boolean,
    data_value bytea,
    sum float8,
    update_time float8,
    position bigint NOT NULL,
    index integer NOT NULL
  ) PARTITION BY RANGE (time);
  CREATE INDEX messages_channel_time ON public.messages (channel, time DESC);
  CREATE INDEX messages_publisher_time ON public.messages (hashtextextended(publisher, hashtextextended(channel, 0)), time DESC);
  CREATE TABLE public.messages_default PARTITION OF public.messages DEFAULT`

/** As the messages came, all partitions side by side: by the offset within the position (the lowest 44 bits). */
const asTheyCame = 'ORDER BY position & 17592186044415, position, index'
/** In the order in which the writer stored them, which is how the table is read without ORDER BY. */
const asStored = ''

const copies = [
  { into: 'texts', format: 'text', order: asTheyCame, name: '\\copy into texts, as text' },
  { into: 'texts', format: 'binary', order: asTheyCame, name: '\\copy into texts, binary' },
  { into: 'series', format: 'binary', order: asTheyCame, name: '\\copy into series, binary, as they came' },
  { into: 'series', format: 'text', order: asStored, name: '\\copy into series, as text, as stored' },
  { into: 'series', format: 'binary', order: asStored, name: '\\copy into series, binary, as stored' },
] as const
export type CopyName = (typeof copies)[number]['name']
export const copyNames: readonly CopyName[] = copies.map(({ name }) => name)
/** What a person would have without the writer. */
export const plainCopy: CopyName = '\\copy into texts, as text'
/** The least that PostgreSQL does for the writer's rows. */
export const bareCopy: CopyName = '\\copy into series, binary, as stored'

export interface CopyFigures {
  readonly rowsPerSecond: number
  /** Of all processes of the server. */
  readonly cpuUsARow: number
  readonly bytesARow: number
}

/**
 * Copies the rows of a store whose writer has stopped, each time into an empty table with its indexes. The store is empty afterwards.
 *
 * @param file a path for the rows, to which each copy adds a suffix; removed afterwards
 * @throws Error if a table does not have every row
 */
export async function rawCopies(postgres: Postgres, url: string, file: string, rows: number): Promise<Record<CopyName, CopyFigures>> {
  const textsUrl = await postgres.createDatabase()
  const texts = await openServer({ url: textsUrl, applicationName: 'operator', connectionsMax: 1 })
  const store = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
  const targets = {
    texts: { database: texts, url: textsUrl, table: 'public.messages' },
    series: { database: store, url, table: 'sluice.records' },
  } as const
  const figures: Partial<Record<CopyName, CopyFigures>> = {}
  try {
    await texts.execute(textLayout)
    for (const [into, target] of Object.entries(targets)) {
      const those = copies.map((copy, at) => ({ ...copy, file: `${file}.${at}` })).filter(copy => copy.into === into)
      try {
        // All before the first copy, which empties the table. The store has both names: the first is a view.
        for (const copy of those) await dump(url, `SELECT * FROM ${target.table} ${copy.order}`, copy)
        for (const copy of those) figures[copy.name] = await copied(postgres, target, { ...copy, rows })
      } finally {
        for (const copy of those) await rm(copy.file, { force: true })
      }
    }
    return figures as Record<CopyName, CopyFigures>
  } finally {
    await texts.close()
    await store.close()
  }
}

interface Dumped {
  readonly file: string
  readonly format: 'text' | 'binary'
}

/** Reads the rows in one process, from the first page on, so that their order is that of the table. */
export async function dump(url: string, query: string, { file, format }: Dumped): Promise<void> {
  const PGOPTIONS = '-c max_parallel_workers_per_gather=0 -c synchronize_seqscans=off -c work_mem=256MB'
  await execute('psql', [url, '-c', `\\copy (${query}) TO '${file}' (FORMAT ${format})`], { env: { ...process.env, PGOPTIONS } })
}

interface Target {
  readonly database: Database
  readonly url: string
  readonly table: string
}

/** The table is empty before and after. */
export async function copied(
  postgres: Postgres,
  { database, url, table }: Target,
  { file, format, rows }: Dumped & { readonly rows: number },
): Promise<CopyFigures> {
  await database.execute(`TRUNCATE ${table}`)
  await database.execute('CHECKPOINT')
  const startedCpu = await postgresCpuSeconds(postgres.folder)
  const startedMs = performance.now()
  await execute('psql', [url, '-c', `\\copy ${table} FROM '${file}' (FORMAT ${format})`])
  const elapsedMs = performance.now() - startedMs
  const cpu = (await postgresCpuSeconds(postgres.folder)) - startedCpu
  const bytes = await bytesOf(database, table, rows)
  await database.execute(`TRUNCATE ${table}`)
  await database.execute('CHECKPOINT')
  return { rowsPerSecond: (rows / elapsedMs) * 1000, cpuUsARow: (cpu * 1e6) / rows, bytesARow: bytes / rows }
}

/**
 * The bytes of a table with its partitions and indexes.
 *
 * @param view of the table, whose rows are counted
 * @throws Error if the number of rows is another one
 */
export async function bytesOf(database: Database, table: string, rows: number, view = table): Promise<number> {
  const [found] = await database.query<{ rows: number; bytes: number }>(
    `SELECT (SELECT count(*) FROM ${view})::float8 AS rows, (SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class
       WHERE oid = '${table}'::regclass OR oid IN (SELECT relid FROM pg_partition_tree('${table}'))) AS bytes`,
  )
  if (found?.rows !== rows) throw new Error(`${view} has ${found?.rows} rows, and ${rows} were published`)
  return found.bytes
}
