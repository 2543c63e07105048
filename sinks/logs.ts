// Gives each log of a writer a number in a store. The same for every store, wherever it keeps its list of logs.
//
// A number belongs to a topic, its id and a writer. Several writers may read one topic into one store if no message is for two of them: each log says
// which content types its writer takes. That is checked when a writer starts; the number is taken with the first message to store or to dead-letter.

import { setTimeout as wait } from 'node:timers/promises'
import { named } from '../config/options/variable.ts'
import { logOf } from '../transformers/log-partition.ts'
import type { RecordBatch } from '../transformers/record-batch.ts'
import { type LogNumbers, limits, type Sink } from './sink.ts'
import { SinkError } from './sink-error.ts'

export interface LogIdentity {
  /** The topic: `messages`. */
  readonly logName: string
  /** Changes when the topic is recreated. */
  readonly logId: string
  /** The writer's name, not the worker's. */
  readonly writer: string
  /** The media types that the writer takes, or `other` for all that no transformer reads; absent: all. */
  readonly contentTypes?: readonly string[] | undefined
  /** The number that the log has or gets in the store; absent: the store chooses, or in InfluxDB, which cannot, 1. */
  readonly number?: number | undefined
  /**
   * The id of the log to accept although the store was written from another one, or does not have what was read before. The log then gets its number
   * when the sink is opened, so that starting once with this is enough. The id of another log has no effect.
   */
  readonly acceptNewLog?: string | undefined
  /**
   * Whether the log holds committed offsets of this writer. A store that keeps no positions asks before it uses a log that it does not know: what was
   * read before went to another store, and would be missing in this one.
   */
  readonly hasCommits?: () => Promise<boolean>
}

/** The logs that a sink is opened for. */
export interface SinkLogs {
  /** All logs of one writer, by their index in a `LogPartition`; at least one. */
  readonly logs: readonly LogIdentity[]
}

/** A log that a store knows. */
export interface RegisteredLog {
  readonly number: number
  readonly name: string
  readonly id: string
  readonly writer: string
  /** The media types that the writer takes; undefined: all, as every writer of an earlier release does. */
  readonly contentTypes?: readonly string[] | undefined
  /** When it was last accepted, in milliseconds since 1970. Of logs with the same name and writer, the one accepted last is written from now. */
  readonly acceptedMs: number
}

/** Where a store keeps its logs. Each method throws SinkError (systemic) if the writer may not write the log, and what `classify` knows. */
export interface LogRegistry {
  /**
   * Checks that the log may be written, and changes the registry only if the store knows the log with other content types, or an operator accepts it.
   *
   * @returns its number; undefined if it has none yet
   */
  find(identity: LogIdentity): Promise<number | undefined>
  /** Registers the log unless the store knows it. Returns its number. */
  take(identity: LogIdentity): Promise<number>
}

export interface OpenLogs extends Pick<Sink, 'logNumbers' | 'takeNumbers'> {
  /**
   * Takes over the numbers that other workers of the writer have taken, from all logs that the store knows.
   *
   * @throws SinkError (systemic) as `LogRegistry`, and if a number that this writer had belongs to it no longer
   */
  lookUp(known: readonly RegisteredLog[]): void
}

/** Finds the logs one after another; if one is refused, those before it that were accepted stay so. */
export async function openLogs(logs: readonly LogIdentity[], registry: LogRegistry): Promise<OpenLogs> {
  const logNumbers: (number | undefined)[] = []
  for (const log of logs) logNumbers.push(await registry.find(log))
  return {
    logNumbers,
    async takeNumbers(some) {
      for (const log of some) logNumbers[log] ??= await registry.take(logs[log]!)
    },
    lookUp(known) {
      for (const [log, identity] of logs.entries()) {
        const { number, state } = chooseLog(known, identity)
        if (logNumbers[log] !== undefined && (state === 'new' || number !== logNumbers[log])) throw freed(identity, logNumbers[log])
        if (state !== 'new') logNumbers[log] = number
      }
    },
  }
}

/** @throws Error for a row of a log without a number: its position would be that of another log */
export function checkNumbers(logNumbers: LogNumbers, { messages, records, documents }: RecordBatch): void {
  if (!logNumbers.includes(undefined)) return
  for (const rows of [records, documents]) {
    for (let at = 0; at < rows.length; at++) {
      const log = logOf(messages.at[rows.message[at]!]!)
      if (logNumbers[log] === undefined) throw new Error(`log ${log} has no number: call takeNumbers first`)
    }
  }
}

/** `known`: registered like this. `changed`: with other content types. `again`: to be marked as the one written from now. `new`: to be added. */
export interface ChosenLog {
  readonly number: number
  readonly state: 'known' | 'changed' | 'again' | 'new'
}

/**
 * @param logs all logs that the store knows
 * @throws SinkError (systemic) if another writer takes some of the log's content types, its id has changed, the given number is another log's or not
 * the one that the log has, or no number is left
 */
