// The reader of an InfluxDB store: runs each query within one time limit.

import type { Connection } from '../../sinks/influxdb/connection.ts'
import { aggregateRows, firstOfEach, pageOfRows } from '../groups.ts'
import { rowsOf } from '../paging.ts'
import {
  type AggregateQuery,
  type Bucket,
  type Filter,
  type Grouped,
  type PageQuery,
  type Reader,
  type Row,
  senmlFormat,
} from '../reader.ts'
import { bucketsOf, findFormats, newestRows } from './groups.ts'
import type { ReaderStoreOptions } from './options.ts'
import { countRows, readPage } from './page.ts'
import { type Session, withSession } from './requests.ts'
import { everyNumber, everyPoint, searchOf, selectNothing } from './select.ts'
import { openDensities } from './windows.ts'

/** The components of a reader. */
export interface InfluxdbReaderParts {
  /** The caller closes it; closing the reader does not. */
  readonly connection: Connection
  readonly options: Pick<ReaderStoreOptions, 'queryTimeoutMs'>
  /** See `SessionParts`. */
  readonly lifeSignMs?: number
}

const nothing: Grouped<never> = { groups: [], total: 0 }
const never = new AbortController().signal

/** Opens a reader of the InfluxDB sink's measurements. The server need not be reachable. */
export function openInfluxdbReader({ connection, options: { queryTimeoutMs }, lifeSignMs = 1_000 }: InfluxdbReaderParts): Reader {
  const densities = openDensities()
  const inTime = <Result>(signal: AbortSignal, work: (session: Session) => Promise<Result>): Promise<Result> =>
    withSession({ connection, densities, queryTimeoutMs, lifeSignMs }, signal, work)

  /** The rows for groups that are computed in this process: all pages of one query, within its time limit. */
  const allRows = (session: Session, filter: Filter): AsyncIterable<Row> =>
    rowsOf({ read: query => readPage(session, query) }, filter, never)

  return {
    read: (query: PageQuery, signal) => inTime(signal, session => readPage(session, query)),

    count: (filter: Filter, max, signal) => inTime(signal, session => countRows(session, filter, max)),

    latest: (query: PageQuery, signal) =>
      inTime<Grouped<Row>>(signal, async session => {
        const search = searchOf(query)
        if (search.finders.length === 0) return nothing
        if (search.isExact) return await newestRows(session, query, search)
        const newest = await firstOfEach(allRows(session, query))
        return { groups: pageOfRows(newest, query), total: newest.length }
      }),

    aggregate: (query: AggregateQuery, signal) =>
      inTime<Grouped<Bucket>>(signal, async session => {
        if (query.format !== senmlFormat) return nothing
        const search = searchOf(query)
        const [finder] = search.finders
        if (finder === everyPoint) return await bucketsOf(session, query, everyNumber)
        if (search.isExact && finder?.field === 'value') return await bucketsOf(session, query, finder)
        return await aggregateRows(allRows(session, query), query)
      }),

    formats: (query, signal) => inTime(signal, session => findFormats(session, query)),

    check: () =>
      inTime(never, async session => {
        for await (const lines of session.query(selectNothing(session.bucket))) if (lines.length > 0) return
      }),
    close: async () => undefined,
  }
}
