// Finds a writer's connections on the server by their application name, and terminates those that are left without a client.
//
// The name is set in each transaction, so it is right however the database was opened, also behind a pooler.

import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { unlessAborted } from '../../config/aborting.ts'
import type { Database } from '../../database/database.ts'

export interface ConnectionNames {
  /** The prefix of the application names of all connections of writers with this name, and of no others. */
  readonly writer: string
  /** The application name of this sink alone: at most the 63 bytes that PostgreSQL keeps. */
  readonly sink: string
}

export function connectionNames(writer: string): ConnectionNames {
  const prefix = `sluice ${printableName(writer)}/`
  return { writer: prefix, sink: `${prefix}${randomBytes(6).toString('hex')}` }
}

export const replayPrefix = 'sluice-replay '

/** The application name of a replay's transactions. It differs from the writer's, which may terminate connections of its own name. */
export function replayName(writer: string): string {
  return `${replayPrefix}${printableName(writer)} ${randomBytes(6).toString('hex')}`
}

/** The server keeps only printable ASCII. A name that has to be changed gets a hash, so that no two writers share one. */
function printableName(writer: string): string {
  const plain = writer.replaceAll(/[^A-Za-z0-9_.-]/g, '_').slice(0, 24)
  return plain === writer ? writer : `${plain}~${createHash('sha256').update(writer).digest('hex').slice(0, 8)}`
}

/** How long the server may take to end an aborted write; after that the client closes the connection. */
const endMsMax = 2_000
const lookAgainMs = 50

/**
 * Runs `work`, and terminates its transactions on the server when `signal` aborts. Closing the connection would not be enough: the server would still
 * execute what it was sent, including the commit. Only if the server cannot be reached in time is the connection closed, and the outcome is then
 * unknown.
 *
 * @param name the application name of the work's transactions
 * @param work gets a signal that aborts when its connection has to be closed
 */
export async function abortable<Result>(
  database: Database,
  name: string,
  signal: AbortSignal,
  work: (abort: AbortSignal) => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted()
  const abort = new AbortController()
  const settled = new AbortController()
  let deadline: NodeJS.Timeout | undefined
  let terminating: Promise<void> | undefined
  const onAbort = (): void => {
    deadline = setTimeout(() => abort.abort(signal.reason), database.kind === 'server' ? endMsMax : 0)
    if (database.kind === 'server') terminating = endTransactions(database, name, settled.signal)
  }
  signal.addEventListener('abort', onAbort)
  try {
    return await work(abort.signal)
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
    clearTimeout(deadline)
    settled.abort()
    await terminating
  }
}

/** Terminates the transactions of this name until the work is settled. Never rejects. */
async function endTransactions(database: Database, name: string, settled: AbortSignal): Promise<void> {
  const sql = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()`
  try {
    while (!settled.aborted) {
      await unlessAborted(database.query(sql, [name]), settled)
      // A transaction whose statements have not arrived yet is found in the next round.
      await wait(lookAgainMs, undefined, { signal: settled })
    }
  } catch {
    // The work is settled, or the server cannot be reached: then the deadline closes the connection.
  }
}
