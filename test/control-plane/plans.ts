// The statements that a database is sent, and what PostgreSQL would read for them: recorded while they run, explained afterwards.

import type { Database, Queries, SqlValue, Transaction } from '../../config/postgres/database.ts'
import { encodeValue } from '../../config/postgres/values.ts'

export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

export interface Answered extends Statement {
  /** How many rows came back. */
  readonly rows: number
}

/** The database, of which `note` hears each statement with values when it is answered, those of transactions too. */
export function recording(database: Database, note: (statement: Answered) => void): Database {
  const noted = (queries: Queries): Queries['query'] => {
    return async (sql, values = []) => {
      const rows = await queries.query<never>(sql, values)
      note({ sql, values, rows: rows.length })
      return rows
    }
  }
  return {
    ...database,
    query: noted(database),
    transaction: (work, signal) =>
      database.transaction(transaction => work({ ...transaction, query: noted(transaction) } satisfies Transaction), signal),
  }
}

/** A node of PostgreSQL's `EXPLAIN (FORMAT JSON)`. */
export interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  /** Where the statement was run: the rows of one of its loops. */
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  /** Of one loop, too: read, and not given on. */
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Plan[]
}

/** Planned for the values of the statement, or once for all values, as a prepared one may be. */
export const plannedFor = ['its values', 'all values'] as const
type PlannedFor = (typeof plannedFor)[number]

/** Nothing is run. */
export function planOf(database: Database, statement: Statement, planned: PlannedFor): Promise<Plan> {
  return explain(database, statement, planned, '')
}

/** Runs a SELECT. @returns how many rows the scans of a table looked at */
export async function rowsRead(database: Database, statement: Statement, planned: PlannedFor, table: string): Promise<number> {
  const rowsOf = (plan: Plan): number => {
    const ofLoop = plan['Actual Rows']! + (plan['Rows Removed by Filter'] ?? 0)
    const own = plan['Relation Name'] === table ? ofLoop * plan['Actual Loops']! : 0
    return (plan.Plans ?? []).reduce((sum, below) => sum + rowsOf(below), own)
  }
  return rowsOf(await explain(database, statement, planned, 'ANALYZE, '))
}

async function explain(database: Database, { sql, values }: Statement, planned: PlannedFor, options: '' | 'ANALYZE, '): Promise<Plan> {
  const literals = values.map(value => (value === null ? 'NULL' : `'${encodeValue(value)!.replaceAll("'", "''")}'`))
  const [row] = await database.transaction(async transaction => {
    const mode = planned === 'all values' ? 'force_generic_plan' : 'force_custom_plan'
    await transaction.execute(`SET LOCAL plan_cache_mode = ${mode}; PREPARE explained AS ${sql}`)
    const execute = `EXECUTE explained${values.length === 0 ? '' : `(${literals.join(', ')})`}`
    const rows = await transaction.query(`EXPLAIN (${options}FORMAT JSON) ${execute}`)
    await transaction.execute('DEALLOCATE explained')
    return rows
  })
  return (JSON.parse(row!['QUERY PLAN'] as string) as [{ Plan: Plan }])[0].Plan
}

/** Tables by name, each with its indexes by name and the column that an index begins with. */
export type Tables = ReadonlyMap<string, ReadonlyMap<string, string>>

/** The tables of the control plane that have so many rows, as of the last ANALYZE. */
export async function largeTables(database: Database, rowsMin: number): Promise<Tables> {
  const rows = await database.query<{ table_name: string; index_name: string; column_name: string }>(
    `SELECT tables.relname::text AS table_name, indexes.relname::text AS index_name, pg_get_indexdef(indexrelid, 1, true) AS column_name
     FROM pg_class AS tables JOIN pg_index ON indrelid = tables.oid JOIN pg_class AS indexes ON indexes.oid = indexrelid
     WHERE tables.relnamespace = 'control_plane'::regnamespace AND tables.reltuples >= $1`,
    [rowsMin],
  )
  const tables = new Map<string, Map<string, string>>()
  for (const { table_name: table, index_name: index, column_name: column } of rows) {
    tables.set(table, (tables.get(table) ?? new Map<string, string>()).set(index, column))
  }
  return tables
}

/** Which of the tables a plan reads from end to end: itself, or an index without a condition on the column that it begins with. */
export function tablesReadWhole(plan: Plan, tables: Tables): string[] {
  const found = new Set<string>()
  collect(plan, undefined, tables, found)
  return [...found]
}

function collect(plan: Plan, above: string | undefined, tables: Tables, found: Set<string>): void {
  // A scan of an index for a bitmap does not name its table: the scan by the bitmap above it does.
  const table = plan['Relation Name'] ?? above
  const columnOf = tables.get(table ?? '')
  if (table !== undefined && columnOf !== undefined) {
    const { 'Node Type': type, 'Index Name': index, 'Index Cond': condition = '' } = plan
    if (type === 'Seq Scan') found.add(table)
    if (index !== undefined && !condition.includes(columnOf.get(index) ?? index)) found.add(table)
  }
  for (const below of plan.Plans ?? []) collect(below, table, tables, found)
}
