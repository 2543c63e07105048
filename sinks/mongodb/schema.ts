// What the store has to have: its version, and the indexes of its collections, made by whoever opens it first.

import type { Collection, Db, Document, IndexDescription } from 'mongodb'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { isErrorOf } from './errors.ts'
import { makeIndexes, noneOfMissing, rowIndexes } from './indexes.ts'
import type { SinkOptions } from './options.ts'
import { deleteBefore } from './retention.ts'

/** Of the documents and of the registries; a store of a later one is not touched. */
const version = 1

const formatNumberIndex: IndexDescription = { key: { number: 1 }, name: 'number_1', unique: true }

/**
 * Makes what is missing; any number of processes may at once.
 *
 * @param onNotice told what the user may not make, and what then happens
 * @throws SinkError (systemic) where the database is not a store of ours, or one of a later version
 */
export async function prepareStore(connection: Connection, onNotice: (sentence: string) => void): Promise<void> {
  await connection.connect()
  await checkKind(connection)
  await checkVersion(connection)
  const wanted: [string, IndexDescription[], string][] = [
    ['sluice.formats', [formatNumberIndex], 'two writers that add formats at once may add more than the limit'],
    [senmlFormat, rowIndexes('timeUs'), 'whoever reads a channel reads all channels'],
  ]
  for (const [collection, indexes, consequence] of wanted) {
    const missing = await makeIndexes(connection, collection, indexes)
    if (missing.length === 0) continue
    onNotice(
      `the collection "${collection}" has not the indexes ${missing.join(' and ')}, and they cannot be made: ${consequence}. Make them as sinks/mongodb/README.md lists them, or give the writer's user the right createIndex`,
    )
  }
}

/** A collection `messages` that keeps rows otherwise: a view, a time series, one that is cut at a size. */
async function checkKind({ database }: Connection): Promise<void> {
  const found = await database.listCollections({ name: senmlFormat }).toArray().catch(noneOfMissing)
  const [one] = found as { type?: string; options?: Document }[]
  if (one === undefined) return
  const kind =
    one.type !== undefined && one.type !== 'collection' ? one.type : one.options?.['capped'] === true ? 'capped collection' : undefined
  if (kind === undefined) return
  throw new SinkError(
    'systemic',
    `"${senmlFormat}" in the database "${database.databaseName}" is a ${kind} and not a collection that rows can be kept in: give the store a database of its own`,
  )
}

/** The document is also what an insert is tried with that is known to be harmless. */
async function checkVersion({ database }: Connection): Promise<void> {
  if ((await readVersion(database)) === version) return
  await versionsOf(database)
    .insertOne({ _id: version, createdAt: new Date() })
    .catch((error: unknown) => {
      if (!isErrorOf(error, 11_000)) throw error
    })
}

/**
 * The version of the store; 0 where nobody has made it yet.
 *
 * @throws SinkError (systemic) for a later version than this one knows
 */
export async function readVersion(database: Db, signal?: AbortSignal): Promise<number> {
  const newest = { sort: { _id: -1 }, limit: 1, ...(signal === undefined ? {} : { signal }) } as const
  const [{ _id: latest } = { _id: 0 }] = await versionsOf(database).find({}, newest).toArray()
  if (latest <= version) return latest
  throw new SinkError(
    'systemic',
    `the store in the database "${database.databaseName}" was made by a later version of sluice (schema ${latest}, and this one knows ${version}): start that version`,
  )
}

function versionsOf(database: Db): Collection<{ _id: number; createdAt: Date }> {
  return database.collection<{ _id: number; createdAt: Date }>('sluice.schema')
}

/** `{ _id: 1 }` in BSON: it is in `sluice.schema` already. */
const known = Uint8Array.of(14, 0, 0, 0, 0x10, 0x5f, 0x69, 0x64, 0, version, 0, 0, 0, 0)

/**
 * Resolves where the store takes inserts with our write concern.
 *
 * @throws the driver's errors: then what was refused before was not refused for what it held
 */
export async function probe(connection: Connection, signal: AbortSignal): Promise<void> {
  await connection.insert('sluice.schema', known, signal)
}

/**
 * Deletes what is older than the option `retention_days` allows. To be called at the start of a process and every few hours; several processes may.
 *
 * @throws the driver's errors: the next call goes on
 */
export async function maintain(connection: Connection, { retentionDays }: SinkOptions, now = new Date()): Promise<void> {
  if (retentionDays === 0) return
  await connection.connect()
  await deleteBefore(connection, new Date(now.getTime() - retentionDays * 86_400_000))
}
