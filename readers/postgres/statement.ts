// A statement while it is being written: its values become $1, $2 …, and nothing of them its text.

import type { SqlValue } from '../../config/postgres/database.ts'

export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

export interface StatementText {
  /** Where the value stands: `$3`. */
  value(value: SqlValue): string
  finish(sql: string): Statement
}

export function openStatement(): StatementText {
  const values: SqlValue[] = []
  return {
    value(value) {
      values.push(value)
      return `$${values.length}`
    },
    finish: sql => ({ sql, values }),
  }
}
