// Converts columns of the store to rows, and reads whole rows by their keys, so that only the rows of a page are read whole.

import type { Row } from '../reader.ts'
import { type Columns, documentRowOf, senmlRowOf } from '../table-rows.ts'
import type { Ask } from './requests.ts'
import { type ClusteringKey, compareKeys, keysTogether, type Source, selectRowsAt } from './select.ts'

/** @param columns at least those that the caller uses */
export function toRow(columns: Columns, { kind }: Pick<Source, 'kind'>, channel: string): Row {
  return kind === 'senml' ? senmlRowOf(columns, channel) : documentRowOf(columns, channel)
}

/** The key by which the table orders rows. */
function clusteringKeyOf(row: Row): ClusteringKey {
  const { position, index } = row
  return { time: row.kind === 'senml' ? BigInt(row.timeUs) : row.createdNs, position, index }
}

/** The key of a row, and its partition. */
export interface FoundKey {
  /** The partition of the row. */
  readonly day: number
  /** Only its key is used. */
  readonly row: Row
}

const requestsTogetherMax = 8

/** Returns the whole rows in the same order, without those that were deleted meanwhile. */
export async function wholeRows(ask: Ask, source: Source, keys: readonly FoundKey[]): Promise<Row[]> {
  const found: Row[] = []
  for (let rest = inStatements(keys); rest.length > 0; rest = rest.slice(requestsTogetherMax)) {
    const together = rest.slice(0, requestsTogetherMax).map(some => rowsAt(ask, source, some))
    found.push(...(await Promise.all(together)).flat())
  }
  return found
}

/** Groups keys into statements, each for one partition. */
function inStatements(keys: readonly FoundKey[]): FoundKey[][] {
  const statements: FoundKey[][] = []
  for (const key of keys) {
    const last = statements.at(-1)
    if (last !== undefined && last.length < keysTogether && last[0]!.day === key.day) last.push(key)
    else statements.push([key])
  }
  return statements
}

async function rowsAt(ask: Ask, source: Source, found: readonly FoundKey[]): Promise<Row[]> {
  const [{ day, row }] = found as [FoundKey]
  const keys = found.map(key => clusteringKeyOf(key.row))
  const { rows } = await ask(selectRowsAt(source, row.channel, day, keys), { rows: keysTogether })
  const whole = rows.map(columns => toRow(columns, source, row.channel))
  // A table returns rows newest first.
  return compareKeys(keys[0]!, keys.at(-1)!) < 0 ? whole.toReversed() : whole
}
