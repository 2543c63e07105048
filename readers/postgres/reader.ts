// The reader of a PostgreSQL store: runs the statements of select.ts and converts their rows to the canonical form.

import { setBounded } from '../../config/bounded-map.ts'
import { type Database, DatabaseError, queryCanceled, type SqlRow } from '../../database/database.ts'
import { formatsOf, type Seen } from '../formats.ts'
import { aggregateRows, groupsMax, tooManyGroups } from '../groups.ts'
import { rowsOf } from '../paging.ts'
import {
  type Bucket,
  type Filter,
  type FormatsQuery,
  type FoundFormat,
  type Grouped,
  type Reader,
  type Row,
  StoreUnavailableError,
  senmlFormat,
} from '../reader.ts'
import { tookTooLong, withinTimeLimit } from '../time-limit.ts'
import { embeddedQueries, type Queries, type Run } from './embedded-queries.ts'
import { type BucketColumns, type FormatColumns, type SubtopicColumns, toBucket, toRows } from './rows.ts'
import { selectBuckets, selectCount, selectFilled, selectLatest, selectPage, selectSubtopics, selectTable, selectTables } from './select.ts'

/** The components of a reader. */
export interface PostgresReaderParts {
  /**
   * The caller closes it; closing the reader does not. A server's has a statement timeout, the time that one query may take, and watches its clients,
   * so that a query ends when its client is gone.
   */
  readonly database: Database
  /** The time limit of a query that consists of several statements; 30 s by default. */
  readonly queryTimeoutMs?: number
  /** Most rows that one statement of the embedded database reads, not counting rows with the same time; fewer than it would choose by itself. */
  readonly pieceRowsMax?: number
}

/** SQLSTATEs for a missing table or schema. */
const missing: ReadonlySet<string> = new Set(['42P01', '3F000'])
/** SQLSTATE for a sum beyond the range of a double. */
const outOfRange = '22003'
const tablesRememberedMax = 10_000
/** Tables in one statement. Planning takes 5 ms, or 12 ms if the connection does not know the tables yet. */
const tablesTogetherMax = 32

