// What the store keeps besides its rows: logs, JSON formats with their collections and indexes, and what was replayed.
//
// Logs and formats are numbered from 1: a process that adds one has read all before it. MongoDB without a replica set
// has no transactions, so adding is a compare-and-set: read all, decide, insert under the next number. A unique index lets only one process have the
// number; any other reads and decides again.
//
// Devices name formats, so a name may be hostile: one device must not be able to create collections without limit, and two writers must not exceed
// the limit together.

import { setTimeout as wait } from 'node:timers/promises'
import type { Collection, Db, Document, IndexDescription } from 'mongodb'
import { eachAtOnce } from '../../config/each-at-once.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { type AddFormats, admitFormats, type FormatRefusal, physicalName as nameBy, type WantedFormat } from '../formats.ts'
import type { KeyedReplays } from '../keyed-replay.ts'
import { currentFirst, type LogTable, type RegisteredLog } from '../logs.ts'
import { packedPosition } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import { rowIdOf } from './bson.ts'
import type { Connection } from './connection.ts'
import { duplicateKey, isErrorOf, rowFailure, type WriteError } from './errors.ts'
import type { SinkOptions } from './options.ts'

/** The position of each message that was dead-lettered, replayed and then stored: `{ _id: position, replayedAt }`. */
export const replayedCollection = 'sluice.replayed'

/** What was erased: `{ _id: id, erasure: text }`. */
const erasuresCollection = 'sluice.erasures'

interface ErasureEntry {
  readonly _id: string
  /** See `erasureText`. */
  readonly erasure: string
}

export async function readErasures(database: Db): Promise<string[]> {
  const entries = await database.collection<ErasureEntry>(erasuresCollection).find().toArray()
  return entries.map(({ erasure }) => erasure)
}

export async function noteErasure(database: Db, id: string, erasure: string): Promise<void> {
  await database.collection<ErasureEntry>(erasuresCollection).replaceOne({ _id: id }, { erasure }, { upsert: true })
}

const attemptsMax = 500
const waitMsMax = 20

/**
 * All entries in the order of their numbers. A scan may pass a place before an entry is inserted there, and still find a later one. So if a number is
 * missing (also because an operator has deleted an entry), it reads again until nothing has been added meanwhile.
 */
async function readSequence<Entry extends Document>(
  collection: Collection<Entry>,
  field: keyof Entry & string,
  signal?: AbortSignal,
): Promise<Entry[]> {
  let entries = await read()
  while (entries.length > 0 && highest(entries) !== entries.length) {
    const again = await read()
    if (highest(again) === highest(entries)) return again
    entries = again
  }
  return entries

  async function read(): Promise<Entry[]> {
    return (await collection
      .find({}, { sort: { [field]: 1 }, ...(signal === undefined ? {} : { signal }) })
      .toArray()) as unknown as Entry[]
  }
  function highest(some: readonly Entry[]): number {
    return nextNumber(some, field) - 1
  }
}

/** The number of the next entry. */
function nextNumber<Entry>(entries: readonly Entry[], field: keyof Entry): number {
  return ((entries.at(-1)?.[field] as number | undefined) ?? 0) + 1
}

/**
 * Inserts the entries in their order, until one of them, or its number, exists already.
 *
 * @returns false if that happened: another process was faster
 */
async function insertNext(
  connection: Connection,
  collection: string,
  entries: readonly Document[],
  signal?: AbortSignal,
): Promise<boolean> {
  const command = { insert: collection, documents: entries, ordered: true, writeConcern: { w: 'majority' } }
  const answer = await connection.command(command, signal)
  const [failure] = (answer['writeErrors'] as WriteError[] | undefined) ?? []
  if (failure?.code === duplicateKey) return false
  if (failure !== undefined) throw rowFailure(failure, `MongoDB did not insert into ${collection}`)
  return true
}

/**
 * Calls `attempt`, which reads, decides and inserts, until it returns something. It returns undefined if another process was faster.
 *
 * @throws SinkError (transient) after too many attempts
 */
async function untilAdded<Result>(attempt: () => Promise<Result | undefined>, what: string, signal: AbortSignal): Promise<Result> {
  for (let nth = 0; nth < attemptsMax; nth++) {
    signal.throwIfAborted()
    const result = await attempt()
    if (result !== undefined) return result
    // What the other process has inserted can only be read once a majority has it.
    await wait(Math.random() * waitMsMax)
  }
  throw new SinkError('transient', `${what}: other processes were faster ${attemptsMax} times`)
}

/**
 * Without a dot, which sluice's own collections and those of the server (`system.…`) contain. MongoDB's names are case-sensitive. The names of a
 * database and a collection have at most 255 bytes together. `~` is only in names made here.
 */
const rule = {
  harmless: /^(?!messages$)[A-Za-z0-9_-]{1,120}$/,
  foreign: /[^a-z0-9_-]+/g,
  separator: '~',
  prefixLengthMax: 60,
}

