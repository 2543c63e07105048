// Decides which statements are prepared on a connection: texts that are sent repeatedly, under names derived from the text.
//
// A pooler in transaction mode passes a connection, with its prepared statements, from one process to another. A name is therefore derived from the
// text alone: wherever the name exists, it stands for the right text.
//
// The number of names is bounded, because pg never releases one and a server keeps prepared statements as long as the connection. So a text that is sent
// once gets no name, and a name is never reused for another text. Once the names are used up, further texts are sent unprepared, which takes 0.1 ms more.

import { hash } from 'node:crypto'
import { DatabaseError } from './database.ts'

/** The most statements that a process leaves prepared on a connection. */
const namesMax = 256
/** The latest hashes of texts that were sent once: 100 kB. */
const askedOnceMax = 1024

/** `invalid_sql_statement_name` and `duplicate_prepared_statement`: a pooler uses another connection for each statement. */
const poolerStates: ReadonlySet<string> = new Set(['26000', '42P05'])
/** `feature_not_supported`: the result's column types have changed since the statement was prepared. */
const columnsChangedState = '0A000'

export interface Prepared {
  /** @returns undefined if the statement is sent unprepared */
  nameOf(sql: string): string | undefined
  /** True if the prepared name may have caused the error; the statement has then had no effect. The text gets no name from then on. */
  forgets(sql: string, error: unknown): boolean
}

export function openPrepared(): Prepared {
  const names = new Map<string, string | undefined>()
  const askedOnce = new Set<string>()
  let hasPooler = false

  function isAskedAgain(hashed: string): boolean {
    if (askedOnce.delete(hashed)) return true
    if (askedOnce.size >= askedOnceMax) askedOnce.delete(askedOnce.values().next().value!)
    askedOnce.add(hashed)
    return false
  }

  return {
    nameOf(sql) {
      if (hasPooler) return undefined
      if (names.has(sql) || names.size >= namesMax) return names.get(sql)
      const hashed = hash('sha256', sql).slice(0, 32)
      if (!isAskedAgain(hashed)) return undefined
      const name = `sluice_${hashed}`
      names.set(sql, name)
      return name
    },
    forgets(sql, error) {
      if (!(error instanceof DatabaseError)) return false
      if (poolerStates.has(error.sqlState)) hasPooler = true
      else if (error.sqlState === columnsChangedState) names.set(sql, undefined)
      else return false
      return true
    },
  }
}