/** Opens a reader of the PostgreSQL sink's tables. It creates nothing: before the first writer there is nothing to read. */
export function openPostgresReader({ database, queryTimeoutMs = 30_000, pieceRowsMax }: PostgresReaderParts): Reader {
  // A format keeps its table until it is dropped, so only tables that were found are remembered.
  const tables = new Map<string, string>()

  const run: Run = ({ sql, values }, signal, onTurn) => database.query(sql, values, { signal, priority: 'reader', onTurn })
  const isEmbedded = database.kind === 'embedded'
  const queries = isEmbedded ? embeddedQueries(run, pieceRowsMax) : serverQueries(run)

  async function tableOf(format: string, signal: AbortSignal): Promise<string | undefined> {
    const remembered = tables.get(format)
    if (remembered !== undefined) return remembered
    const [row] = await run<{ table_name: string }>(selectTable(format), signal)
    if (row === undefined) return undefined
    setBounded(tables, format, row.table_name, tablesRememberedMax)
    return row.table_name
  }

  /** Returns what `work` finds in the format's table, or `nothing` if there is no table. */
  async function within<Found>(
    format: string,
    signal: AbortSignal,
    nothing: Found,
    work: (table: string | undefined) => Promise<Found>,
  ): Promise<Found> {
    signal.throwIfAborted()
    try {
      if (format === senmlFormat) return await work(undefined)
      const table = await tableOf(format, signal)
      if (table === undefined) return nothing
      try {
        return await work(table)
      } catch (error) {
        if (!isMissing(error) || !tables.delete(format)) throw error
      }
      // The table was dropped or renamed after it was remembered.
      const tableNow = await tableOf(format, signal)
      return tableNow === undefined ? nothing : await work(tableNow)
    } catch (error) {
      throw signal.aborted ? signal.reason : readError(error)
    }
  }

  /** Limits the time of several statements: a server limits each of them, and the embedded database none. */
  const limited = <Found>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<Found>): Promise<Found> =>
    withinTimeLimit(signal, { timeoutMs: queryTimeoutMs }, limit => work(limit.signal))
  const asked = isEmbedded ? limited : <Found>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<Found>) => work(signal)

  /** The tables with rows, by format, as many as needed. */
  async function filledTables(query: FormatsQuery, signal: AbortSignal): Promise<Map<string, string>> {
    const tables = await run<FormatColumns>(selectTables(), signal)
    const filled = new Map<string, string>()
    for (let at = 0; at < tables.length && filled.size < query.formatsMax; at += tablesTogetherMax) {
      const some = tables.slice(at, at + tablesTogetherMax)
      const names = some.map(({ table_name: name }) => name)
      for (const { number } of await run<{ number: number }>(selectFilled(query, names), signal)) {
        filled.set(some[number]!.format, names[number]!)
      }
    }
    return filled
  }

  async function seen(filter: Filter, table: string | undefined, query: FormatsQuery, signal: AbortSignal): Promise<Seen> {
    const found = await run<SubtopicColumns>(selectSubtopics(filter, table, query), signal)
    const lastUs = new Map(found.map(({ subtopic, last_us: us }) => [subtopic, Number(us)]))
    return { lastUs, hasMore: Number(found[0]?.rows ?? 0) >= query.rowsMax }
  }

  const reader: Reader = {
    read: (query, signal) =>
      within<readonly Row[]>(query.format, signal, [], table => asked(signal, limit => queries.read(query, table, limit))),

    count: (filter, max, signal) =>
      within(filter.format, signal, 0, table => asked(signal, limit => queries.count(filter, table, max, limit))),

    latest: (query, signal) =>
      within<Grouped<Row>>(query.format, signal, { groups: [], total: 0 }, table =>
        asked(signal, limit => queries.latest(query, table, limit)),
      ),

    aggregate: (query, signal) =>
      within<Grouped<Bucket>>(query.format, signal, { groups: [], total: 0 }, async () => {
        try {
          return await asked(signal, limit => queries.aggregate(query, limit))
        } catch (error) {
          if (!(error instanceof DatabaseError) || error.sqlState !== outOfRange) throw error
        }
        // Sums in this process become infinite instead of failing.
        return await limited(signal, limit => aggregateRows(rowsOf(reader, query, limit), query))
      }),

    formats: (query, signal) =>
      within<readonly FoundFormat[]>(senmlFormat, signal, [], () =>
        limited(signal, async limit => {
          const filled = await filledTables(query, limit)
          return await formatsOf(filled.keys(), query, filter => seen(filter, filled.get(filter.format), query, limit))
        }),
      ),

    async check() {
      try {
        await database.query('SELECT 1 FROM public.messages LIMIT 0')
      } catch (error) {
        throw readError(error)
      }
    },
    async close() {
      tables.clear()
    },
  }
  return reader
}

/** For a server, which runs many statements at once and ends those that take too long. */
function serverQueries(run: Run): Queries {
  return {
    read: async (query, table, signal) => toRows(await run(selectPage(query, table), signal), table, query.channel),

    async count(filter, table, max, signal) {
      const [counted] = await run<{ total: bigint }>(selectCount(filter, table, max), signal)
      return Number(counted!.total)
    },

    async latest(query, table, signal) {
      const found = await run<SqlRow & { total: bigint; position: bigint | null }>(selectLatest(query, table, groupsMax), signal)
      const newest = found.filter(({ position }) => position !== null)
      return { groups: toRows(newest, table, query.channel), total: totalOf(found, 'series') }
    },

    async aggregate(query, signal) {
      const found = await run<BucketColumns & { total: bigint }>(selectBuckets(query, groupsMax), signal)
      const groups = found.filter(({ time_us: timeUs }) => timeUs !== null).map(row => toBucket(row, query.channel, query.aggregation))
      return { groups, total: totalOf(found, 'buckets') }
    },
  }
}

function totalOf(found: readonly { total: bigint }[], what: string): number {
  const total = Number(found[0]?.total ?? 0)
  if (total > groupsMax) throw tooManyGroups(what)
  return total
}

function isMissing(error: unknown): boolean {
  return error instanceof DatabaseError && missing.has(error.sqlState)
}

function readError(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return error
  if (isMissing(error)) {
    return new StoreUnavailableError('the database contains no message tables: start a writer on it, which creates them', { cause: error })
  }
  if (error.sqlState === queryCanceled) return tookTooLong(error)
  if (error.transient) return new StoreUnavailableError(`the store cannot answer now: ${error.message}`, { cause: error })
  return error
}
