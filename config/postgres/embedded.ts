// The port over PGlite: PostgreSQL in a thread of this process, its files in one folder, one connection.

import { AsyncLocalStorage } from 'node:async_hooks'
import type { Asking, Database, SqlRow, SqlValue, Step, Transaction } from './database.ts'
import { type Copy, type DatabaseThread, type Statement, startThread } from './embedded-thread.ts'
import { abortedTransaction, toDatabaseError } from './failure.ts'
import { oneAtATime, openGate, openQueue, type Turn } from './turns.ts'
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

/** A reader that is kept waiting has a turn five times a second: of 50 ms, which leaves everybody else 80 % of the time. */
const readerWaitMsMax = 200

/**
 * Opens the folder: 0.2 s, and 3 s where it has to be made first. PostgreSQL runs in a thread of its own, one statement at a time.
 *
 * @throws DamagedDatabaseError where its files are not what PostgreSQL wrote
 */
export async function openEmbedded({ folder, ...upkeepOptions }: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const where = `the embedded database in ${folder}`
  const gate = openGate(where)
  const inTurn = openQueue(readerWaitMsMax)
  const inTransaction = new AsyncLocalStorage<{ open: boolean }>()
  let thread: Promise<DatabaseThread> = startThread(folder)
  await thread

  /** The running thread. After PostgreSQL or its thread has ended, whoever has the turn opens the folder again. */
  async function running(): Promise<DatabaseThread> {
    const current = await thread.catch(() => undefined)
    if (current !== undefined && !current.ended()) return current
    await current?.gone
    thread = startThread(folder)
    try {
      return await thread
    } catch (error) {
      throw toDatabaseError(error, where)
    }
  }

  /** Inside a transaction it would wait for the end of what waits for it, so it is refused. */
  function enter<Answer>(what: string, asking: Asking, work: (thread: DatabaseThread) => Promise<Answer>): Promise<Answer> {
    if (inTransaction.getStore()?.open === true) {
      return Promise.reject(new Error(`${what} ${where} inside a transaction would wait for ever: use the transaction that is open`))
    }
    return gate.pass(() => inTurn(async () => work(await running()), asking))
  }

  async function transaction<Result>(
    thread: DatabaseThread,
    work: (transaction: Transaction) => Promise<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    signal?.throwIfAborted()
    const turn = oneAtATime()
    const scope = { open: true }
    await thread.ask({ kind: 'execute', sql: 'BEGIN' })
    try {
      const result = await inTransaction.run(scope, async () => {
        try {
          return await work(transactionOf(thread, turn))
        } finally {
          scope.open = false
        }
      })
      await turn.end()
      signal?.throwIfAborted()
      if ((await thread.ask({ kind: 'execute', sql: 'COMMIT' })) !== 'COMMIT') throw abortedTransaction()
      return result
    } catch (error) {
      await turn.end()
      // A rollback that fails is not the news: its thread is ended, and the folder opened again.
      await thread.ask({ kind: 'execute', sql: 'ROLLBACK' }).catch(() => thread.terminate())
      throw error
    }
  }

  const database: EmbeddedDatabase = {
    kind: 'embedded',
    folder,
    async query<Row extends SqlRow>(sql: string, values: readonly SqlValue[] = [], asking: Asking = {}) {
      const found = await enter('a statement of', asking, thread => rows<Row>(thread, sql, values))
      asking.signal?.throwIfAborted()
      return found
    },
    execute: sql => enter('a statement of', {}, async thread => void (await thread.ask({ kind: 'execute', sql }))),
    transaction: (work, signal) => enter('a transaction of', { signal }, thread => transaction(thread, work, signal)),
    run: (steps, signal) =>
      enter('a transaction of', { signal }, async thread => void (await thread.ask({ kind: 'run', steps: steps.map(ownStep) }))),
    close: () => {
      const tended = upkeep.stop()
      return gate.close(async () => {
        await tended
        const last = await thread
        if (!last.ended()) await last.ask({ kind: 'close' })
        await last.gone
      })
    },
  }
  const upkeep = startUpkeep(database, upkeepOptions)
  return database
}

function transactionOf(thread: DatabaseThread, turn: Turn): Transaction {
  return {
    query: (sql, values = []) => turn(() => rows(thread, sql, values)),
    execute: sql => turn(async () => void (await thread.ask({ kind: 'execute', sql }))),
    copy: (target, binary) => turn(async () => (await thread.ask({ kind: 'copy', target, binary: new Uint8Array(binary) })) as number),
  }
}

async function rows<Row extends SqlRow>(thread: DatabaseThread, sql: string, values: readonly SqlValue[]): Promise<Row[]> {
  return (await thread.ask({ kind: 'query', sql, values: values.map(encodeValue) })) as Row[]
}

/** The thread gets bytes of its own: the caller writes its batch again where the transaction fails. */
function ownStep(step: Step): Statement | Copy {
  if ('sql' in step) return { sql: step.sql, values: step.values.map(encodeValue) }
  return { target: step.target, binary: new Uint8Array(step.binary) }
}
