// One process at a time changes the schema: two nodes that make a table at the same instant make two, of which they cannot agree on one.
//
// The lock is a row with a short time to live, set by a conditional write and made to last while its holder works. A process that dies with it holds the
// others up for that long; one that cannot reach the store to give it back does so when it can. One that outlives its own lock does what another does
// too: every change is one that may be made twice.

import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { meaningOf } from './errors.ts'

const lockSeconds = 15
const renewedAfterMs = 4_000
const waitMsMax = 120_000
const askAgainMs = 100
const giveBackAgainMs = 500

export interface HeldLock {
  /**
   * To be called before each change: makes the lock last where it has not been heard of for some time.
   *
   * @throws SinkError (transient) where another process has it meanwhile
   */
  renew(): Promise<void>
}

/** @throws SinkError (transient) where another process holds the lock for too long */
export async function withSchemaLock<Result>(
  connection: Connection,
  work: (lock: HeldLock) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const table = connection.table('sluice_schema')
  const holder = randomBytes(8).toString('hex')
  let askedAtMs: number
  try {
    askedAtMs = await acquire(connection, table, holder, signal)
  } catch (error) {
    // What was asked last may have been done without our learning of it.
    giveBackLater(connection, table, holder)
    throw error
  }
  const keeper = keep(connection, table, holder, askedAtMs)
  try {
    return await work(keeper.lock)
  } finally {
    keeper.stop()
    if (!(await giveBack(connection, table, holder))) giveBackLater(connection, table, holder)
  }
}

/** Makes the lock last during a change too, which may take as long as the nodes need to agree. */
function keep(connection: Connection, table: string, holder: string, acquiredAtMs: number): { lock: HeldLock; stop(): void } {
  let heardOfMs = acquiredAtMs
  let isLost = false
  const renewNow = async (): Promise<void> => {
    const askedAtMs = performance.now()
    const [answer] = await connection.query(
      `UPDATE ${table} USING TTL ${lockSeconds} SET value = ? WHERE name = 'lock' IF value = ?`,
      [holder, holder],
      { isIdempotent: false },
    )
    if (answer?.['[applied]'] !== true) isLost = true
    else heardOfMs = Math.max(heardOfMs, askedAtMs)
  }
  const renew = async (): Promise<void> => {
    if (!isLost && performance.now() - heardOfMs >= renewedAfterMs) await renewNow()
    if (isLost) throw new SinkError('transient', 'another process has begun to change the schema meanwhile')
  }
  // What fails here is asked again, and told, before the next change.
  const timer = setInterval(() => void (isLost || renewNow().catch(() => undefined)), renewedAfterMs).unref()
  return { lock: { renew }, stop: () => clearInterval(timer) }
}

/** @returns false where it may be given back later: the store is away, or does not answer */
async function giveBack(connection: Connection, table: string, holder: string): Promise<boolean> {
  try {
    await connection.query(`DELETE FROM ${table} WHERE name = 'lock' IF value = ?`, [holder], { isIdempotent: false })
    return true
  } catch (error) {
    // Otherwise, and where the connection is closed, it ends by itself.
    return meaningOf(error) !== 'transient'
  }
}

/** Nobody waits for it, and it keeps no process from its end. */
function giveBackLater(connection: Connection, table: string, holder: string): void {
  const untilMs = performance.now() + lockSeconds * 1000
  const tryAgain = async (): Promise<void> => {
    while (performance.now() < untilMs) {
      await wait(giveBackAgainMs, undefined, { ref: false })
      if (await giveBack(connection, table, holder)) return
    }
  }
  void tryAgain()
}

/** @returns when it was asked for last: it lasts from then on */
async function acquire(connection: Connection, table: string, holder: string, signal: AbortSignal | undefined): Promise<number> {
  const untilMs = performance.now() + waitMsMax
  while (performance.now() < untilMs) {
    signal?.throwIfAborted()
    const askedAtMs = performance.now()
    try {
      const [answer] = await connection.query(
        `INSERT INTO ${table} (name, value) VALUES ('lock', ?) IF NOT EXISTS USING TTL ${lockSeconds}`,
        [holder],
        { isIdempotent: false },
      )
      if (answer?.['[applied]'] === true || answer?.['value'] === holder) return askedAtMs
    } catch (error) {
      if (meaningOf(error) !== 'transient') throw error
      // It may have been applied without our learning of it: nobody else would have the lock until it ended by itself.
      if (await isOurs(connection, table, holder)) return askedAtMs
    }
    await wait(askAgainMs * (0.5 + Math.random()), undefined, signal === undefined ? {} : { signal })
  }
  throw new SinkError(
    'transient',
    `another process has been changing the schema of the keyspace "${connection.keyspace}" for ${waitMsMax / 1000} s`,
  )
}

async function isOurs(connection: Connection, table: string, holder: string): Promise<boolean> {
  const [row] = await connection.query(`SELECT value FROM ${table} WHERE name = 'lock'`, [], { consistency: connection.levels.serial })
  return row?.['value'] === holder
}