export function physicalName(format: string): string {
  return nameBy(format, rule)
}

const logsCollection = 'sluice.logs'

/** A document of `sluice.logs`. */
interface LogEntry {
  /** The log's number. */
  readonly _id: number
  readonly name: string
  readonly id: string
  readonly writer: string
  /** Null or absent: all. */
  readonly contentTypes?: readonly string[] | null
  readonly acceptedAt: Date
}

/** All logs that the store knows; of those with the same name and writer, the one that is written from now comes first. */
export async function readLogs(database: Db): Promise<RegisteredLog[]> {
  const entries = await readSequence(database.collection<LogEntry>(logsCollection), '_id')
  return currentFirst(
    entries.map(({ _id: number, name, id, writer, contentTypes, acceptedAt }) => ({
      number,
      name,
      id,
      writer,
      contentTypes: contentTypes ?? undefined,
      acceptedMs: acceptedAt.getTime(),
    })),
  )
}

export function openLogTable(connection: Connection): LogTable {
  const logs = connection.database.collection<LogEntry>(logsCollection)
  return {
    read: () => readLogs(connection.database),
    add({ number, acceptedMs, name, id, writer, contentTypes = null }) {
      const entry: LogEntry = { _id: number, name, id, writer, contentTypes, acceptedAt: new Date(acceptedMs) }
      return insertNext(connection, logsCollection, [entry])
    },
    async update({ number, id, acceptedMs, contentTypes = null }) {
      const changed = { acceptedAt: new Date(acceptedMs), contentTypes }
      const { matchedCount } = await logs.updateOne({ _id: number, id }, { $set: changed })
      return matchedCount === 1
    },
    async remove({ number, acceptedMs }) {
      const replays = { _id: { $gte: packedPosition(number, 0, 0), $lt: packedPosition(number + 1, 0, 0) } as never }
      await connection.database.collection(replayedCollection).deleteMany(replays)
      await logs.deleteOne({ _id: number, acceptedAt: new Date(acceptedMs) })
    },
  }
}

/** A document of `sluice.formats`. */
export interface FormatEntry {
  /** The format. */
  readonly _id: string
  /** From 1, in the order in which they were added. */
  readonly number: number
  readonly collection: string
  /** The channel that added it. */
  readonly channel: string
  readonly createdAt: Date
}

interface Registration {
  readonly registered: readonly FormatEntry[]
  readonly refused: Map<string, FormatRefusal>
}

export const formatsCollection = 'sluice.formats'
const preparedAtOnce = 4
const invalidNamespace = 73

/** All formats that the store has. */
export function readFormats(database: Db, signal?: AbortSignal): Promise<FormatEntry[]> {
  return readSequence(database.collection<FormatEntry>(formatsCollection), 'number', signal)
}

/** Registers missing formats, and creates their collections. */
export function formatAdder(connection: Connection, options: SinkOptions): AddFormats {
  const { database } = connection

  /**
   * Registers the wanted formats that may be added. Returns all that are then registered, and the refused ones; undefined if another process was
   * faster.
   */
  async function register(wanted: readonly WantedFormat[], signal: AbortSignal): Promise<Registration | undefined> {
    const registered = await readFormats(database, signal)
    const admitted = admitFormats(
      registered.map(({ _id, channel }) => ({ format: _id, channel })),
      wanted,
      options,
    )
    let number = nextNumber(registered, 'number')
    const createdAt = new Date()
    const added = admitted.added.map(
      ({ format, channel }): FormatEntry => ({ _id: format, number: number++, collection: physicalName(format), channel, createdAt }),
    )
    const refused = new Map(admitted.refused)
    if (added.length === 0) return { registered, refused }
    try {
      if (!(await insertNext(connection, formatsCollection, added, signal))) return undefined
    } catch (error) {
      if (!isErrorOf(error, denied)) throw error
      for (const { _id } of added) refused.set(_id, notAllowed(error.message))
      return { registered, refused }
    }
    return { registered: [...registered, ...added], refused }
  }

  /** Creates the collection by creating its indexes. */
  async function prepare(format: string, collection: string, signal: AbortSignal): Promise<FormatRefusal | undefined> {
    try {
      const missing = await makeIndexes(connection, collection, rowIndexes('created'), signal)
      return missing.length === 0 ? undefined : notAllowed(`the collection "${collection}" lacks the indexes ${missing.join(' and ')}`)
    } catch (error) {
      if (!isErrorOf(error, invalidNamespace)) throw error
      // Remove the format, so that readers of all formats do not use a name that the server refuses.
      const command = { delete: formatsCollection, deletes: [{ q: { _id: format }, limit: 1 }], writeConcern: { w: 'majority' } }
      await connection.command(command, signal)
      return notACollection(error.message)
    }
  }

  return async (missing, signal) => {
    const { registered, refused } = await untilAdded(() => register(missing, signal), 'JSON formats could not be added', signal)
    const collections = new Map(registered.map(({ _id, collection }) => [_id, collection]))
    const prepared = missing.filter(({ format }) => collections.has(format))
    await eachAtOnce(prepared, preparedAtOnce, async ({ format }) => {
      const refusal = await prepare(format, collections.get(format)!, signal)
      if (refusal !== undefined) refused.set(format, refusal)
    })
    return refused
  }
}

