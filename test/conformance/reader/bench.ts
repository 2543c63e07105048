// What the suites of a reader share: the store at hand, and questions.

import type { AggregateQuery, FormatsQuery, PageQuery, Selection } from '../../../readers/query.ts'
import type { Bucket, FoundFormat, Grouped, Reader, Row } from '../../../readers/reader.ts'
import type { JsonObject, RecordBatch } from '../../../transformers/record-batch.ts'
import { channel } from './fixture.ts'
import { type StoredRow, selectionOf } from './oracle.ts'

export interface ReaderSite {
  readonly reader: Reader
  /** Stores the batch with the store's sink, whose log is the first of the store. */
  store(batch: RecordBatch): Promise<void>
  /** What names of tables, collections or measurements the store holds: a read makes none. */
  names(): Promise<string[]>
  /** What the store keeps of a payload, and undefined for one that it refuses; all of it where it is absent. */
  keptOf?(payload: JsonObject): JsonObject | undefined
  close(): Promise<void>
}

/** A reader over the fixture, and what it should say. */
export interface ReaderBench {
  readonly site: ReaderSite
  readonly stored: readonly StoredRow[]
  read(query?: Partial<PageQuery>): Promise<readonly Row[]>
  count(selection: Partial<Selection>, max?: number): Promise<number>
  latest(query?: Partial<PageQuery>): Promise<Grouped<Row>>
  aggregate(query: Partial<AggregateQuery>): Promise<Grouped<Bucket>>
  formats(query?: Partial<FormatsQuery>): Promise<readonly FoundFormat[]>
}

export const signal = new AbortController().signal

export function pageQuery(query: Partial<PageQuery> = {}): PageQuery {
  return { ...selectionOf({ channel }), direction: 'desc', offset: 0, limit: 1000, after: undefined, ...query }
}

export function aggregateQuery(query: Partial<AggregateQuery> = {}): AggregateQuery {
  return { ...selectionOf({ channel }), aggregation: 'avg', intervalUs: 3_600_000_000, direction: 'desc', offset: 0, limit: 1000, ...query }
}

/** Of all times, where nothing else is said. */
export function formatsQuery(query: Partial<FormatsQuery> = {}): FormatsQuery {
  return { channel, publisher: undefined, fromUs: 0, rowsMax: 1000, formatsMax: 100, subtopicsMax: 100, ...query }
}
