// Deletes what is older than the option `retention_days` allows, channel by channel, by the index that readers use.
//
// No index by time alone is kept for it, since each row would pay for that when it is written: the index begins with the channel, so the next
// channel is one seek away, and what is too old of it lies together at the end.

import type { Document, Filter } from 'mongodb'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { Connection } from './connection.ts'
import { readFormats } from './formats.ts'

/** One statement deletes so many rows, so that none runs for long. */
const rowsAtOnce = 1_000
/** What was deleted to a lesser write concern than a majority is not found again while the majority has not heard of it. */
const local = { readConcern: { level: 'local' } } as const

/** Every record whose time lies before, and every document that was created before. The registries stay. */
export async function deleteBefore(connection: Connection, keep: Date): Promise<void> {
  const keepUs = BigInt(keep.getTime()) * 1000n
  await deleteRows(connection, senmlFormat, 'timeUs', keepUs)
  for (const { collection } of await readFormats(connection.database)) await deleteRows(connection, collection, 'created', keepUs * 1000n)
}

async function deleteRows(connection: Connection, collection: string, time: 'timeUs' | 'created', before: bigint): Promise<void> {
  const rows = connection.database.collection(collection)
  for (let channel = await channelBehind(undefined); channel !== undefined; channel = await channelBehind(channel)) {
    for (;;) {
      const old: Filter<Document> = { channel, [time]: { $lt: before } }
      const found = await rows.find(old, { ...local, projection: { _id: 1 }, sort: { [time]: 1, _id: 1 }, limit: rowsAtOnce }).toArray()
      const rowIds = found.map(({ _id }) => _id as unknown as Uint8Array)
      if (rowIds.length > 0) await connection.remove(collection, rowIds)
      if (rowIds.length < rowsAtOnce) break
    }
  }

  async function channelBehind(channel: string | undefined): Promise<string | undefined> {
    const behind: Filter<Document> = { channel: channel === undefined ? { $gte: '' } : { $gt: channel } }
    const [next] = await rows.find(behind, { projection: { _id: 0, channel: 1 }, sort: { channel: 1 }, limit: 1 }).toArray()
    return next?.['channel'] as string | undefined
  }
}
