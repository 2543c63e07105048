// A database whose connection can be cut for a while, to show what a writer does without its store.

import { type Database, DatabaseError } from './database.ts'

export interface FailingDatabase extends Database {
  /** Lets everything that begins from now on fail like a lost connection; a second call does not extend it. */
  failFor(forMs: number): void
  /** Milliseconds since 1970; undefined while it is not cut. */
  failsUntilMs(): number | undefined
}

export function openFailingDatabase(database: Database): FailingDatabase {
  let untilMs: number | undefined

  function failsUntilMs(): number | undefined {
    if (untilMs !== undefined && untilMs <= Date.now()) untilMs = undefined
    return untilMs
  }

  async function unlessFailing<Result>(work: () => Promise<Result>): Promise<Result> {
    if (failsUntilMs() !== undefined)
      throw new DatabaseError('the connection was cut by the demonstration', { sqlState: '', cause: undefined })
    return work()
  }

  return {
    kind: database.kind,
    connectionsMax: database.connectionsMax,
    query: (...of) => unlessFailing(() => database.query(...of)),
    run: (...of) => unlessFailing(() => database.run(...of)),
    transaction: (...of) => unlessFailing(() => database.transaction(...of)),
    execute: sql => unlessFailing(() => database.execute(sql)),
    close: () => database.close(),
    failFor(forMs) {
      if (failsUntilMs() === undefined) untilMs = Date.now() + forMs
    },
    failsUntilMs,
  }
}
