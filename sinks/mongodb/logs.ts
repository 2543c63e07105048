// The registration of a log in the store: its small number, and the one writer that it belongs to.

import type { Collection, Db } from 'mongodb'
import { checkUnread, chooseLog, type LogIdentity, type RegisteredLog } from '../log-registry.ts'
import type { Connection } from './connection.ts'
import { insertNumbered, readNumbered, untilAdded } from './numbered.ts'

const logsCollection = 'sluice.logs'

/** A document of `sluice.logs`. */
export interface LogEntry {
  /** The log's number. */
  readonly _id: number
  readonly name: string
  readonly id: string
  readonly writer: string
  /** Of logs with the same name the one with the latest is written from now. */
  readonly acceptedAt: Date
}

function logsOf(database: Db): Collection<LogEntry> {
  return database.collection<LogEntry>(logsCollection)
}

/** All that the store knows; of those with the same name the one that is written from now comes first. */
export async function readLogs(database: Db): Promise<LogEntry[]> {
  const entries = await readNumbered(logsOf(database), '_id')
  // Stable: of two at one instant the one with the higher number comes first.
  return entries.toReversed().sort((one, other) => other.acceptedAt.getTime() - one.acceptedAt.getTime())
}

/**
 * @returns the number under which the store knows the log
 * @throws SinkError (systemic) where another writer owns the log, where its id has changed, where it was read before and not into this store, and where no
 *   number is left
 */
export function registerLog(connection: Connection, identity: LogIdentity): Promise<number> {
  const { database } = connection
  const { logName: name, logId: id, writer } = identity
  return untilAdded(async () => {
    const logs = await readLogs(database)
    const chosen = chooseLog(logs.map(registered), identity)
    if (chosen.state === 'known') return chosen.number
    // Clocks differ from machine to machine: what is accepted now comes behind all that was.
    const acceptedAt = new Date(Math.max(Date.now(), ...logs.map(log => log.acceptedAt.getTime() + 1)))
    if (chosen.state === 'again') {
      await logsOf(database).updateOne({ _id: chosen.number }, { $set: { acceptedAt } })
      return chosen.number
    }
    await checkUnread(identity, async () => (await readLogs(database)).map(registered))
    const entry: LogEntry = { _id: chosen.number, name, id, writer, acceptedAt }
    await insertNumbered(connection, logsCollection, [entry])
    return chosen.number
  }, `the log "${name}" could not be registered`)
}

function registered({ _id: number, name, id, writer }: LogEntry): RegisteredLog {
  return { number, name, id, writer }
}
