// One process at a time changes the schema: two nodes that create the same table at the same time create two, and cannot agree on one of them.
//
// The lock is a row with a short time to live, set by a conditional write and renewed while its holder works. If the holder dies, the others wait
// until it expires. A holder that works longer than its lock lasts may do the same as the next holder; this is safe, since every change may be made twice.

import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { classify } from './errors.ts'

const lockSeconds = 15
const renewedAfterMs = 4_000
const waitMsMax = 120_000
const askAgainMs = 100

export interface HeldLock {
  /**
   * Called before each change: renews the lock if the last renewal was a while ago.
   *
   * @throws SinkError (transient) if another process has taken the lock
   */
  renew(): Promise<void>
}

/** @throws SinkError (transient) if another process holds the lock for too long */
export async function withSchemaLock<Result>(
  connection: Connection,
  work: (lock: HeldLock) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const table = connection.table('sluice_schema')
  const holder = randomBytes(8).toString('hex')
  const keeper = keep(connection, table, holder, await acquire(connection, table, holder, signal))
  try {
    return await work(keeper.lock)
  } finally {
    keeper.stop()
    const release = `DELETE FROM ${table} WHERE name = 'lock' IF value = ?`
    // If the store is away, the lock expires by itself.
    await connection.query(release, [holder], { isIdempotent: false }).catch(() => undefined)
  }
}

/** Also renews the lock during a change, which may take as long as the nodes need to agree. */
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
    if (isLost) throw new SinkError('transient', 'another process has taken the lock and is changing the schema')
  }
  // A failure here is ignored: `renew` tries again before the next change, and throws.
  const timer = setInterval(() => void (isLost || renewNow().catch(() => undefined)), renewedAfterMs).unref()
  return { lock: { renew }, stop: () => clearInterval(timer) }
}

/** @returns when the request was sent that set the lock, or an earlier one: the lock lasts from then on */
async function acquire(connection: Connection, table: string, holder: string, signal: AbortSignal | undefined): Promise<number> {
  const firstAskedAtMs = performance.now()
  while (performance.now() < firstAskedAtMs + waitMsMax) {
    signal?.throwIfAborted()
    const askedAtMs = performance.now()
    try {
      const [answer] = await connection.query(
        `INSERT INTO ${table} (name, value) VALUES ('lock', ?) IF NOT EXISTS USING TTL ${lockSeconds}`,
        [holder],
        { isIdempotent: false },
      )
      if (answer?.['[applied]'] === true) return askedAtMs
      // An earlier request has set it, although no answer came.
      if (answer?.['value'] === holder) return firstAskedAtMs
    } catch (error) {
      if (classify(error) !== 'transient') throw error
    }
    await wait(askAgainMs * (0.5 + Math.random()), undefined, signal === undefined ? {} : { signal })
  }
  throw new SinkError(
    'transient',
    `another process has been changing the schema of the keyspace "${connection.keyspace}" for ${waitMsMax / 1000} s: this one retries when it has finished`,
  )
}
