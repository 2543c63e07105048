// How many rows a statement looks at.

import type { Database, SqlValue } from '../../../database/database.ts'

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly Plans?: readonly Plan[]
  readonly [removed: `Rows Removed by ${string}`]: number
}

/**
 * Rows that the scans of a statement look at, whether they take them or not, and pairs that its joins compare for nothing.
 *
 * @param isCounted whether a table counts; undefined is the result of a part of the statement
 */
export async function lookedAt(
  database: Database,
  sql: string,
  values: readonly SqlValue[],
  isCounted: (table: string | undefined) => boolean = () => true,
): Promise<number> {
  const [explained] = await database.query<{ 'QUERY PLAN': string }>(`EXPLAIN (ANALYZE, FORMAT JSON, TIMING off) ${sql}`, values)
  const readBy = (plan: Plan): number => {
    const removed = (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Index Recheck'] ?? 0)
    const isScan = /^(Seq|Index|Index Only|Bitmap Heap|CTE) Scan$/.test(plan['Node Type']) && isCounted(plan['Relation Name'])
    const scanned = isScan ? plan['Actual Rows'] + removed : 0
    const own = plan['Actual Loops'] * (scanned + (plan['Rows Removed by Join Filter'] ?? 0))
    return own + (plan.Plans ?? []).reduce((sum, below) => sum + readBy(below), 0)
  }
  return readBy((JSON.parse(explained!['QUERY PLAN']) as [{ Plan: Plan }])[0].Plan)
}

/** Of a table of records: no series, and no results. */
export function isOfRecords(table: string | undefined): boolean {
  return table?.startsWith('records_') === true
}
