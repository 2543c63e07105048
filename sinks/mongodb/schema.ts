// The store's schema: its version and the indexes of its collections, created by the first process that opens it; and the retention.

import type { Collection, Db, Document, Filter, IndexDescription } from 'mongodb'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { type ErasureFilter, erasureText, retentionNotes } from '../erasure.ts'
import { SinkError, UnpreparedStoreError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { isErrorOf } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { makeIndexes, noneOfMissing, noteErasure, readFormats, rowIndexes } from './registry.ts'

/** Of the documents and the registries. A store with a later version is not opened. */
const version = 1

const formatNumberIndex: IndexDescription = { key: { number: 1 }, name: 'number_1', unique: true }

/**
 * Creates what is missing; several processes may call it at once.
 *
 * @param onNotice called with a sentence for what the user may not create, with its consequence
 * @throws SinkError (systemic) if the database is not a store of sluice, or one of a later version
 */
export async function prepareStore(connection: Connection, onNotice: (sentence: string) => void): Promise<void> {
  await connection.connect()
  await checkKind(connection)
  await checkVersion(connection)
  const wanted: [string, IndexDescription[], string][] = [
    ['sluice.formats', [formatNumberIndex], 'two writers that add formats at the same time may add more than the limit'],
    [senmlFormat, rowIndexes('timeUs'), 'a reader of one channel has to read all channels'],
  ]
  for (const [collection, indexes, consequence] of wanted) {
    const missing = await makeIndexes(connection, collection, indexes)
    if (missing.length === 0) continue
    onNotice(
      `the collection "${collection}" lacks the indexes ${missing.join(' and ')}, and they cannot be created: ${consequence}. Create them as docs/stores/mongodb.md describes, or grant createIndex to the writer's user`,
    )
  }
}

/**
 * Checks the schema and changes nothing.
 *
 * @throws SinkError (systemic) if the database is not a store of this version
 */
export async function checkStore(connection: Connection): Promise<void> {
  await connection.connect()
  const found = await readVersion(connection.database)
  if (found === version) return
  throw new UnpreparedStoreError(
    `the store in the database "${connection.database.databaseName}" has schema ${found}, and this version needs ${version}: start its writer of this version first`,
  )
}

/** Refuses a collection `messages` that cannot hold rows: a view, a time series, a capped collection. */
async function checkKind({ database }: Connection): Promise<void> {
  const found = await database.listCollections({ name: senmlFormat }).toArray().catch(noneOfMissing)
  const [one] = found as { type?: string; options?: Document }[]
  if (one === undefined) return
  const kind =
    one.type !== undefined && one.type !== 'collection' ? one.type : one.options?.['capped'] === true ? 'capped collection' : undefined
  if (kind === undefined) return
  throw new SinkError(
    'systemic',
    `"${senmlFormat}" in the database "${database.databaseName}" is a ${kind}, in which rows cannot be stored: use a separate database for the store`,
  )
}

/** The document is also what `probe` inserts. */
async function checkVersion({ database }: Connection): Promise<void> {
  if ((await readVersion(database)) === version) return
  await versionsOf(database)
    .insertOne({ _id: version, createdAt: new Date() })
    .catch((error: unknown) => {
      if (!isErrorOf(error, 11_000)) throw error
    })
}

/**
 * The version of the store; 0 if it was not created yet.
 *
 * @throws SinkError (systemic) for a later version than this one
 */
export async function readVersion(database: Db, signal?: AbortSignal): Promise<number> {
  const newest = { sort: { _id: -1 }, limit: 1, ...(signal === undefined ? {} : { signal }) } as const
  const [{ _id: latest } = { _id: 0 }] = await versionsOf(database).find({}, newest).toArray()
  if (latest <= version) return latest
  throw new SinkError(
    'systemic',
    `the store in the database "${database.databaseName}" was created by a later version of sluice (schema ${latest}, and this version knows ${version}): start that version`,
  )
}

function versionsOf(database: Db): Collection<{ _id: number; createdAt: Date }> {
  return database.collection<{ _id: number; createdAt: Date }>('sluice.schema')
}

/** `{ _id: 1 }` in BSON, a document that `sluice.schema` already has. */
const known = Uint8Array.of(14, 0, 0, 0, 0x10, 0x5f, 0x69, 0x64, 0, version, 0, 0, 0, 0)

/**
 * Resolves if the store accepts inserts with our write concern.
 *
 * @throws the driver's errors: a previous refusal was then not about a row's content
 */
export async function probe(connection: Connection, signal: AbortSignal): Promise<void> {
  await connection.insert('sluice.schema', known, signal)
}

/**
 * Deletes what is older than the options of the retention allow. Called when a process starts and every few hours; several processes may call it at
 * once.
 *
 * @throws the driver's errors; the next call continues
 */
export async function maintain(connection: Connection, options: SinkOptions, now = new Date()): Promise<void> {
  const { retentionDays } = options
  const nowMs = now.getTime()
  const notes = retentionNotes(options, nowMs, retentionDays === 0 ? undefined : nowMs - retentionDays * 86_400_000)
  if (notes.length > 0) await connection.connect()
  for (const note of notes) {
    await noteErasure(connection.database, note.id, erasureText(note))
    await deleteRows(connection, note)
  }
}

/** Rows that one statement deletes, so that none runs for long. */
const rowsAtOnce = 1_000
/** Reads locally, so that rows that were deleted with a smaller write concern than a majority are not found again. */
export const local = { readConcern: { level: 'local' } } as const

interface Deleting {
  readonly signal?: AbortSignal
  /** Called after each statement with the number of rows that it has deleted. */
  readonly onRows?: (rows: number) => Promise<void>
}

/** Deletes the records and documents that meet the conditions. The registries stay. */
export async function deleteRows(connection: Connection, filter: ErasureFilter, { signal, onRows }: Deleting = {}): Promise<void> {
  for await (const { collection, time, rows: wanted } of rowsOfChannels(connection, filter)) {
    const rows = connection.database.collection(collection)
    for (;;) {
      signal?.throwIfAborted()
      const found = await rows.find(wanted, { ...local, projection: { _id: 1 }, sort: { [time]: 1, _id: 1 }, limit: rowsAtOnce }).toArray()
      const rowIds = found.map(({ _id }) => _id as unknown as Uint8Array)
      if (rowIds.length > 0) await connection.remove(collection, rowIds)
      await onRows?.(rowIds.length)
      if (rowIds.length < rowsAtOnce) break
    }
  }
}

/** Rows of one channel that are together in the index that readers use. */
interface ChannelRows {
  readonly format: string
  readonly collection: string
  readonly time: 'timeUs' | 'created'
  readonly rows: Filter<Document>
}

/**
 * Which rows of which collections meet the conditions, channel by channel.
 *
 * There is no index by time or publisher alone, which every row would have to pay for. The indexes that readers use begin with the channel: so the next
 * channel is one seek away, and the old rows of a channel, or of one of its publishers, are together.
 */
export async function* rowsOfChannels(
  connection: Connection,
  { channel, publisher, format: onlyFormat, beforeMs }: ErasureFilter,
): AsyncGenerator<ChannelRows> {
  const formats = await readFormats(connection.database)
  const collections = [
    { format: senmlFormat, collection: senmlFormat, time: 'timeUs', perMs: 1_000n } as const,
    ...formats.map(({ _id, collection }) => ({ format: _id, collection, time: 'created', perMs: 1_000_000n }) as const),
  ]
  for (const { format, collection, time, perMs } of collections) {
    if (onlyFormat !== undefined && format !== onlyFormat) continue
    for await (const each of channel === undefined ? channelsOf(connection, collection) : [channel]) {
      const rows: Filter<Document> = {
        channel: each,
        ...(publisher === undefined ? {} : { publisher }),
        ...(beforeMs === undefined ? {} : { [time]: { $lt: BigInt(beforeMs) * perMs } }),
      }
      yield { format, collection, time, rows }
    }
  }
}

async function* channelsOf(connection: Connection, collection: string): AsyncGenerator<string> {
  for (let last: string | undefined; ; ) {
    const behind: Filter<Document> = { channel: last === undefined ? { $gte: '' } : { $gt: last } }
    const [next] = await connection.database
      .collection(collection)
      .find(behind, { projection: { _id: 0, channel: 1 }, sort: { channel: 1 }, limit: 1 })
      .toArray()
    if (next === undefined) return
    last = next['channel'] as string
    yield last
  }
}
