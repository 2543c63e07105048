// A statement while it is being written: its values become $1, $2 …, and nothing of them its text.

import { createHash } from 'node:crypto'
import type { SqlValue } from '../../config/postgres/database.ts'

export interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
  /** Of this text: a server prepares it once on each connection. */
  readonly name: string
}

export interface StatementText {
  /** Where the value stands: `$3`. */
  value(value: SqlValue): string
  finish(sql: string): Statement
}

const names = new Map<string, string>()
/** Texts are few: one for each combination of filters. */
const namesMax = 1000

export function openStatement(): StatementText {
  const values: SqlValue[] = []
  return {
    value(value) {
      values.push(value)
      return `$${values.length}`
    },
    finish: sql => ({ sql, values, name: nameOf(sql) }),
  }
}

function nameOf(sql: string): string {
  const known = names.get(sql)
  if (known !== undefined) return known
  const name = `sluice_${createHash('sha256').update(sql).digest('hex').slice(0, 24)}`
  if (names.size >= namesMax) names.clear()
  names.set(sql, name)
  return name
}
