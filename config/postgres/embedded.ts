// The port over PGlite: PostgreSQL in this process, its files in one folder, one connection.

import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { PGlite } from '@electric-sql/pglite'
import { DamagedDatabaseError, isDamage } from './damaged.ts'
import { type Asking, type Database, DatabaseError, type SqlRow, type SqlValue, type Step, type Transaction } from './database.ts'
import { toDatabaseError } from './failure.ts'
import { type Instance, startInstance } from './instance.ts'
import { openGate } from './turns.ts'
import { startUpkeep, type UpkeepOptions } from './upkeep.ts'
import { encodeValue } from './values.ts'

export { DamagedDatabaseError } from './damaged.ts'
export { checkIntegrity } from './integrity.ts'
export { syncFolder } from './sync-folder.ts'

export interface EmbeddedOptions extends UpkeepOptions {
  /** Absolute. Made where it is missing; nobody else may have it open, which the caller sees to by a lock of its own. */
  folder: string
}

export interface EmbeddedDatabase extends Database {
  readonly kind: 'embedded'
  readonly folder: string
}

type Runner = Pick<PGlite, 'query' | 'exec'>

/**
 * Opens the folder: 0.15 s, and 3 s where it has to be made first. Statements run on the main thread, one at a time.
 *
 * @throws DamagedDatabaseError where its files are not what PostgreSQL wrote
 */
export async function openEmbedded({ folder, ...upkeepOptions }: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const where = `the embedded database in ${folder}`
  const gate = openGate(where)
  const inTransaction = new AsyncLocalStorage<{ open: boolean }>()
  let instance: Promise<Instance> = startInstance(folder)
  await instance

  /** The running instance: after a crash of PostgreSQL the folder is opened again, by whoever comes first. */
  async function running(): Promise<Instance> {
    const current = await instance.catch(() => undefined)
    if (current !== undefined && current.ended() === undefined) return current
    return reopen(current)
  }

  let reopening: Promise<Instance> | undefined
  function reopen(old: Instance | undefined): Promise<Instance> {
    reopening ??= (async () => {
      try {
        await old?.close()
        instance = startInstance(folder)
        return await instance
      } finally {
        reopening = undefined
      }
    })()
    return reopening
  }

  async function ask<Answer>(exchange: () => Promise<Answer>): Promise<Answer> {
    try {
      return await exchange()
    } catch (error) {
      throw explain(error)
    }
  }

  function explain(error: unknown): Error {
    const explained = toDatabaseError(error, where)
    return explained instanceof DatabaseError && isDamage(explained) && !(explained instanceof DamagedDatabaseError)
      ? new DamagedDatabaseError(folder, explained.message, explained)
      : explained
  }

  let last: Promise<unknown> = Promise.resolve()
  /**
   * One after the other, and the event loop has a turn between two: statements that wait in a row would otherwise run as one piece,
   * and keep publishers waiting for as long.
   */
  function inTurn<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    const answer = last.then(work)
    last = answer.then(
      () => nextTurn(),
      () => nextTurn(),
    )
    return answer
  }

  /** Runs one statement of its own. Inside a transaction it would wait for the end of what waits for it, so it is refused. */
  function once<Answer>(exchange: (runner: Runner) => Promise<Answer>): Promise<Answer> {
    if (inTransaction.getStore()?.open === true) {
      return Promise.reject(
        new Error(`a statement of ${where} itself was asked inside a transaction and would wait for ever: use the transaction's`),
      )
    }
    return gate.pass(() => inTurn(() => ask(async () => exchange((await running()).pglite))))
  }

  async function transaction<Result>(work: (transaction: Transaction) => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const { pglite } = await ask(running)
    signal?.throwIfAborted()
    let thrown: { error: unknown } | undefined
    try {
      return await pglite.transaction(async inner => {
        const scope = { open: true }
        try {
          const result = await inTransaction.run(scope, () => work(transactionOf(inner)))
          signal?.throwIfAborted()
          return result
        } catch (error) {
          thrown = { error }
          throw error
        } finally {
          scope.open = false
        }
      })
    } catch (error) {
      // What `work` threw goes on as it is; the rest is what BEGIN, COMMIT or ROLLBACK met.
      throw thrown === undefined ? explain(error) : thrown.error
    }
  }

  function transactionOf(inner: Runner): Transaction {
    return {
      query: (sql, values = []) => ask(() => rows(inner, sql, values)),
      execute: sql => ask(async () => void (await inner.exec(sql))),
      copy: (target, binary) => ask(() => copy(inner, target, binary)),
    }
  }

  const database: EmbeddedDatabase = {
    kind: 'embedded',
    folder,
    async query<Row extends SqlRow>(sql: string, values: readonly SqlValue[] = [], { signal }: Asking = {}) {
      const found = await once(async runner => {
        signal?.throwIfAborted()
        return await rows<Row>(runner, sql, values)
      })
      signal?.throwIfAborted()
      return found
    },
    execute: sql => once(async runner => void (await runner.exec(sql))),
    transaction: (work, signal) =>
      inTransaction.getStore()?.open === true
        ? Promise.reject(new Error(`a transaction of ${where} was begun inside another and would wait for ever: use the one that is open`))
        : gate.pass(() => inTurn(() => transaction(work, signal))),
    run: (steps, signal) => database.transaction(inner => oneByOne(inner, steps), signal),
    close: () => {
      const tended = upkeep.stop()
      return gate.close(async () => {
        await tended
        await (await instance).close()
      })
    },
  }
  const upkeep = startUpkeep(database, upkeepOptions)
  return database
}

async function rows<Row extends SqlRow>(runner: Runner, sql: string, values: readonly SqlValue[]): Promise<Row[]> {
  return (await runner.query<Row>(sql, values.map(encodeValue))).rows
}

async function oneByOne(transaction: Transaction, steps: readonly Step[]): Promise<void> {
  for (const step of steps) {
    if ('sql' in step) await transaction.query(step.sql, step.values)
    else await transaction.copy(step.target, step.binary)
  }
}

/** PGlite has no COPY FROM STDIN; the bytes are a file of this name for the length of one statement. */
async function copy(runner: Runner, target: string, binary: Uint8Array): Promise<number> {
  const blob = new Blob([binary])
  const result = await runner.query(`COPY ${target} FROM '/dev/blob' WITH (FORMAT binary)`, [], { blob })
  return result.affectedRows ?? 0
}
