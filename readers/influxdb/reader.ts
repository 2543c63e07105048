// The reader of an InfluxDB store: each question by its own file, within one time-out.

import type { Connection } from '../../sinks/influxdb/connection.ts'
import { aggregateRows, firstOfEach } from '../groups.ts'
import { rowsOf } from '../parts.ts'
import type { AggregateQuery, PageQuery, Selection } from '../query.ts'
import { type Bucket, type Grouped, type Reader, type Row, senmlFormat } from '../reader.ts'
import { type Asking, ask } from './asking.ts'
import { bucketsOf } from './buckets.ts'
import { everyNumber, everyPoint, searchOf } from './finders.ts'
import { findFormats } from './formats.ts'
import { newestRows } from './newest.ts'
import type { ReaderStoreOptions } from './options.ts'
import { isBehind, rowOrder } from './order.ts'
import { openPaces } from './paces.ts'
import { readPage } from './page.ts'
import { selectNothing } from './select.ts'
import { countRows } from './total.ts'

export interface InfluxdbReaderParts {
  /** Stays the caller's: closing the reader does not close it. */
  readonly connection: Connection
  readonly options: Pick<ReaderStoreOptions, 'queryTimeoutMs'>
}

const nothing: Grouped<never> = { groups: [], total: 0 }
const never = new AbortController().signal

/** Opens a reader over the measurements that the InfluxDB sink keeps. The server need not be there yet. */
export function openInfluxdbReader({ connection, options: { queryTimeoutMs } }: InfluxdbReaderParts): Reader {
  const paces = openPaces()
  const question = <Result>(signal: AbortSignal, work: (asking: Asking) => Promise<Result>): Promise<Result> =>
    ask(connection, queryTimeoutMs, signal, work)

  /** What groups are made of in this process: all pages of one question, within its time. */
  const allRows = (asking: Asking, selection: Selection): AsyncIterable<Row> =>
    rowsOf({ read: query => readPage(asking, query, paces) }, selection, never)

  return {
    read: (query: PageQuery, signal) => question(signal, asking => readPage(asking, query, paces)),

    count: (selection: Selection, max, signal) => question(signal, asking => countRows(asking, selection, max, paces)),

    latest: (query: PageQuery, signal) =>
      question<Grouped<Row>>(signal, async asking => {
        const search = searchOf(query)
        if (search.finders.length === 0) return nothing
        if (search.isExact) return await newestRows(asking, query, search)
        return pageOfGroups(await firstOfEach(allRows(asking, query)), query)
      }),

    aggregate: (query: AggregateQuery, signal) =>
      question<Grouped<Bucket>>(signal, async asking => {
        if (query.format !== senmlFormat) return nothing
        const search = searchOf(query)
        const [finder] = search.finders
        if (finder === everyPoint) return await bucketsOf(asking, query, everyNumber)
        if (search.isExact && finder?.field === 'value') return await bucketsOf(asking, query, finder)
        return await aggregateRows(allRows(asking, query), query)
      }),

    formats: (query, signal) => question(signal, asking => findFormats(asking, query, paces)),

    check: () =>
      question(never, async asking => {
        for await (const lines of asking.query(selectNothing(asking.bucket))) if (lines.length > 0) return
      }),
    close: async () => undefined,
  }
}

function pageOfGroups(newest: readonly Row[], { direction, after, offset, limit }: PageQuery): Grouped<Row> {
  const behind = newest.filter(row => after === undefined || isBehind(row, after, direction)).sort(rowOrder(direction))
  return { groups: behind.slice(offset, offset + limit), total: newest.length }
}
