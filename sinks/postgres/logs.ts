// The registration of a log in the store: its small number, and the one writer that it belongs to.

import type { Database, Transaction } from '../../config/postgres/database.ts'
import { limits } from '../sink.ts'
import { SinkError } from '../sink-error.ts'

export interface LogIdentity {
  /** The topic: `messages`. */
  readonly logName: string
  /** Changes when the topic is made anew. */
  readonly logId: string
  /** The writer's name; not the worker's. */
  readonly writer: string
  /** Go on with a log of another id than the one written from last. */
  readonly acceptNewLog: boolean
}

interface KnownLog extends Record<string, string | number> {
  number: number
  id: string
  writer: string
}

/**
 * @returns the number under which the store knows the log
 * @throws SinkError (systemic) where another writer owns the log, where its id has changed, and where no number is left
 */
export function registerLog(database: Database, identity: LogIdentity): Promise<number> {
  return database.transaction(async transaction => {
    await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.logs', 0))`)
    const known = await transaction.query<KnownLog>(
      'SELECT number, id, writer FROM sluice.logs WHERE name = $1 ORDER BY accepted_at DESC, number DESC',
      [identity.logName],
    )
    const current = known[0]
    if (current !== undefined && current.writer !== identity.writer) throw ownedByAnother(identity, current.writer)
    if (current?.id === identity.logId) return current.number
    if (current !== undefined && !identity.acceptNewLog) throw anotherLog(identity, current.id)
    const before = known.find(({ id }) => id === identity.logId)
    if (before === undefined) return await addLog(transaction, identity)
    await transaction.query('UPDATE sluice.logs SET accepted_at = clock_timestamp() WHERE number = $1', [before.number])
    return before.number
  })
}

async function addLog(transaction: Transaction, { logName, logId, writer }: LogIdentity): Promise<number> {
  const [last] = await transaction.query<{ number: number }>('SELECT coalesce(max(number), 0) AS number FROM sluice.logs')
  const number = (last?.number ?? 0) + 1
  if (number > limits.log) {
    throw new SinkError(
      'systemic',
      `the store knows ${limits.log} logs and has no number left for "${logName}": write it to a store of its own`,
    )
  }
  await transaction.query('INSERT INTO sluice.logs (number, name, id, writer) VALUES ($1, $2, $3, $4)', [number, logName, logId, writer])
  return number
}

function ownedByAnother({ logName, writer }: LogIdentity, owner: string): SinkError {
  return new SinkError(
    'systemic',
    `the store's rows of the log "${logName}" belong to the writer "${owner}", and this one is called "${writer}": start it under that name, or with a store of its own`,
  )
}

function anotherLog({ logName, logId }: LogIdentity, storedId: string): SinkError {
  return new SinkError(
    'systemic',
    `the log "${logName}" is another one (id ${logId}) than the store was written from (id ${storedId}), so offsets in the store say nothing about it: if it was made anew on purpose, start once with --accept-new-log`,
  )
}
