// The reader of a PostgreSQL store: runs the statements of select.ts and converts their rows to the canonical form.

import { setBounded } from '../../config/bounded-map.ts'
import { type Database, DatabaseError, queryCanceled, type SqlRow } from '../../database/database.ts'
import { formatsOf } from '../formats.ts'
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
import { isOfDocuments, type RecordScope, type Scope } from './conditions.ts'
import { embeddedQueries, type Queries, type Run } from './embedded-queries.ts'
import { type BucketColumns, type FormatColumns, type NumberColumns, type SubtopicColumns, toBucket, toRows, toSeen } from './rows.ts'
import { selectCount, selectFilled, selectNumbers, selectPage, selectSubtopics, selectTable, selectTables } from './select.ts'
import { selectBuckets, selectLatest } from './select-groups.ts'

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
  /** Most series of records that are read one by one; other than it would choose by itself. */
  readonly seriesMax?: number
}

/** SQLSTATEs for a missing table or schema. */
const missing: ReadonlySet<string> = new Set(['42P01', '3F000'])
/** SQLSTATE for a sum beyond the range of a double. */
const outOfRange = '22003'
/**
 * Most series with names that are read one by one, each by its index. With more of them the rows of the channel are read, and those of other series left
 * out. On a server those of one publisher always are: a channel may have many times as many others. Embedded, a piece looks at each of them, and at each
 * rest, of which there are no more either.
 */
const seriesOneByOne = { server: 200, serverOfPublisher: 100_000_000, embedded: 1000 } as const
/** With more series than this, a server looks for a page among the channel's next records first, as many as there are series. */
const looksMax = 1000
const tablesRememberedMax = 10_000
/** Tables in one statement. Planning takes 5 ms, or 12 ms if the connection does not know the tables yet. */
const tablesTogetherMax = 32

