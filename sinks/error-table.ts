// The table of what a store's errors mean. Each store has one, in its errors.ts.

import type { ErrorClass } from './sink.ts'
import { SinkError } from './sink-error.ts'

/**
 * - transient: the same write is retried until it succeeds
 * - data: the row can never be stored, so its message is rejected. Outside of a row's write it counts as systemic
 * - systemic: the writer stops
 */
export type Meaning = 'transient' | 'data' | 'systemic'

export interface ErrorRow {
  /** What the store or its driver reports: a code, a status, the name of a class. */
  readonly key: number | string
  readonly name: string
  readonly meaning: Meaning
  /** What an operator should do about it. */
  readonly advice?: string
}

/** Finds the row of a key. A key without a row is systemic: no table lists everything that a store may report. */
export type ErrorTable = (key: number | string) => ErrorRow | undefined

export function errorTable(rows: readonly ErrorRow[]): ErrorTable {
  const byKey = new Map(rows.map(row => [row.key, row]))
  return key => byKey.get(key)
}

/** Classifies an error of `openSink`, `write` or `maintain`. `meaningOf` classifies errors of the store's driver. */
export function classOf(error: unknown, meaningOf: (error: Error) => Meaning): ErrorClass {
  if (error instanceof SinkError) return error.errorClass
  if (!(error instanceof Error)) return 'systemic'
  // The caller's signal aborted it: nothing is wrong with the store.
  if (error.name === 'AbortError') return 'transient'
  // A data error rejects a message only while its row is written. Anywhere else no message caused it.
  return meaningOf(error) === 'transient' ? 'transient' : 'systemic'
}
