// Which number a log has in a store, decided from the logs that the store knows: the same for every store, whatever it keeps them in.

import { named } from '../config/option-variable.ts'
import { limits } from './sink.ts'
import { SinkError } from './sink-error.ts'

export interface LogIdentity {
  /** The topic: `messages`. */
  readonly logName: string
  /** Changes when the topic is made anew. */
  readonly logId: string
  /** The writer's name; not the worker's. */
  readonly writer: string
  /** Go on with a log of another id than the one written from last, or with a store that knows nothing of what was read before. */
  readonly acceptNewLog: boolean
  /**
   * Whether the log remembers that this writer has read from it. A store that keeps no positions asks before it knows the log for the
   * first time: what was read before went to another store, and would be missing in this one.
   */
  readonly hasCommits?: () => Promise<boolean>
}

/** A log that a store knows. */
export interface RegisteredLog {
  readonly number: number
  readonly name: string
  readonly id: string
  readonly writer: string
}

/** `known`: it is registered so. `again`: it is to be marked as the one written from now. `new`: it is to be added. */
export interface ChosenLog {
  readonly number: number
  readonly state: 'known' | 'again' | 'new'
}

/**
 * @param logs all that the store knows; of those with the same name the one that is written from now comes first
 * @throws SinkError (systemic) where another writer owns the log, where its id has changed, and where no number is left
 */
export function chooseLog(logs: readonly RegisteredLog[], identity: LogIdentity): ChosenLog {
  const named = logs.filter(({ name }) => name === identity.logName)
  const current = named[0]
  if (current !== undefined && current.writer !== identity.writer) throw ownedByAnother(identity, current.writer)
  if (current?.id === identity.logId) return { number: current.number, state: 'known' }
  if (current !== undefined && !identity.acceptNewLog) throw anotherLog(identity, current.id)
  const before = named.find(({ id }) => id === identity.logId)
  if (before !== undefined) return { number: before.number, state: 'again' }
  const number = logs.reduce((highest, log) => Math.max(highest, log.number), 0) + 1
  if (number > limits.log) throw noNumberLeft(identity)
  return { number, state: 'new' }
}

/**
 * For stores that keep no positions, before a log is added.
 *
 * @param readLogs reads again what the store knows: another worker of the same writer may have registered the log, stored and committed since
 * the caller looked
 * @throws SinkError (systemic) where the writer has read the log before, and not into this store
 */
export async function checkUnread(identity: LogIdentity, readLogs: () => Promise<readonly RegisteredLog[]>): Promise<void> {
  const { logName, writer, acceptNewLog, hasCommits } = identity
  if (acceptNewLog || hasCommits === undefined || !(await hasCommits())) return
  if (chooseLog(await readLogs(), identity).state !== 'new') return
  throw new SinkError(
    'systemic',
    `the store knows nothing of the log "${logName}", which the writer "${writer}" has read from before: what it read then is not in this store. Give the store a writer of another name (${named('log.group')}), which begins with the oldest message, or start once with --accept-new-log to go on from here`,
  )
}

function noNumberLeft({ logName }: LogIdentity): SinkError {
  return new SinkError(
    'systemic',
    `the store knows ${limits.log} logs and has no number left for "${logName}": write it to a store of its own`,
  )
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
