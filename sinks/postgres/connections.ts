// The connections of a writer as the server knows them: found by their name, and ended where nobody is at their other end.
//
// The name is set inside each transaction, so that it is right however the database was opened, also behind a pooler.

import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { unlessAborted } from '../../config/aborting.ts'
import type { Database } from '../../config/postgres/database.ts'

export interface ConnectionNames {
  /** What the application names of all connections of this writer to this log begin with, and no others'. */
  readonly writer: string
  /** Of this sink alone: at most the 63 bytes that PostgreSQL keeps. */
  readonly sink: string
}

/** The server keeps printable ASCII only; what is changed gets a hash, so that no two writers share a name. */
export function connectionNames(writer: string, log: number): ConnectionNames {
  const plain = writer.replaceAll(/[^A-Za-z0-9_.-]/g, '_').slice(0, 24)
  const name = plain === writer ? writer : `${plain}~${createHash('sha256').update(writer).digest('hex').slice(0, 8)}`
  const prefix = `sluice ${name}/${log} `
  return { writer: prefix, sink: `${prefix}${randomBytes(6).toString('hex')}` }
}

/** How long the server may take to end a write that was given up; then our end of the connection is cut. */
const endMsMax = 2_000
const lookAgainMs = 50

/**
 * `work`, which is given up when `signal` aborts: its transactions are ended at the server. Cutting the connection would not do: the server
 * goes on with what it was sent, to the commit. Only where it cannot be reached in time the connection is cut, and
 * nobody knows what becomes of what was sent.
 *
 * @param name the application name of the work's transactions
 * @param work is given a signal that aborts when its connection is to be cut
 */
export async function abandonable<Result>(
  database: Database,
  name: string,
  signal: AbortSignal,
  work: (cut: AbortSignal) => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted()
  const cut = new AbortController()
  const settled = new AbortController()
  let deadline: NodeJS.Timeout | undefined
  let ending: Promise<void> | undefined
  const onAbort = (): void => {
    deadline = setTimeout(() => cut.abort(signal.reason), database.kind === 'server' ? endMsMax : 0)
    if (database.kind === 'server') ending = endTransactions(database, name, settled.signal)
  }
  signal.addEventListener('abort', onAbort)
  try {
    return await work(cut.signal)
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
    clearTimeout(deadline)
    settled.abort()
    await ending
  }
}

/** Ends the transactions of this name until the work is settled. Never rejects. */
async function endTransactions(database: Database, name: string, settled: AbortSignal): Promise<void> {
  const sql = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()`
  try {
    while (!settled.aborted) {
      await unlessAborted(database.query(sql, [name]), settled)
      // One that has not begun yet, since its statements are on their way, is met at the next look.
      await wait(lookAgainMs, undefined, { signal: settled })
    }
  } catch {
    // Settled; or the server cannot be asked, and the deadline cuts the connection.
  }
}
