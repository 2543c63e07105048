// The reader of a PostgreSQL store: runs the statements of select.ts and gives their rows the canonical form.

import { type Database, DatabaseError, queryCanceled, type SqlRow } from '../../config/postgres/database.ts'
import { formatsOf, type Seen } from '../formats.ts'
import { aggregateRows } from '../groups.ts'
import { rowsOf } from '../parts.ts'
import type { FormatsQuery, Selection } from '../query.ts'
import {
  type Bucket,
  type FoundFormat,
  type Grouped,
  groupsMax,
  QueryTooLargeError,
  type Reader,
  type Row,
  StoreUnavailableError,
  senmlFormat,
  tooManyGroups,
} from '../reader.ts'
import { inPieces, type Questions, type Run } from './pieces.ts'
import { type BucketColumns, type FormatColumns, type SubtopicColumns, toBucket, toRows } from './rows.ts'
import { selectBuckets, selectCount, selectLatest, selectPage, selectTable } from './select.ts'
import { selectFilled, selectSubtopics, selectTables } from './select-formats.ts'

export interface PostgresReaderParts {
  /**
   * Stays the caller's: closing the reader does not close it. A server's has the statement timeout that one question may take, and watches
   * its clients, so that what nobody waits for ends.
   */
  readonly database: Database
  /** That one question may take in all where it is many statements; 30 s without it. */
  readonly queryTimeoutMs?: number
  /** Rows that one statement of the embedded database looks at, beside those of one instant; fewer than it finds out itself. */
  readonly pieceRowsMax?: number
}

/** SQLSTATE of what is not there: a table, a schema. */
const missing: ReadonlySet<string> = new Set(['42P01', '3F000'])
/** A statement timeout: of ours, or of the database's own. */
/** A sum beyond the range of a double. */
const outOfRange = '22003'
const tablesRememberedMax = 10_000
/** Of one statement, which plans a look at each: for 5 ms and, where their columns are not known to the connection, 12. */
const tablesTogetherMax = 32

/** Opens a reader over the tables that the PostgreSQL sink keeps. It makes none: before the first writer there is nothing to read. */
export function openPostgresReader({ database, queryTimeoutMs = 30_000, pieceRowsMax }: PostgresReaderParts): Reader {
  // Formats keep their table until somebody drops it, so only what was found is remembered.
  const tables = new Map<string, string>()

  const run: Run = ({ sql, values }, signal, onTurn) => database.query(sql, values, { signal, priority: 'reader', onTurn })
  const isEmbedded = database.kind === 'embedded'
  const questions = isEmbedded ? inPieces(run, pieceRowsMax) : inOne(run)

  async function tableOf(format: string, signal: AbortSignal): Promise<string | undefined> {
    const remembered = tables.get(format)
    if (remembered !== undefined) return remembered
    const [row] = await run<{ table_name: string }>(selectTable(format), signal)
    if (row === undefined) return undefined
    if (tables.size >= tablesRememberedMax) tables.clear()
    tables.set(format, row.table_name)
    return row.table_name
  }

  /** What `work` finds in the format's table; `nothing` where there is none. */
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
      // The table was dropped, or given another name, after it was remembered.
      const tableNow = await tableOf(format, signal)
      return tableNow === undefined ? nothing : await work(tableNow)
    } catch (error) {
      throw signal.aborted ? signal.reason : readError(error)
    }
  }

  /** Work of many statements, for as long as one question may take: the limit of a server is on each of them, and the embedded database has none. */
  async function limited<Found>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<Found>): Promise<Found> {
    const limit = AbortSignal.timeout(queryTimeoutMs)
    try {
      return await work(AbortSignal.any([signal, limit]))
    } catch (error) {
      throw limit.aborted ? tooLong(error) : error
    }
  }
  const asked = isEmbedded ? limited : <Found>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<Found>) => work(signal)

  /** By format, the tables that have rows; as many as are wanted. */
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

  async function seen(selection: Selection, table: string | undefined, query: FormatsQuery, signal: AbortSignal): Promise<Seen> {
    const found = await run<SubtopicColumns>(selectSubtopics(selection, table, query), signal)
    const lastUs = new Map(found.map(({ subtopic, last_us: us }) => [subtopic, Number(us)]))
    return { lastUs, hasMore: Number(found[0]?.rows ?? 0) >= query.rowsMax }
  }

  const reader: Reader = {
    read: (query, signal) =>
      within<readonly Row[]>(query.format, signal, [], table => asked(signal, limit => questions.read(query, table, limit))),

    count: (selection, max, signal) =>
      within(selection.format, signal, 0, table => asked(signal, limit => questions.count(selection, table, max, limit))),

    latest: (query, signal) =>
      within<Grouped<Row>>(query.format, signal, { groups: [], total: 0 }, table =>
        asked(signal, limit => questions.latest(query, table, limit)),
      ),

    aggregate: (query, signal) =>
      within<Grouped<Bucket>>(query.format, signal, { groups: [], total: 0 }, async () => {
        try {
          return await asked(signal, limit => questions.aggregate(query, limit))
        } catch (error) {
          if (!(error instanceof DatabaseError) || error.sqlState !== outOfRange) throw error
        }
        // Doubles in this process go beyond their range without an error.
        return await limited(signal, limit => aggregateRows(rowsOf(reader, query, limit), query))
      }),

    formats: (query, signal) =>
      within<readonly FoundFormat[]>(senmlFormat, signal, [], () =>
        limited(signal, async limit => {
          const filled = await filledTables(query, limit)
          return await formatsOf(filled.keys(), query, selection => seen(selection, filled.get(selection.format), query, limit))
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

/** To a server, which runs many statements at once and ends those that take too long. */
function inOne(run: Run): Questions {
  return {
    read: async (query, table, signal) => toRows(await run(selectPage(query, table), signal), table, query.channel),

    async count(selection, table, max, signal) {
      const [counted] = await run<{ total: bigint }>(selectCount(selection, table, max), signal)
      return Number(counted!.total)
    },

    async latest(query, table, signal) {
      const found = await run<SqlRow & { total: bigint; position: bigint | null }>(selectLatest(query, table, groupsMax), signal)
      const newest = found.filter(({ position }) => position !== null)
      return { groups: toRows(newest, table, query.channel), total: totalOf(found, 'series') }
    },

    async aggregate(query, signal) {
      const found = await run<BucketColumns & { total: bigint }>(selectBuckets(query, groupsMax), signal)
      const groups = found.filter(({ time_us: timeUs }) => timeUs !== null).map(row => toBucket(row, query.channel))
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
    return new StoreUnavailableError('the database holds no message tables: start a writer on it, which makes them', { cause: error })
  }
  if (error.sqlState === queryCanceled) return tooLong(error)
  if (error.transient) return new StoreUnavailableError(`the store cannot answer now: ${error.message}`, { cause: error })
  return error
}

function tooLong(cause: unknown): QueryTooLargeError {
  return new QueryTooLargeError('the store took longer than one query may: narrow it with name, publisher, from or to', { cause })
}