/**
 * If the user may not create collections, messages of new formats are rejected and the writer goes on: devices name formats, and one device must not
 * keep the messages of others from being stored. A replay stores the rejected ones once an operator has granted the permission.
 */
function notAllowed(reason: string): FormatRefusal {
  return {
    rule: 'format-not-allowed',
    reason: `the format has no collection with its indexes, and the writer's user may not create one: ${reason}`,
    hint: 'grant createIndex on the database to the user of the writer, then replay the message',
  }
}

function notACollection(reason: string): FormatRefusal {
  return {
    rule: 'store-refused',
    reason: `the server accepts no collection of this name: ${reason}`,
    hint: 'publish to a subtopic whose last part is another word',
  }
}

const namespaceNotFound = 26
const denied = 13
const sameKeysOtherName = 85
const sameNameOtherKeys = 86
/** MongoDB, "Limits and Thresholds", allows fewer; all of them fit into one answer. */
const indexesMax = 1_000

/** The indexes of a collection of rows: newest first within a channel, and within a channel and publisher. */
export function rowIndexes(time: 'timeUs' | 'created'): IndexDescription[] {
  return [
    { key: { channel: 1, [time]: -1, _id: -1 }, name: `channel_1_${time}_-1__id_-1` },
    { key: { channel: 1, publisher: 1, [time]: -1, _id: -1 }, name: `channel_1_publisher_1_${time}_-1__id_-1` },
  ]
}

/**
 * Creates missing indexes, and with them the collection.
 *
 * @returns the names of indexes that are missing and could not be created
 */
export async function makeIndexes(
  connection: Connection,
  collection: string,
  indexes: readonly IndexDescription[],
  signal?: AbortSignal,
): Promise<string[]> {
  const missing: string[] = []
  // One at a time: otherwise an index that cannot be created would prevent the others.
  for (const index of indexes) {
    try {
      const command = { createIndexes: collection, indexes: [index], writeConcern: { w: 'majority' } }
      await connection.command(command, signal)
    } catch (error) {
      if (!isErrorOf(error, denied, sameKeysOtherName, sameNameOtherKeys)) throw error
      if (!(await isThere(connection, collection, index, signal))) missing.push(index.name!)
    }
  }
  return missing
}

/** True if there is an index with the same keys, whatever its name. */
async function isThere(
  connection: Connection,
  collection: string,
  { key }: IndexDescription,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const found = await listIndexes(connection, collection, signal).catch(noneOfMissing)
  return found.some(index => JSON.stringify(index['key']) === JSON.stringify(key))
}

/**
 * Uses the command itself, which a signal can abort, unlike the driver's cursor. A collection has at most 64 indexes, which fit into the first batch.
 */
export async function listIndexes(connection: Connection, collection: string, signal?: AbortSignal): Promise<Document[]> {
  const answer = await connection.command({ listIndexes: collection, cursor: { batchSize: indexesMax } }, signal)
  return (answer['cursor'] as { firstBatch: Document[] }).firstBatch
}

/** A collection that is missing, or that may not be read, has none. */
export function noneOfMissing(error: unknown): Document[] {
  if (!isErrorOf(error, namespaceNotFound, denied)) throw error
  return []
}

/** What a replay needs besides the inserts: records what was replayed, and deletes the rows of a position. */
export function openReplays(connection: Connection): KeyedReplays {
  return {
    async noteReplays(positions, signal) {
      const replayedAt = new Date()
      const documents = Array.from(positions, position => ({ _id: position, replayedAt }))
      const insert = { insert: replayedCollection, documents, ordered: false, writeConcern: { w: 'majority' } }
      const answer = await connection.command(insert, signal)
      const failure = ((answer['writeErrors'] as WriteError[] | undefined) ?? []).find(({ code }) => code !== duplicateKey)
      if (failure !== undefined) throw rowFailure(failure, `MongoDB did not insert into ${replayedCollection}`)
    },

    async deleteRows(position, _channel, signal) {
      const own = { _id: { $gte: rowIdOf(position, 0), $lte: rowIdOf(position, 0xffff_ffff) } }
      const collections = [senmlFormat, ...(await readFormats(connection.database)).map(({ collection }) => collection)]
      for (const collection of collections) {
        const found = await connection.database
          .collection(collection)
          .find(own as never, { projection: { _id: 1 }, readConcern: { level: 'local' }, signal })
          .toArray()
        if (found.length > 0)
          await connection.remove(
            collection,
            found.map(({ _id }) => _id as unknown as Uint8Array),
            signal,
          )
      }
    },
  }
}
