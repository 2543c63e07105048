// Which statements a server prepares, once on each connection: the first texts that are asked, each under a name of its own.
//
// They are bounded, since a server keeps them for each connection; what comes later is sent whole, which takes it a tenth of a millisecond more.

import { DatabaseError } from './database.ts'

const preparedMax = 256

/** `invalid_sql_statement_name` and `duplicate_prepared_statement`: a pooler gives each statement another connection. */
const ofPoolers: ReadonlySet<string> = new Set(['26000', '42P05'])
/** `feature_not_supported`: the columns of the answer have other types than when it was prepared. */
const ofOtherColumns = '0A000'

export interface Prepared {
  /** @returns undefined where the statement is sent whole */
  nameOf(sql: string): string | undefined
  /** True where the name was at fault, and not the statement, which has not run then: asked anew, it has another name or none. */
  forgets(sql: string, error: unknown): boolean
}

export function openPrepared(): Prepared {
  const names = new Map<string, string>()
  let named = 0
  let hasPooler = false
  return {
    nameOf(sql) {
      if (hasPooler) return undefined
      const known = names.get(sql)
      if (known !== undefined || names.size >= preparedMax) return known
      const name = `sluice_${++named}`
      names.set(sql, name)
      return name
    },
    forgets(sql, error) {
      if (!(error instanceof DatabaseError)) return false
      if (ofPoolers.has(error.sqlState)) hasPooler = true
      else if (error.sqlState === ofOtherColumns) names.delete(sql)
      else return false
      return true
    },
  }
}
