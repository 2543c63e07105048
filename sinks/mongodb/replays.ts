// Messages that were dead-lettered and replayed: noted once they are stored, so that an audit can tell why a dead letter has rows.

import type { Original } from '../../transformers/record-batch.ts'
import { positionHigh, positionLow } from '../sink.ts'
import type { Connection } from './connection.ts'
import { rowFailure, type WriteError } from './errors.ts'

export const replayedCollection = 'sluice.replayed'

/** The packed position that a message had at first: the `_id` in `sluice.replayed`, and the upper 8 bytes of its rows'. */
export function packed({ log, partition, offset }: Original): bigint {
  return (BigInt(positionHigh(log, partition, offset)) << 32n) | BigInt(positionLow(offset))
}

/**
 * Notes the messages of the batch that were replayed and that the store has, also those whose rows it had: where a writer ends between the rows
 * and this note, they are found there the next time.
 *
 * @param has whether the message has rows in the store
 */
export async function noteReplays(
  connection: Connection,
  originals: ReadonlyMap<number, Original>,
  has: (message: number) => boolean,
  signal: AbortSignal,
): Promise<void> {
  const positions = new Set<bigint>()
  for (const [message, original] of originals) if (has(message)) positions.add(packed(original))
  if (positions.size === 0) return
  const replayedAt = new Date()
  const documents = Array.from(positions, position => ({ _id: position, replayedAt }))
  const insert = { insert: replayedCollection, documents, ordered: false, writeConcern: { w: 'majority' } }
  const answer = await connection.command(insert, signal)
  const failure = ((answer['writeErrors'] as WriteError[] | undefined) ?? []).find(({ code }) => code !== 11_000)
  if (failure !== undefined) throw rowFailure(failure, `MongoDB did not insert into ${replayedCollection}`)
}

/** Those of these positions whose messages were replayed and have rows. What another writer has noted just now counts, before a majority has it. */
export async function positionsReplayed(
  { database }: Connection,
  positions: ReadonlySet<bigint>,
  signal: AbortSignal,
): Promise<ReadonlySet<bigint>> {
  const found = await database
    .collection(replayedCollection)
    .find({ _id: { $in: [...positions] as never } }, { projection: { _id: 1 }, readConcern: { level: 'local' }, signal })
    .toArray()
  return new Set(found.map(({ _id }) => _id as unknown as bigint))
}
