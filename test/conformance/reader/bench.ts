// Shared by the suites of a reader: the current store, and queries.

import type { AggregateQuery, Bucket, Filter, FormatsQuery, FoundFormat, Grouped, PageQuery, Reader, Row } from '../../../readers/reader.ts'
import type { JsonObject, RecordBatch } from '../../../transformers/record-batch.ts'
import { channel } from './fixture.ts'
import { filterOf, type StoredRow } from './oracle.ts'

export interface ReaderSite {
  readonly reader: Reader
  /** Stores the batch with the store's sink, whose log is the first of the store. */
  store(batch: RecordBatch): Promise<void>
  /** Names of the store's tables, collections or measurements, to check that a read creates none. */
  names(): Promise<string[]>
  /** What the store keeps of a payload, undefined for one that it refuses; absent if it keeps everything. */
  keptOf?(payload: JsonObject): JsonObject | undefined
  /** Whether what is kept of a payload may be less than the whole. */
  readonly flattens?: true
  close(): Promise<void>
}

/** A reader on the fixture, and the expected results. */
export interface ReaderBench {
  readonly site: ReaderSite
  readonly stored: readonly StoredRow[]
  read(query?: Partial<PageQuery>): Promise<readonly Row[]>
  count(filter: Partial<Filter>, max?: number): Promise<number>
  latest(query?: Partial<PageQuery>): Promise<Grouped<Row>>
  aggregate(query: Partial<AggregateQuery>): Promise<Grouped<Bucket>>
  formats(query?: Partial<FormatsQuery>): Promise<readonly FoundFormat[]>
}

export const signal = new AbortController().signal

export function pageQuery(query: Partial<PageQuery> = {}): PageQuery {
  return { ...filterOf({ channel }), direction: 'desc', offset: 0, limit: 1000, after: undefined, ...query }
}

export function aggregateQuery(query: Partial<AggregateQuery> = {}): AggregateQuery {
  return { ...filterOf({ channel }), aggregation: 'avg', intervalUs: 3_600_000_000, direction: 'desc', offset: 0, limit: 1000, ...query }
}

/** For all times by default. */
export function formatsQuery(query: Partial<FormatsQuery> = {}): FormatsQuery {
  return { channel, publisher: undefined, fromUs: 0, rowsMax: 1000, formatsMax: 100, subtopicsMax: 100, ...query }
}
