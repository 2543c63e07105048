// Converts columns of the store to rows, and reads whole rows by their keys, so that only the rows of a page are read whole.

import type { Row as Columns } from '../../sinks/cassandra/connection.ts'
import type { DocumentRow, Row, SenmlRow } from '../reader.ts'
import type { Ask } from './requests.ts'
import { type ClusteringKey, compareKeys, keysTogether, type Source, selectRowsAt } from './select.ts'

/** @param columns at least those that the caller uses */
export function toRow(columns: Columns, { kind }: Pick<Source, 'kind'>, channel: string): Row {
  return kind === 'senml' ? toSenmlRow(columns, channel) : toDocumentRow(columns, channel)
}

/** The key by which the table orders rows. */
export function clusteringKeyOf(row: Row): ClusteringKey {
  const { position, index } = row
  return { time: row.kind === 'senml' ? BigInt(row.timeUs) : row.createdNs, position, index }
}

function toSenmlRow(columns: Columns, channel: string): SenmlRow {
  return {
    kind: 'senml',
    channel,
    subtopic: columns['subtopic'] as string,
    publisher: columns['publisher'] as string,
    protocol: columns['protocol'] as string,
    position: columns['position'] as bigint,
    index: columns['index'] as number,
    name: columns['name'] as string,
    unit: (columns['unit'] ?? undefined) as string | undefined,
    timeUs: Number(columns['time_us']),
    value: (columns['value'] ?? undefined) as number | undefined,
    stringValue: (columns['string_value'] ?? undefined) as string | undefined,
    boolValue: (columns['bool_value'] ?? undefined) as boolean | undefined,
    dataValue: (columns['data_value'] ?? undefined) as Uint8Array | undefined,
    sum: (columns['sum'] ?? undefined) as number | undefined,
    updateTime: (columns['update_time'] ?? undefined) as number | undefined,
  }
}

function toDocumentRow(columns: Columns, channel: string): DocumentRow {
  return {
    kind: 'document',
    channel,
    subtopic: columns['subtopic'] as string,
    publisher: columns['publisher'] as string,
    protocol: columns['protocol'] as string,
    position: columns['position'] as bigint,
    index: columns['index'] as number,
    createdNs: columns['created'] as bigint,
    payloadText: columns['payload'] as string,
  }
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
