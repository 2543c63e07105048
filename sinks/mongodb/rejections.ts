// Messages that are rejected: their dead letters first, then none of their rows stays.

import { unlessAborted } from '../../config/aborting.ts'
import type { Reject, Rejection } from '../sink.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import type { InsertParts } from './insert.ts'
import { positionsReplayed } from './replays.ts'
import { positionAt, rowIdAt } from './row-id.ts'
import { giveBack } from './taken-rows.ts'

const idsAtOnce = 1_000

/** Has the dead letters made durable that are not yet. */
export async function acknowledge({ rejected, acknowledged }: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<void> {
  const rejections: Rejection[] = []
  for (const [message, rejection] of rejected) if (!acknowledged.has(message)) rejections.push(rejection)
  if (rejections.length === 0) return
  rejections.sort((one, other) => one.message - other.message)
  // Given up, the dead letters go on being written, and nobody waits for them.
  await unlessAborted(reject(rejections), signal)
  for (const { message } of rejections) acknowledged.add(message)
}

/**
 * Deletes what the store has of messages whose dead letters are durable, but for those that were replayed since: an earlier attempt may have
 * failed in between, and what was replayed has the same `_id`s.
 */
export async function removeLeftovers(encoded: EncodedBatch, inserting: Omit<InsertParts, 'leftOut'>): Promise<void> {
  const { leftovers, acknowledged } = encoded
  const { connection, targets, signal } = inserting
  if (leftovers.size === 0) return
  for (const { table, collection } of targets) {
    let rowIds: Uint8Array[] = []
    for (let row = 0; row < table.rowMessage.length; row++) {
      const message = table.rowMessage[row]!
      if (leftovers.has(message) && acknowledged.has(message)) rowIds.push(rowIdAt(table.bytes, table.rowStart[row]!))
      if (rowIds.length < idsAtOnce) continue
      await remove(collection, rowIds)
      rowIds = []
    }
    if (rowIds.length > 0) await remove(collection, rowIds)
  }
  await giveBack(encoded, inserting)
  leftovers.clear()

  async function remove(collection: string, rowIds: readonly Uint8Array[]): Promise<void> {
    const replayed = await positionsReplayed(connection, new Set(rowIds.map(positionAt)), signal)
    const going = rowIds.filter(rowId => !replayed.has(positionAt(rowId)))
    if (going.length > 0) await connection.remove(collection, going, signal)
  }
}
