// Rows that a removal takes from a replay which runs at the same time: one of the two notices, and they are written again.
//
// The writer that refuses a message removes its rows, and a replay of it stores the same rows under the same `_id`s, or finds them there. Without
// transactions no look is one step with what follows from it. So each of the two leaves its trace first, and looks for that of the other afterwards:
//
//   removal: is it noted as replayed (first look)? no: delete; is it noted now (second look)? yes: insert its rows again
//   replay:  insert the rows; note it; are they all there? no: the write is a transient error, and is done again
//
// When both have ended the rows are there, in whatever order the steps came:
//
// 1. The first look sees the note. Nothing is deleted.
// 2. The second look sees it, and the first did not. The removal inserts again what it may have taken, whether or not the replay had ended by then.
// 3. Neither sees it. Then the delete was acknowledged before the second look was asked, the note became visible behind that look, and the replay asked
//    for its rows when the note was acknowledged: behind the delete. It inserts what it does not find, and nothing takes that away any more, since a
//    removal whose first look comes later is of the first kind, and one whose second look does of the second.
//
// Both may insert the same row: it has one `_id`. What it rests on is that the primary shows at once what it has taken. What it leaves open is a removal
// that is killed, or whose delete lands after it was given up: README.md says so.

import { SinkError } from '../sink-error.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import { type InsertParts, insertRows, type Target } from './insert.ts'
import { positionsReplayed } from './replays.ts'
import { keyOf, positionAt, rowIdAt } from './row-id.ts'
import { rowIdsThere, settle } from './settle.ts'

const idsAtOnce = 1_000

/**
 * The removal's second look, for all messages whose rows an attempt may have deleted. No signal ends it, only the time-outs of its requests; where it
 * fails, the next write of the batch looks again. A row that is refused by now cannot be given back: its message is a dead letter, and `sluice verify`
 * misses the row.
 */
export async function giveBack({ leftovers }: EncodedBatch, inserting: Omit<InsertParts, 'leftOut' | 'signal'>): Promise<void> {
  const { connection, targets } = inserting
  const { signal } = new AbortController()
  const messages = new Map<bigint, number>()
  for (const [message, rowId] of rowsOf(targets, message => leftovers.has(message))) messages.set(positionAt(rowId), message)
  const replayed = new Set<number>()
  const positions = [...messages.keys()]
  for (let start = 0; start < positions.length; start += idsAtOnce) {
    const found = await positionsReplayed(connection, new Set(positions.slice(start, start + idsAtOnce)), signal)
    for (const position of found) replayed.add(messages.get(position)!)
  }
  if (replayed.size === 0) return
  const leftOut = { has: (message: number) => !replayed.has(message), size: 1 }
  const errors = await insertRows({ ...inserting, leftOut, signal })
  await settle(connection, targets, errors, leftOut, signal)
}

/**
 * The replay's look behind its note, in a batch of replays.
 *
 * @param has whether the message was replayed, and has rows in the store
 * @throws SinkError (transient) where rows are missing
 */
export async function checkReplays(
  { connection, targets, signal }: Pick<InsertParts, 'connection' | 'targets' | 'signal'>,
  has: (message: number) => boolean,
): Promise<void> {
  let missing = 0
  for (const target of targets) {
    // A message may be in the batch twice.
    const rowIds = new Map<string, Uint8Array>()
    for (const [, rowId] of rowsOf([target], has)) rowIds.set(keyOf(rowId), rowId)
    const all = [...rowIds.values()]
    for (let start = 0; start < all.length; start += idsAtOnce) {
      const some = all.slice(start, start + idsAtOnce)
      missing += some.length - (await rowIdsThere(connection, target.collection, some, signal)).size
    }
  }
  if (missing === 0) return
  throw new SinkError(
    'transient',
    `${missing} rows of replayed messages were removed after they were stored, by the writer that had refused them`,
  )
}

function* rowsOf(targets: readonly Target[], isWanted: (message: number) => boolean): Generator<[message: number, rowId: Uint8Array]> {
  for (const { table } of targets) {
    for (const [row, message] of table.rowMessage.entries()) {
      if (isWanted(message)) yield [message, rowIdAt(table.bytes, table.rowStart[row]!)]
    }
  }
}
