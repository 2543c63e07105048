// The registration of a log in the store: its small number, and the one writer that it belongs to.

import { setTimeout as wait } from 'node:timers/promises'
import { checkUnread, chooseLog, type LogIdentity, type RegisteredLog } from '../log-registry.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { isUndecided } from './errors.ts'

const attemptsMax = 50
const scansMax = 8
const scanAgainMs = 30

interface KnownLog extends RegisteredLog {
  readonly acceptedMs: number
}

/**
 * All logs; of those with the same name the one that is written from now comes first.
 *
 * A scan sees no one instant: it may have gone by number 1 before that was taken, and meet 2 that was taken later. Numbers are given out
 * without gaps, so one that is missing is looked for again. Where an operator has deleted one it stays missing.
 */
export async function readLogs(connection: Connection): Promise<readonly KnownLog[]> {
  let logs = await scanLogs(connection)
  for (let scan = 1; scan < scansMax && logs.some(({ number }) => number > logs.length); scan++) {
    await wait(scanAgainMs)
    logs = await scanLogs(connection)
  }
  return logs.sort((one, other) => other.acceptedMs - one.acceptedMs || other.number - one.number)
}

async function scanLogs(connection: Connection): Promise<KnownLog[]> {
  const rows = await connection.query(`SELECT number, name, id, writer, accepted_at FROM ${connection.table('sluice_logs')}`)
  return rows.map(
    (row): KnownLog => ({
      number: row['number'] as number,
      name: row['name'] as string,
      id: row['id'] as string,
      writer: row['writer'] as string,
      acceptedMs: (row['accepted_at'] as Date).getTime(),
    }),
  )
}

/**
 * The number is the key, and is taken by a conditional write: of any number of processes that choose the same one, one has it, and the
 * others look again.
 *
 * @returns the number under which the store knows the log
 * @throws SinkError (systemic) where another writer owns the log, where its id has changed, and where no number is left
 */
export async function registerLog(connection: Connection, identity: LogIdentity): Promise<number> {
  const table = connection.table('sluice_logs')
  const { logName, logId, writer } = identity
  let checked = false
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const logs = await readLogs(connection)
    const { number, state } = chooseLog(logs, identity)
    if (state === 'known') return number
    // Behind all others, whatever the clocks of their machines are.
    const acceptedAt = new Date(logs.reduce((latest, log) => Math.max(latest, log.acceptedMs + 1), Date.now()))
    if (state === 'new' && !checked) {
      await checkUnread(identity, () => readLogs(connection))
      checked = true
    }
    const insert = `INSERT INTO ${table} (number, name, id, writer, accepted_at) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS`
    const update = `UPDATE ${table} SET accepted_at = ? WHERE number = ? IF name = ?`
    try {
      const [answer] = await (state === 'new'
        ? connection.query(insert, [number, logName, logId, writer, acceptedAt], { isIdempotent: false })
        : connection.query(update, [acceptedAt, number, logName], { isIdempotent: false }))
      if (answer?.['[applied]'] === true) return number
    } catch (error) {
      // It may have been applied all the same: the next look tells.
      if (!isUndecided(error)) throw error
    }
    await wait(Math.random() * 50)
  }
  throw new SinkError('transient', `the log "${logName}" could not be registered: too many writers register theirs at the same time`)
}
