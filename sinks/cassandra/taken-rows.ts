// Rows that a removal takes from a replay which runs at the same time: one of the two notices, and they are written again.
//
// The writer that refuses a message removes its rows, also those that are newer than its own; and a replay of the message stores the same rows under the
// same keys. Without transactions no look is one step with what follows from it. So each of the two leaves its trace first, and looks for that of the
// other afterwards:
//
//   removal: is it noted as replayed (first look)? no: delete; is it noted now (second look)? yes: write its rows again
//   replay:  write the rows; note it; are they all there? no: the write is a transient error, and is done again
//
// When both have ended the rows are there, in whatever order the steps came:
//
// 1. The first look sees the note. Nothing is deleted.
// 2. The second look sees it, and the first did not. The removal writes again what it may have taken, whether or not the replay had ended by then.
// 3. Neither sees it. Then the deletes were acknowledged before the second look was asked, the note was not, and the replay asked for its rows when the
//    note was acknowledged: behind the deletes. It writes what it does not find, and nothing takes that away any more, since a removal whose first look
//    comes later is of the first kind, and one whose second look does of the second.
//
// Both may write the same row: it has one key. What it rests on is that what was acknowledged is seen by every later question, which is so where as
// many replicas are written to and asked as overlap (`LOCAL_QUORUM`, the default; not `ONE`). What it leaves open is a removal that is killed, or whose
// delete lands after it was given up: README.md says so.

import type { Client } from 'cassandra-driver'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import type { EncodedTable } from './encoded-batch.ts'
import type { Pace } from './in-flight.ts'
import { positionsOf, replayedAmong } from './replays.ts'
import { openRowWriter, type RowWriter } from './row-writer.ts'

interface Parts {
  readonly connection: Connection
  readonly client: Client
  readonly pace: Pace
  readonly tables: readonly EncodedTable[]
}

/**
 * The removal's second look, for all messages whose rows an attempt may have deleted. No signal ends it, only the time-outs of its requests; where it
 * fails, the next attempt looks again. A row that is refused by now cannot be given back: its message is a dead letter, and `sluice verify` misses it.
 *
 * @param deletedUs the latest timestamp that this attempt has deleted as of: what has it would stay under the tombstones
 * @throws SinkError (transient) where rows are under a tombstone all the same, of an attempt before
 */
export async function giveBack(
  { connection, client, pace, tables }: Parts,
  messages: ReadonlySet<number>,
  deletedUs: number,
): Promise<void> {
  const { signal } = new AbortController()
  const replayed = await replayedAmong(connection, positionsOf(tables, messages), pace, signal)
  if (replayed.size === 0) return
  const taken = tables.map(table => ({
    ...table,
    requests: table.requests.map(request => request.filter(({ message }) => replayed.has(message))).filter(({ length }) => length > 0),
  }))
  const writer = openRowWriter(connection, client, pace, Math.max(Date.now() * 1000, deletedUs + 1), signal)
  for (const { message } of await writer.insert(taken, { rejected: new Map() })) replayed.delete(message)
  await checkThere(writer, taken, replayed)
}

/** @throws SinkError (transient) where rows of these messages, which were replayed, are not in the store */
export async function checkThere(
  writer: RowWriter,
  tables: readonly EncodedTable[],
  messages: { has(message: number): boolean },
): Promise<void> {
  const missing = await writer.missing(tables, messages)
  if (missing === 0) return
  throw new SinkError(
    'transient',
    `${missing} rows of replayed messages are not found after they were written: the writer that had refused them has deleted them meanwhile, or a machine whose clock is ahead of this one's`,
  )
}
