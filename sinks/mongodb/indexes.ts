// The indexes of the store's collections, made where they are missing.

import type { Document, IndexDescription } from 'mongodb'
import type { Connection } from './connection.ts'
import { isErrorOf } from './errors.ts'

const namespaceNotFound = 26
const denied = 13
const sameKeysOtherName = 85
const sameNameOtherKeys = 86
/** MongoDB, "Limits and Thresholds", and what an answer has room for. */
const indexesMax = 1_000

/** Of a collection of rows: newest first within a channel, and within a channel and a publisher. */
export function rowIndexes(time: 'timeUs' | 'created'): IndexDescription[] {
  return [
    { key: { channel: 1, [time]: -1, _id: -1 }, name: `channel_1_${time}_-1__id_-1` },
    { key: { channel: 1, publisher: 1, [time]: -1, _id: -1 }, name: `channel_1_publisher_1_${time}_-1__id_-1` },
  ]
}

/**
 * Makes the indexes, and with them the collection, where they are missing.
 *
 * @returns the names of indexes that are not there and that could not be made
 */
export async function makeIndexes(
  connection: Connection,
  collection: string,
  indexes: readonly IndexDescription[],
  signal?: AbortSignal,
): Promise<string[]> {
  const missing: string[] = []
  // One at a time: one that cannot be made would keep the others from being made with it.
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

/** True for an index of the same keys, whatever it is called. */
async function isThere(
  connection: Connection,
  collection: string,
  { key }: IndexDescription,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const found = await listIndexes(connection, collection, signal).catch(noneOfMissing)
  return found.some(index => JSON.stringify(index['key']) === JSON.stringify(key))
}

/** By the command itself, which a signal ends; the driver's cursor takes none. A collection has 64 at most, which lie in the first batch. */
export async function listIndexes(connection: Connection, collection: string, signal?: AbortSignal): Promise<Document[]> {
  const answer = await connection.command({ listIndexes: collection, cursor: { batchSize: indexesMax } }, signal)
  return (answer['cursor'] as { firstBatch: Document[] }).firstBatch
}

/** What is not there, or may not be looked at, has none. */
export function noneOfMissing(error: unknown): Document[] {
  if (!isErrorOf(error, namespaceNotFound, denied)) throw error
  return []
}
