// A statement with its values.

import type { SqlValue } from '../../database/database.ts'

/** SQL and the values of its parameters. */
export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

/** Collects the values of a statement while its text is built. */
export interface StatementText {
  /** Adds a value and returns its placeholder: `$3`. */
  value(value: SqlValue): string
  finish(sql: string): Statement
}

/** A statement without values so far. */
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
