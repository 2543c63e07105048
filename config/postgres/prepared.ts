// Which statements a server prepares, once on each connection: the texts that are asked again, under names that follow from them.
//
// A pooler in transaction mode hands a connection, and what was prepared on it, from one process to another. A name is therefore made of its text alone:
// wherever it is found, it has the right one.
//
// Names are bounded in all, because pg never gives one up again and a server keeps what has one for as long as the connection. So none is spent on a text
// that is asked once, nor taken back from one that has cooled; what comes later is sent whole, which takes a tenth of a millisecond more.

import { hash } from 'node:crypto'
import { DatabaseError } from './database.ts'

/** As many statements as a process can leave on a connection: names of later generations count too. */
const namesMax = 256
/** A text that was refused under so many names has none from then on: it may be refused under each. */
const generationsMax = 8
/** Hashes of texts that were asked once, the newest of them: 100 kB. */
const askedOnceMax = 1024

/** `invalid_sql_statement_name` and `duplicate_prepared_statement`: a pooler gives each statement another connection. */
const ofPoolers: ReadonlySet<string> = new Set(['26000', '42P05'])
/** `feature_not_supported`: the columns of the answer have other types than when it was prepared, or the statement itself asks for what there is not. */
const ofOtherColumns = '0A000'

export interface Prepared {
  /** @returns undefined where the statement is sent whole */
  nameOf(sql: string): string | undefined
  /**
   * True where the name may be at fault, and not the statement, of which nothing is stored then: asked anew, it has another name or none. After
   * eight names it has none, so that asking for as long as this is true ends.
   *
   * @param name the one that it failed under: connections that fail together go on to the same next one
   */
  forgets(sql: string, name: string, error: unknown): boolean
}

export function openPrepared(): Prepared {
  const names = new Map<string, { name: string | undefined; generation: number }>()
  const askedOnce = new Set<string>()
  let given = 0
  let hasPooler = false

  function nameAfresh(sql: string, generation: number): string | undefined {
    const isGiven = generation < generationsMax && given < namesMax
    // 41 of the 63 bytes that PostgreSQL keeps of a name.
    const name = isGiven ? `sluice_${hashOf(sql)}_${generation}` : undefined
    if (isGiven) given += 1
    names.set(sql, { name, generation })
    return name
  }

  function isAskedAgain(sql: string): boolean {
    const hashed = hashOf(sql)
    if (askedOnce.delete(hashed)) return true
    if (askedOnce.size >= askedOnceMax) askedOnce.delete(askedOnce.values().next().value!)
    askedOnce.add(hashed)
    return false
  }

  return {
    nameOf(sql) {
      if (hasPooler) return undefined
      const known = names.get(sql)
      if (known !== undefined) return known.name
      return given < namesMax && isAskedAgain(sql) ? nameAfresh(sql, 0) : undefined
    },
    forgets(sql, name, error) {
      if (!(error instanceof DatabaseError)) return false
      const known = names.get(sql)
      if (ofPoolers.has(error.sqlState)) hasPooler = true
      else if (error.sqlState !== ofOtherColumns) return false
      else if (known?.name === name) nameAfresh(sql, known.generation + 1)
      return true
    },
  }
}

function hashOf(sql: string): string {
  return hash('sha256', sql).slice(0, 32)
}