/** Opens a reader of the PostgreSQL sink's tables. It creates nothing: before the first writer there is nothing to read. */
export function openPostgresReader({ database, queryTimeoutMs = 30_000, pieceRowsMax, seriesMax }: PostgresReaderParts): Reader {
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

  /** Returns undefined if the channel or its series that the filter asks for have no records. */
  async function scopeOf(filter: Filter, signal: AbortSignal): Promise<RecordScope | undefined> {
    const onServer = filter.publisher === undefined ? seriesOneByOne.server : seriesOneByOne.serverOfPublisher
    const most = seriesMax ?? (isEmbedded ? seriesOneByOne.embedded : onServer)
    const [numbers] = await run<NumberColumns>(selectNumbers(filter, most), signal)
    if (numbers === undefined) return undefined
    const series = typeof numbers.series === 'string' ? (JSON.parse(numbers.series) as number[]) : undefined
    if (series?.length === 0) return undefined
    return { channel: numbers.channel, series: isEmbedded && series !== undefined && series.length > most ? undefined : series }
  }

  async function guarded<Found>(signal: AbortSignal, work: () => Promise<Found>): Promise<Found> {
    signal.throwIfAborted()
    try {
      return await work()
    } catch (error) {
      throw signal.aborted ? signal.reason : readError(error)
    }
  }

  /** Limits the time of several statements: a server limits each of them, and the embedded database none. */
  const limited = <Found>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<Found>): Promise<Found> =>
    withinTimeLimit(signal, { timeoutMs: queryTimeoutMs }, limit => work(limit.signal))
  const asked = isEmbedded ? limited : <Found>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<Found>) => work(signal)

  /** Returns what `work` finds in the filter's scope, or `nothing` if there is none. */
  const within = <Found>(
    filter: Filter,
    signal: AbortSignal,
    nothing: Found,
    work: (scope: Scope, signal: AbortSignal) => Promise<Found>,
  ): Promise<Found> =>
    guarded(signal, () =>
      asked(signal, limit =>
        filter.format === senmlFormat ? withinRecords(filter, limit, nothing, work) : withinTable(filter.format, limit, nothing, work),
      ),
    )

  /** Returns what `work` finds among the channel's records, or `nothing` if there are none. */
  async function withinRecords<Found>(
    filter: Filter,
    signal: AbortSignal,
    nothing: Found,
    work: (scope: RecordScope, signal: AbortSignal) => Promise<Found>,
  ): Promise<Found> {
    const scope = await scopeOf(filter, signal)
    return scope === undefined ? nothing : await work(scope, signal)
  }

  async function withinTable<Found>(
    format: string,
    signal: AbortSignal,
    nothing: Found,
    work: (scope: Scope, signal: AbortSignal) => Promise<Found>,
  ): Promise<Found> {
    const table = await tableOf(format, signal)
    if (table === undefined) return nothing
    try {
      return await work({ table }, signal)
    } catch (error) {
      if (!isMissing(error) || !tables.delete(format)) throw error
    }
    // The table was dropped or renamed after it was remembered.
    const tableNow = await tableOf(format, signal)
    return tableNow === undefined ? nothing : await work({ table: tableNow }, signal)
  }

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

  const reader: Reader = {
    read: (query, signal) => within<readonly Row[]>(query, signal, [], (scope, limit) => queries.read(query, scope, limit)),

    count: (filter, max, signal) => within(filter, signal, 0, (scope, limit) => queries.count(filter, scope, max, limit)),

    latest: (query, signal) =>
      within<Grouped<Row>>(query, signal, { groups: [], total: 0 }, (scope, limit) => queries.latest(query, scope, limit)),

    aggregate: (query, signal) =>
      guarded<Grouped<Bucket>>(signal, async () => {
        try {
          const aggregate = (scope: RecordScope, limit: AbortSignal) => queries.aggregate(query, scope, limit)
          return await asked(signal, limit => withinRecords(query, limit, { groups: [], total: 0 }, aggregate))
        } catch (error) {
          if (!(error instanceof DatabaseError) || error.sqlState !== outOfRange) throw error
        }
        // Sums in this process become infinite instead of failing.
        return await limited(signal, limit => aggregateRows(rowsOf(reader, query, limit), query))
      }),

    formats: (query, signal) =>
      guarded<readonly FoundFormat[]>(signal, () =>
        limited(signal, async limit => {
          const filled = await filledTables(query, limit)
          return await formatsOf(filled.keys(), query, async filter => {
            const table = filled.get(filter.format)
            const scope = table === undefined ? await scopeOf(filter, limit) : { table }
            return scope === undefined ? { lastUs: new Map(), hasMore: false } : await queries.subtopics(filter, scope, query, limit)
          })
        }),
      ),

    async check() {
      try {
        await database.query('SELECT 1 FROM sluice.channels, sluice.series, sluice.records LIMIT 0')
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
    async read(query, scope, signal) {
      const looks = isOfDocuments(scope) ? 0 : (scope.series?.length ?? 0)
      if (looks > looksMax) {
        const found = await run(selectPage(query, { ...scope, series: undefined }, looks), signal)
        if (found.length === query.limit) return toRows(found, scope, query.channel)
      }
      return toRows(await run(selectPage(query, scope), signal), scope, query.channel)
    },

    async count(filter, scope, max, signal) {
      const [counted] = await run<{ total: bigint }>(selectCount(filter, scope, max), signal)
      return Number(counted!.total)
    },

    async latest(query, scope, signal) {
      const found = await run<SqlRow & { total: bigint; position: bigint | null }>(selectLatest(query, scope, groupsMax), signal)
      const newest = found.filter(({ position }) => position !== null)
      return { groups: toRows(newest, scope, query.channel), total: totalOf(found, 'series') }
    },

    async aggregate(query, scope, signal) {
      const found = await run<BucketColumns & { total: bigint }>(selectBuckets(query, scope, groupsMax), signal)
      const groups = found.filter(({ time_us: timeUs }) => timeUs !== null).map(row => toBucket(row, query.channel, query.aggregation))
      return { groups, total: totalOf(found, 'buckets') }
    },

    subtopics: async (filter, scope, limits, signal) =>
      toSeen(await run<SubtopicColumns>(selectSubtopics(filter, scope, limits), signal), limits.rowsMax),
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
