// The registration of a log in the store: its small number, and the one writer that it belongs to.

import type { Database } from '../../config/postgres/database.ts'
import { chooseLog, type LogIdentity, type RegisteredLog } from '../log-registry.ts'

/**
 * @returns the number under which the store knows the log
 * @throws SinkError (systemic) where another writer owns the log, where its id has changed, and where no number is left
 */
export function registerLog(database: Database, identity: LogIdentity): Promise<number> {
  return database.transaction(async transaction => {
    await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.logs', 0))`)
    const logs = await transaction.query<RegisteredLog & Record<string, string | number>>(
      'SELECT number, name, id, writer FROM sluice.logs ORDER BY accepted_at DESC, number DESC',
    )
    const { number, state } = chooseLog(logs, identity)
    const { logName, logId, writer } = identity
    if (state === 'again') await transaction.query('UPDATE sluice.logs SET accepted_at = clock_timestamp() WHERE number = $1', [number])
    if (state === 'new') {
      await transaction.query('INSERT INTO sluice.logs (number, name, id, writer) VALUES ($1, $2, $3, $4)', [
        number,
        logName,
        logId,
        writer,
      ])
    }
    return number
  })
}
