// Which messages were stored by a replay: the table `sluice_replayed`.

import type { Connection } from './connection.ts'
import type { EncodedTable } from './encoded-batch.ts'
import { type Pace, sendAll } from './in-flight.ts'
import type { Statement } from './row-writer.ts'
import { positionColumn } from './statements.ts'

/** By message, the position of its rows as it stands in their keys. */
export function positionsOf(tables: readonly EncodedTable[], messages: ReadonlySet<number>): Map<number, unknown> {
  const positions = new Map<number, unknown>()
  for (const { requests } of tables) {
    for (const { message, params } of requests.flat()) if (messages.has(message)) positions.set(message, params[positionColumn])
  }
  return positions
}

/**
 * Those of these messages that were replayed and have rows: an earlier attempt may have failed between the dead letter and the deletion, and what
 * was replayed since has the same keys.
 */
export async function replayedAmong(
  connection: Connection,
  positions: ReadonlyMap<number, unknown>,
  pace: Pace,
  signal: AbortSignal,
): Promise<Set<number>> {
  const select = `SELECT position FROM ${connection.table('sluice_replayed')} WHERE position = ?`
  const all = [...positions]
  const replayed = new Set<number>()
  const look = async ([message, position]: readonly [number, unknown]): Promise<void> => {
    const [found] = await connection.query(select, [position], { consistency: connection.levels.rows })
    if (found !== undefined) replayed.add(message)
  }
  await sendAll(all.length, at => look(all[at]!), pace, signal)
  return replayed
}

export function replayStatements(connection: Connection, replays: ReadonlyMap<number, bigint>): Statement[] {
  const query = `INSERT INTO ${connection.table('sluice_replayed')} (position, replayed_at) VALUES (?, ?)`
  const now = new Date()
  return [...new Set(replays.values())].map(position => ({ query, params: [position, now] }))
}
