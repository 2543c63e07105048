// What PostgreSQL's errors mean for a batch, by SQLSTATE (PostgreSQL manual, "PostgreSQL Error Codes").

import { DatabaseError } from '../../database/database.ts'
import { classOf, type ErrorRow, errorTable, type Meaning } from '../error-table.ts'
import type { ErrorClass } from '../sink.ts'

/** By SQLSTATE, or by its class, the first two characters; `none` if there was no answer. An SQLSTATE that is not listed is systemic. */
export const errorRows: readonly ErrorRow[] = [
  { key: 'none', name: 'the connection failed', meaning: 'transient' },
  { key: '08', name: 'connection exception', meaning: 'transient' },
  { key: '25', name: 'invalid transaction state: for example, the server is read-only after a failover', meaning: 'transient' },
  { key: '40', name: 'transaction rollback: a deadlock', meaning: 'transient' },
  { key: '53', name: 'insufficient resources: the disk is full, too many connections', meaning: 'transient' },
  { key: '55', name: 'object not in prerequisite state: a lock timed out', meaning: 'transient' },
  { key: '57', name: 'operator intervention: a statement timeout, a shutdown', meaning: 'transient' },
  { key: '58', name: 'system error: a file of the server is missing or cannot be read', meaning: 'transient' },
  { key: '22', name: 'data exception: a NUL, a number out of range', meaning: 'data' },
  { key: '54000', name: 'program limit exceeded: a value is too large for an index', meaning: 'data' },
  { key: '22P03', name: 'invalid binary representation: a column does not have the type that sluice expects', meaning: 'systemic' },
  { key: '22P04', name: 'bad COPY file format: a column does not have the type that sluice expects', meaning: 'systemic' },
  { key: '23', name: "integrity constraint violation: a constraint that is not sluice's", meaning: 'systemic' },
  { key: '28', name: 'invalid authorization: the role or its password', meaning: 'systemic' },
  { key: '3D', name: 'the database is missing', meaning: 'systemic' },
  { key: '42', name: 'a table, a column or a permission is missing', meaning: 'systemic' },
]
const rowOf = errorTable(errorRows)

export function meaningOf(sqlState: string): Meaning {
  const row = sqlState === '' ? rowOf('none') : (rowOf(sqlState) ?? rowOf(sqlState.slice(0, 2)))
  return row?.meaning ?? 'systemic'
}

/** Classifies an error of `openSink` or `write`. */
export function classify(error: unknown): ErrorClass {
  return classOf(error, failure => (failure instanceof DatabaseError ? meaningOf(failure.sqlState) : 'systemic'))
}

/** True if the store refuses a row because of its content. */
export function isDataError(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && meaningOf(error.sqlState) === 'data'
}

/** 42501, insufficient_privilege. */
export const denied = '42501'
/** 42P01, undefined_table. */
export const missingTable = '42P01'
/** 55P03, lock_not_available: a lock timed out. */
export const lockTimeout = '55P03'

export function isAnswer(error: unknown, sqlState: string): error is DatabaseError {
  return error instanceof DatabaseError && error.sqlState === sqlState
}
