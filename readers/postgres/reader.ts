// The reader of a PostgreSQL store: runs the statements of select.ts and gives their rows the canonical form.

import { type Database, DatabaseError, type SqlRow } from '../../config/postgres/database.ts'
import type { Query } from '../query.ts'
import { type DocumentRow, type Page, type Reader, type Row, type SenmlRow, StoreUnavailableError, senmlFormat } from '../reader.ts'
import type { PostgresReaderOptions } from './options.ts'
import { type Statement, selectPage, selectTable, selectTotal } from './select.ts'

export interface PostgresReaderParts {
  /** Stays the caller's: closing the reader does not close it. */
  readonly database: Database
  readonly options: PostgresReaderOptions
}

/** SQLSTATE of what is not there: a table, a schema. */
const missing: ReadonlySet<string> = new Set(['42P01', '3F000'])
const tablesRememberedMax = 10_000
const emptyPage: Page = { rows: [], total: 0, totalExact: true }

/** Opens a reader over the tables that the PostgreSQL sink keeps. It makes none: before the first writer there is nothing to read. */
export function openPostgresReader({ database, options }: PostgresReaderParts): Reader {
  // Formats keep their table until somebody drops it, so only what was found is remembered.
  const tables = new Map<string, string>()

  const run = <Columns extends SqlRow>({ sql, values }: Statement): Promise<Columns[]> => database.query<Columns>(sql, values)

  async function tableOf(format: string): Promise<string | undefined> {
    const remembered = tables.get(format)
    if (remembered !== undefined) return remembered
    const [row] = await run<{ table_name: string }>(selectTable(format))
    if (row === undefined) return undefined
    if (tables.size >= tablesRememberedMax) tables.clear()
    tables.set(format, row.table_name)
    return row.table_name
  }

  async function readFrom(table: string | undefined, query: Query, signal: AbortSignal): Promise<Page> {
    const page = selectPage(query, table)
    const rows: Row[] =
      table === undefined
        ? (await run<RecordColumns>(page)).map(row => toSenmlRow(row, query.channel))
        : (await run<DocumentColumns>(page)).map(row => toDocumentRow(row, query.channel))
    const seen = query.offset + rows.length
    // A page that is not full shows the end, unless the offset lies beyond it.
    if (rows.length < query.limit && (rows.length > 0 || query.offset === 0)) return { rows, total: seen, totalExact: true }
    signal.throwIfAborted()
    const [counted] = await run<{ total: bigint }>(selectTotal(query, table, options.countMax))
    const total = Number(counted!.total)
    // Rows that came between the two statements are in the count only, and a full page may lie beyond what is counted.
    if (total <= options.countMax) return { rows, total: rows.length > 0 ? Math.max(total, seen) : total, totalExact: true }
    return { rows, total: Math.max(options.countMax, rows.length > 0 ? seen : 0), totalExact: false }
  }

  async function read(query: Query, signal: AbortSignal): Promise<Page> {
    if (query.format === senmlFormat) return await readFrom(undefined, query, signal)
    const table = await tableOf(query.format)
    if (table === undefined) return emptyPage
    try {
      return await readFrom(table, query, signal)
    } catch (error) {
      if (!isMissing(error) || !tables.delete(query.format)) throw error
    }
    // The table was dropped, or given another name, after it was remembered.
    const tableNow = await tableOf(query.format)
    return tableNow === undefined ? emptyPage : await readFrom(tableNow, query, signal)
  }

  return {
    async read(query, signal) {
      signal.throwIfAborted()
      try {
        return await read(query, signal)
      } catch (error) {
        throw readError(error)
      }
    },
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
}

function isMissing(error: unknown): boolean {
  return error instanceof DatabaseError && missing.has(error.sqlState)
}

function readError(error: unknown): unknown {
  if (!(error instanceof DatabaseError)) return error
  if (isMissing(error)) {
    return new StoreUnavailableError('the database holds no message tables: start a writer on it, which makes them', { cause: error })
  }
  if (error.transient) return new StoreUnavailableError(`the store cannot answer now: ${error.message}`, { cause: error })
  return error
}

/** The columns of select.ts, in the forms of the port. */
interface RecordColumns extends SqlRow {
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
  subtopic: string
  publisher: string
  protocol: string
  created: bigint
  payload: string
}

function toSenmlRow(row: RecordColumns, channel: string): SenmlRow {
  return {
    kind: 'senml',
    channel,
    subtopic: row.subtopic,
    publisher: row.publisher,
    protocol: row.protocol,
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
    createdNs: row.created,
    payloadText: row.payload,
  }
}
