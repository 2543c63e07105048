// The embedded database (PGlite): PostgreSQL in a thread of this process, with its files in one folder and one connection.

import { AsyncLocalStorage } from 'node:async_hooks'
import type { Asking, Database, SqlRow, SqlValue, Step, Transaction } from '../database.ts'
import { abortedTransaction, toDatabaseError } from '../failure.ts'
import { oneAtATime, openGate, openQueue, type Turn } from '../mutex.ts'
import { encodeValue } from '../values.ts'
import { type Copy, type DatabaseThread, type Statement, startThread } from './thread.ts'
import { startUpkeep, type UpkeepOptions } from './upkeep.ts'

export { DamagedDatabaseError } from './damaged.ts'
export { syncTree } from './instance.ts'
export { checkIntegrity } from './integrity.ts'

export interface EmbeddedOptions extends UpkeepOptions {
  /** Absolute; created if missing. No other process may have it open: the caller must hold a lock. */
  folder: string
}

export interface EmbeddedDatabase extends Database {
  readonly kind: 'embedded'
  readonly folder: string
}

/** Waiting readers get a turn five times a second. A turn takes about 50 ms, which leaves 80 % of the time to other work. */
const readerWaitMsMax = 200

/**
 * Opens the folder, which takes 0.2 s, or 3 s if it must be created. PostgreSQL runs in its own thread, one statement at a time.
 *
 * @throws DamagedDatabaseError if its files are damaged
 */
export async function openEmbedded({ folder, ...upkeepOptions }: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const where = `the embedded database in ${folder}`
  const gate = openGate(where)
  const inTurn = openQueue(readerWaitMsMax)
  const inTransaction = new AsyncLocalStorage<{ open: boolean }>()
  let thread: Promise<DatabaseThread> = startThread(folder)
  await thread

  /** The running thread. If PostgreSQL or its thread has ended, the caller, which holds the queue's turn, opens the folder again. */
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

  /** Queues work. Rejects it inside a transaction, where it would deadlock. */
  function enter<Answer>(what: string, asking: Asking, work: (thread: DatabaseThread) => Promise<Answer>): Promise<Answer> {
    if (inTransaction.getStore()?.open === true) {
      return Promise.reject(new Error(`${what} ${where} inside a transaction would deadlock: use the open transaction`))
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
      // If the rollback fails, the original error still matters more: end the thread, and the folder is opened again.
      await thread.ask({ kind: 'execute', sql: 'ROLLBACK' }).catch(() => thread.terminate())
      throw error
    }
  }

  const database: EmbeddedDatabase = {
    kind: 'embedded',
    connectionsMax: 1,
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

/** The bytes are copied for the thread, because the caller needs them again if the transaction fails. */
function ownStep(step: Step): Statement | Copy {
  if ('sql' in step) return { sql: step.sql, values: step.values.map(encodeValue) }
  return { target: step.target, binary: new Uint8Array(step.binary) }
}
