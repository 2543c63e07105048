// The reader of a PostgreSQL store: runs the statements of select.ts and gives their rows the canonical form.

import { type Database, DatabaseError, type SqlRow } from '../../config/postgres/database.ts'
import { aggregateRows } from '../groups.ts'
import { rowsOf } from '../parts.ts'
import type { AggregateQuery, PageQuery, Selection } from '../query.ts'
import {
  type Bucket,
  type DocumentRow,
  type Grouped,
  groupsMax,
  QueryTooLargeError,
  type Reader,
  type Row,
  type SenmlRow,
  StoreUnavailableError,
  senmlFormat,
  tooManyGroups,
} from '../reader.ts'
import { selectBuckets, selectCount, selectLatest, selectPage, selectTable } from './select.ts'
import type { Statement } from './statement.ts'

export interface PostgresReaderParts {
  /**
   * Stays the caller's: closing the reader does not close it. A server's has the statement timeout that one question may take, and watches
   * its clients, so that what nobody waits for ends.
   */
  readonly database: Database
  /** That one question may take in all where it is many statements; 30 s without it. */
  readonly queryTimeoutMs?: number
}

/** SQLSTATE of what is not there: a table, a schema. */
const missing: ReadonlySet<string> = new Set(['42P01', '3F000'])
/** A statement timeout: of ours, or of the database's own. */
const timedOut = '57014'
/** A sum beyond the range of a double. */
const outOfRange = '22003'
const tablesRememberedMax = 10_000

/** Opens a reader over the tables that the PostgreSQL sink keeps. It makes none: before the first writer there is nothing to read. */
export function openPostgresReader({ database, queryTimeoutMs = 30_000 }: PostgresReaderParts): Reader {
  // Formats keep their table until somebody drops it, so only what was found is remembered.
  const tables = new Map<string, string>()

  const run = <Columns extends SqlRow>({ sql, values }: Statement, signal: AbortSignal): Promise<Columns[]> =>
    database.query<Columns>(sql, values, { signal })

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

  const reader: Reader = {
    read: (query: PageQuery, signal) =>
      within<readonly Row[]>(query.format, signal, [], async table =>
        toRows(await run(selectPage(query, table), signal), table, query.channel),
      ),

    count: (selection: Selection, max, signal) =>
      within(selection.format, signal, 0, async table => {
        const [counted] = await run<{ total: bigint }>(selectCount(selection, table, max), signal)
        return Number(counted!.total)
      }),

    latest: (query: PageQuery, signal) =>
      within<Grouped<Row>>(query.format, signal, { groups: [], total: 0 }, async table => {
        const found = await run<SqlRow & { total: bigint; position: bigint | null }>(selectLatest(query, table, groupsMax), signal)
        return {
          groups: toRows(
            found.filter(({ position }) => position !== null),
            table,
            query.channel,
          ),
          total: totalOf(found, 'series'),
        }
      }),

    aggregate: (query: AggregateQuery, signal) =>
      within<Grouped<Bucket>>(query.format, signal, { groups: [], total: 0 }, async () => {
        const limit = AbortSignal.timeout(queryTimeoutMs)
        try {
          const found = await run<BucketColumns>(selectBuckets(query, groupsMax), signal)
          const groups = found.filter(({ time_us: timeUs }) => timeUs !== null).map(row => toBucket(row, query.channel))
          return { groups, total: totalOf(found, 'buckets') }
        } catch (error) {
          if (!(error instanceof DatabaseError) || error.sqlState !== outOfRange) throw error
        }
        try {
          // Doubles in this process go beyond their range without an error.
          return await aggregateRows(rowsOf(reader, query, AbortSignal.any([signal, limit])), query)
        } catch (error) {
          throw limit.aborted ? tooLong(error) : error
        }
      }),

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
  if (error.sqlState === timedOut) return tooLong(error)
  if (error.transient) return new StoreUnavailableError(`the store cannot answer now: ${error.message}`, { cause: error })
  return error
}

function tooLong(cause: unknown): QueryTooLargeError {
  return new QueryTooLargeError('the store took longer than one question may: ask for less by name, publisher, from and to', { cause })
}

/** The columns of select.ts, in the forms of the port. */
interface RecordColumns extends SqlRow {
  position: bigint
  index: number
  subtopic: string
  publisher: string
  protocol: string
  name: string
  unit: string | null
  time_us: bigint
  value: number | null
  string_value: string | null
  bool_value: boolean | null
  data_value: Uint8Array | null
  sum: number | null
  update_time: number | null
}

interface DocumentColumns extends SqlRow {
  position: bigint
  index: number
  subtopic: string
  publisher: string
  protocol: string
  created: bigint
  payload: string
}

interface BucketColumns extends SqlRow {
  total: bigint
  publisher: string
  subtopic: string
  name: string
  unit: string | null
  /** null where there is no bucket, only the total. */
  time_us: bigint | null
  count: bigint
  value: number
}

function toRows(found: readonly SqlRow[], table: string | undefined, channel: string): Row[] {
  return table === undefined
    ? found.map(row => toSenmlRow(row as RecordColumns, channel))
    : found.map(row => toDocumentRow(row as DocumentColumns, channel))
}

function toBucket({ publisher, subtopic, name, unit, time_us: timeUs, count, value }: BucketColumns, channel: string): Bucket {
  return { channel, publisher, subtopic, name, unit: unit ?? undefined, timeUs: Number(timeUs), value, count: Number(count) }
}

function toSenmlRow(row: RecordColumns, channel: string): SenmlRow {
  return {
    kind: 'senml',
    channel,
    subtopic: row.subtopic,
    publisher: row.publisher,
    protocol: row.protocol,
    position: row.position,
    index: row.index,
    name: row.name,
    unit: row.unit ?? undefined,
    timeUs: Number(row.time_us),
    value: row.value ?? undefined,
    stringValue: row.string_value ?? undefined,
    boolValue: row.bool_value ?? undefined,
    dataValue: row.data_value ?? undefined,
    sum: row.sum ?? undefined,
    updateTime: row.update_time ?? undefined,
  }
}

function toDocumentRow(row: DocumentColumns, channel: string): DocumentRow {
  return {
    kind: 'document',
    channel,
    subtopic: row.subtopic,
    publisher: row.publisher,
    protocol: row.protocol,
    position: row.position,
    index: row.index,
    createdNs: row.created,
    payloadText: row.payload,
  }
}
