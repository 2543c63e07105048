// The statements that are sent to a database, and what PostgreSQL would read for them: recorded while they run, explained afterwards.

import type { Database, Queries, SqlValue, Transaction } from '../../database/database.ts'
import { encodeValue } from '../../database/values.ts'

export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

export interface Answered extends Statement {
  /** How many rows came back. */
  readonly rows: number
}

const timeLimit = 'SET LOCAL statement_timeout'

/**
 * The database, which calls `note` with each statement and its values when it is answered, also in transactions. Statements are not limited in time: what
 * they read is judged by their plans, and a busy machine may take longer for it.
 */
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
      database.transaction(transaction => {
        const execute: Transaction['execute'] = async sql => {
          if (!sql.startsWith(timeLimit)) await transaction.execute(sql)
        }
        return work({ ...transaction, query: noted(transaction), execute } satisfies Transaction)
      }, signal),
  }
}

/** A node of PostgreSQL's `EXPLAIN (FORMAT JSON)`. */
export interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  /** If the statement was run: the rows of one of its loops. */
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  /** Also of one loop: rows that were read and filtered out. */
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Plan[]
}

/** Planned for the values of the statement, or once for all values, as for a prepared statement. */
export const plannedFor = ['its values', 'all values'] as const
type PlannedFor = (typeof plannedFor)[number]

/** Does not run the statement. */
export function planOf(database: Database, statement: Statement, planned: PlannedFor): Promise<Plan> {
  return explain(database, statement, planned, '')
}

/** Runs a SELECT. @returns how many rows the scans of a table read */
export async function rowsRead(database: Database, statement: Statement, planned: PlannedFor, table: string): Promise<number> {
  const rowsOf = (plan: Plan): number => {
    const rowsPerLoop = plan['Actual Rows']! + (plan['Rows Removed by Filter'] ?? 0)
    const own = plan['Relation Name'] === table ? rowsPerLoop * plan['Actual Loops']! : 0
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

/** The tables of the control plane with at least that many rows, as of the last ANALYZE. */
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

/** Which of the tables a plan reads from end to end: the table itself, or an index without a condition on its first column. */
export function tablesReadWhole(plan: Plan, tables: Tables): string[] {
  const found = new Set<string>()
  collect(plan, undefined, tables, found)
  return [...found]
}

function collect(plan: Plan, above: string | undefined, tables: Tables, found: Set<string>): void {
  // The index scan of a bitmap does not name its table: the bitmap scan above it does.
  const table = plan['Relation Name'] ?? above
  const columnOf = tables.get(table ?? '')
  if (table !== undefined && columnOf !== undefined) {
    const { 'Node Type': type, 'Index Name': index, 'Index Cond': condition = '' } = plan
    if (type === 'Seq Scan') found.add(table)
    if (index !== undefined && !condition.includes(columnOf.get(index) ?? index)) found.add(table)
  }
  for (const below of plan.Plans ?? []) collect(below, table, tables, found)
}