export function chooseLog(logs: readonly RegisteredLog[], identity: LogIdentity): ChosenLog {
  const { logName, logId, writer, contentTypes } = identity
  const logsOfName = currentLogs(logs).filter(({ name }) => name === logName)
  const other = logsOfName.find(log => log.writer !== writer && overlap(log.contentTypes, contentTypes))
  if (other !== undefined) throw ownedByAnother(identity, other)
  const current = logsOfName.find(log => log.writer === writer)
  if (current !== undefined && current.id !== logId && !isAccepted(identity)) throw anotherLog(identity, current.id)
  if (identity.number !== undefined) checkNumber(logs, identity, identity.number)
  if (current?.id === logId) return { number: current.number, state: areSame(current.contentTypes, contentTypes) ? 'known' : 'changed' }
  const before = logs.find(log => isLog(log, identity))
  if (before !== undefined) return { number: before.number, state: 'again' }
  return { number: identity.number ?? unusedNumber(logs, identity), state: 'new' }
}

/** @throws SinkError (systemic) as `chooseLog`, for the first that may not be written */
export function checkLogs(known: readonly RegisteredLog[], logs: readonly LogIdentity[]): void {
  for (const log of logs) chooseLog(known, log)
}

function isLog({ name, id, writer }: RegisteredLog, identity: LogIdentity): boolean {
  return name === identity.logName && id === identity.logId && writer === identity.writer
}

/** @throws SinkError (systemic) if the log has another number, or another log has the number */
function checkNumber(logs: readonly RegisteredLog[], identity: LogIdentity, number: number): void {
  const own = logs.find(log => isLog(log, identity) && log.number !== number)
  const other = own ?? logs.find(log => !isLog(log, identity) && log.number === number)
  if (other !== undefined) throw anotherNumber(identity, other, own?.number ?? unusedNumber(logs, identity))
}

/** The logs that are written from now: one for each name and writer. */
export function currentLogs<Log extends RegisteredLog>(logs: readonly Log[]): Log[] {
  const current = new Map<string, Log>()
  for (const log of currentFirst(logs)) {
    const key = JSON.stringify([log.name, log.writer])
    if (!current.has(key)) current.set(key, log)
  }
  return [...current.values()]
}

/** Sorts logs so that of those with the same name and writer the one that is written from now comes first. */
export function currentFirst<Log extends RegisteredLog>(logs: readonly Log[]): Log[] {
  return logs.toSorted((one, other) => other.acceptedMs - one.acceptedMs || other.number - one.number)
}

/** Above all others while there is one, so that a freed number is used again as late as possible. */
function unusedNumber(logs: readonly RegisteredLog[], identity: LogIdentity): number {
  const used = new Set(logs.map(({ number }) => number))
  const next = Math.max(0, ...used) + 1
  if (next <= limits.log) return next
  for (let number = 1; number <= limits.log; number++) if (!used.has(number)) return number
  throw noNumberLeft(identity)
}

function isAccepted({ logId, acceptNewLog }: LogIdentity): boolean {
  return acceptNewLog === logId
}

type ContentTypes = LogIdentity['contentTypes']

/** Whether two writers take some of the same messages. */
export function overlap(some: ContentTypes, others: ContentTypes): boolean {
  if (some === undefined && others === undefined) return true
  return (some ?? others!).some(type => others === undefined || others.includes(type))
}

function areSame(some: ContentTypes, others: ContentTypes): boolean {
  if (some === undefined || others === undefined) return some === others
  return some.length === others.length && some.every(type => others.includes(type))
}

/** The table of logs of a store without transactions. */
export interface LogTable {
  /** All of them, in any order. */
  read(): Promise<readonly RegisteredLog[]>
  /**
   * Adds the log under its number, which only one log can have. False if another log has the number, or if the outcome is unknown: the caller
   * waits. In any case it reads again.
   *
   * @throws SinkError (systemic) as `chooseLog`, from a store in which the number is given
   */
  add(log: RegisteredLog): Promise<boolean>
  /** Stores content types and the time of acceptance of a registered log. False as for `add`. */
  update(log: RegisteredLog): Promise<boolean>
  /** Removes the log, if it was not accepted again since, and what the store notes of its replays. */
  remove(log: RegisteredLog): Promise<void>
}

const attemptsMax = 200
const againMsMax = 50

/** A registry in a table of logs, by compare-and-set: reads, decides, writes, and begins again until what it reads is as it should be. */
export function openLogRegistry(table: LogTable): LogRegistry {
  async function settled(identity: LogIdentity, isTaken: boolean): Promise<number | undefined> {
    const { logName: name, logId: id, writer, contentTypes } = identity
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const startedMs = performance.now()
      const logs = await table.read()
      const { number, state } = chooseLog(logs, identity)
      if (state === 'known') return number
      if (state === 'new' && !isTaken && !isAccepted(identity)) {
        await checkUnread(identity, () => table.read())
        return undefined
      }
      // Later than all others, whatever the clocks of their machines say.
      const nowMs = logs.reduce((latest, log) => Math.max(latest, log.acceptedMs + 1), Date.now())
      const acceptedMs = state === 'changed' ? logs.find(log => log.number === number)!.acceptedMs : nowMs
      const log: RegisteredLog = { number, name, id, writer, contentTypes, acceptedMs }
      const isDone = await (state === 'new' ? table.add(log) : table.update(log))
      // Waits longer for a slow store. In any case what is stored decides: another writer may have registered something meanwhile, and of two, at
      // least one sees what the other has written.
      if (!isDone) await wait(Math.random() * (againMsMax + performance.now() - startedMs))
    }
    throw new SinkError('transient', `the log "${name}" could not be registered: other writers keep registering theirs at the same time`)
  }

  return {
    find: identity => settled(identity, false),
    take: async identity => (await settled(identity, true))!,
  }
}

