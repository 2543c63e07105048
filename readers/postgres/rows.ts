// Converts the columns of select.ts to the rows and buckets of the contract.

import type { SqlRow } from '../../database/database.ts'
import type { Seen } from '../formats.ts'
import { meanOf, type Sum, totalOf } from '../groups.ts'
import type { Aggregation, Bucket, Row } from '../reader.ts'
import { documentRowOf, senmlRowOf } from '../table-rows.ts'
import { isOfDocuments, type Scope } from './conditions.ts'

/** From a server's rows or from a JSON text. */
export interface BucketColumns extends SqlRow {
  publisher: string
  subtopic: string
  name: string
  unit: string | null
  /** null if there is no bucket, only the total. */
  time_us: bigint | number | null
  count: bigint | number
  /** Of every aggregation but `sum` and `avg`. */
  value?: number
  /** Of `sum` and `avg`. */
  small?: number
  large?: number
  /** Of `avg`. */
  min?: number
  max?: number
}

/** From a JSON text. */
export interface SeriesColumns {
  readonly series: readonly string[]
  /** In the unit of the source. */
  readonly time: string
  readonly position: string
  readonly index: number
}

/** The number of a channel, and those of its series that were asked for, as a JSON text. */
export interface NumberColumns extends SqlRow {
  channel: number
  series: string | null
}

/** A format and its table. */
export interface FormatColumns extends SqlRow {
  format: string
  table_name: string
}

/** A subtopic and the time of its last row. */
export interface SubtopicColumns extends SqlRow {
  subtopic: string
  /** Rows of all subtopics that were found. */
  rows: bigint
  last_us: bigint
}

/** Converts to the rows of a scope. */
export function toRows(found: readonly SqlRow[], scope: Scope, channel: string): Row[] {
  return found.map(row => (isOfDocuments(scope) ? documentRowOf(row, channel) : senmlRowOf(row, channel)))
}

/** @param rowsMax how many rows were examined at most */
export function toSeen(found: readonly SubtopicColumns[], rowsMax: number): Seen {
  const lastUs = new Map(found.map(({ subtopic, last_us: us }) => [subtopic, Number(us)]))
  return { lastUs, hasMore: Number(found[0]?.rows ?? 0) >= rowsMax }
}

/** Converts a bucket of the channel. */
export function toBucket(columns: BucketColumns, channel: string, aggregation: Aggregation): Bucket {
  const { publisher, subtopic, name, unit, time_us: timeUs } = columns
  const count = Number(columns.count)
  const value = valueOf({ ...columns, count }, aggregation)
  return { channel, publisher, subtopic, name, unit: unit ?? undefined, timeUs: Number(timeUs), value, count }
}

function valueOf(columns: BucketColumns & { count: number }, aggregation: Aggregation): number {
  if (aggregation === 'sum') return totalOf(columns as Sum)
  if (aggregation === 'avg') return meanOf(columns as Required<typeof columns>)
  return columns.value!
}