/**
 * For stores that keep no positions, when a writer of a log that the store does not know starts.
 *
 * @param readLogs reads the store's logs again: another worker of the same writer may have registered the log, stored messages and committed since
 * the caller read them
 * @throws SinkError (systemic) if the writer has read the log before into another store
 */
export async function checkUnread(identity: LogIdentity, readLogs: () => Promise<readonly RegisteredLog[]>): Promise<void> {
  const { logName, logId, writer, hasCommits } = identity
  if (isAccepted(identity) || hasCommits === undefined || !(await hasCommits())) return
  if (chooseLog(await readLogs(), identity).state !== 'new') return
  throw new SinkError(
    'systemic',
    `the store does not know the log "${logName}", but the writer "${writer}" has read from it before: those messages are not in this store. Use another writer name (${named('log.group')}) to start from the oldest message, or start once with --accept-new-log ${logId} to continue from here`,
  )
}

/**
 * The log to free, so that another one can have its number.
 *
 * @param isIdle whether no process of its writer runs
 * @throws SinkError (systemic) for an unknown number, and for a log that may be written from now
 */
export function logToFree<Log extends RegisteredLog>(logs: readonly Log[], number: number, isIdle = false): Log {
  const log = logs.find(one => one.number === number)
  if (log === undefined) throw new SinkError('systemic', `the store has no log with the number ${number}`)
  if (isIdle || !currentLogs(logs).includes(log)) return log
  throw new SinkError(
    'systemic',
    `the number ${number} belongs to the log "${log.name}" (id ${log.id}), from which the writer "${log.writer}" writes: stop all its processes first`,
  )
}

/** @throws SinkError (systemic) */
export function rowsLeft({ number, name, id }: RegisteredLog): SinkError {
  return new SinkError(
    'systemic',
    `the store still has rows of the log "${name}" (id ${id}), which is number ${number}: delete them first, or wait until the retention deletes them`,
  )
}

/** Says whether a store has a row of the log with a number: its audit. */
interface RowSearch {
  hasRows(log: number): Promise<boolean>
}

/**
 * Frees a number in a store without transactions.
 *
 * @param isIdle as for `logToFree`
 * @throws SinkError (systemic) that says why it cannot be freed
 */
export async function freeLog(table: LogTable, number: number, rows: RowSearch, isIdle = false): Promise<void> {
  const log = logToFree(await table.read(), number, isIdle)
  if (await rows.hasRows(number)) throw rowsLeft(log)
  await table.remove(log)
}

function freed({ logName, writer }: LogIdentity, number: number): SinkError {
  return new SinkError(
    'systemic',
    `the number ${number} of the log "${logName}" was freed while the writer "${writer}" was running: start it again, and do not free numbers of running writers`,
  )
}

function noNumberLeft({ logName }: LogIdentity): SinkError {
  return new SinkError(
    'systemic',
    `the store already has ${limits.log} logs, the maximum, and no number is left for "${logName}": list them with ./sluice logs <store>, and free the number of one whose rows are gone, or write this log to another store`,
  )
}

function anotherNumber(identity: LogIdentity, { number, name, id, writer }: RegisteredLog, right: number): SinkError {
  return new SinkError(
    'systemic',
    `the store has the log "${name}" (id ${id}, writer "${writer}") as number ${number}, so "${identity.logName}" (id ${identity.logId}) cannot be number ${identity.number}: set ${right} in ${named('log.numbers')}`,
  )
}

function ownedByAnother({ logName, writer, contentTypes }: LogIdentity, other: RegisteredLog): SinkError {
  return new SinkError(
    'systemic',
    `the store's rows of the log "${logName}" belong to the writer "${other.writer}" (${typesText(other.contentTypes)}), but this writer is called "${writer}" (${typesText(contentTypes)}): start it under that name (${named('log.group')}), give it another store, or give the two writers different ${named('transformer.content_types')}`,
  )
}

function typesText(contentTypes: ContentTypes): string {
  return contentTypes === undefined ? 'all content types' : contentTypes.join(', ')
}

function anotherLog({ logName, logId }: LogIdentity, storedId: string): SinkError {
  return new SinkError(
    'systemic',
    `the log "${logName}" (id ${logId}) is not the log that the store was written from (id ${storedId}), so the store's offsets do not apply to it: if it was recreated on purpose, start once with --accept-new-log ${logId}`,
  )
}
