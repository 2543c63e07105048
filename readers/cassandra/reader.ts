// The reader of a Cassandra store: reads pages of rows for each query, and filters and groups them in this process.

import type { Connection } from '../../sinks/cassandra/connection.ts'
import { formatsOf, type Seen, seeRows } from '../formats.ts'
import { aggregateRows, firstOfEach, pageOfRows } from '../groups.ts'
import {
  type AggregateQuery,
  type Bucket,
  type Filter,
  type FoundFormat,
  type Grouped,
  keyOf,
  noFilters,
  type PageQuery,
  type Reader,
  type Row,
  type RowKey,
  senmlFormat,
} from '../reader.ts'
import type { ReaderStoreOptions } from './options.ts'
import { openPages, openTables, type PageLimits, type RowsOfDay } from './pages.ts'
import { type Ask, withRequests } from './requests.ts'
import { type FoundKey, wholeRows } from './rows.ts'
import { firstDayOfAll, isStorable, keyRangeOf, type Source, selectDayBefore, selectFormats, selectRows, sourceOf } from './select.ts'

/** The components of a reader. */
export interface CassandraReaderParts {
  /** The caller closes it; closing the reader does not. */
  readonly connection: Connection
  readonly options: Pick<ReaderStoreOptions, 'queryTimeoutMs'>
}

/** Rows of one page of the registry. */
const formatsTogether = 1_000

/** Opens a reader of the Cassandra sink's tables. It creates nothing: before the first writer there is nothing to read. */
export function openCassandraReader(
  { connection, options }: CassandraReaderParts,
  { pageRowsMax = 1_024, keyRowsMax = 4_096 }: Partial<PageLimits> = {},
): Reader {
  const { keyspace } = connection
  const tables = openTables(keyspace)
  const pagesOf = openPages(keyspace, tables, { pageRowsMax, keyRowsMax })

  async function within<Found>(
    filter: Filter,
    signal: AbortSignal,
    nothing: Found,
    work: (ask: Ask, source: Source) => Promise<Found>,
  ): Promise<Found> {
    signal.throwIfAborted()
    if (!isStorable(filter)) return nothing
    const source = sourceOf(keyspace, filter.format)
    return await withRequests({ connection, timeoutMs: options.queryTimeoutMs }, signal, async ask =>
      (await tables.has(ask, source, filter)) ? await work(ask, source) : nothing,
    )
  }

  /** The key of the last row to skip; undefined if there are fewer rows than that. */
  async function passOver(ask: Ask, source: Source, query: PageQuery): Promise<RowKey | undefined> {
    const { direction, after, offset } = query
    let left = offset
    for await (const { rows } of pagesOf(ask, source, query, { columns: source.key, direction, after, limit: offset })) {
      if (rows.length >= left) return keyOf(rows[left - 1]!)
      left -= rows.length
    }
    return undefined
  }

  /** Costs one request for a format without a listed day. */
  async function seen(ask: Ask, filter: Filter, rowsMax: number): Promise<Seen> {
    const source = sourceOf(keyspace, filter.format)
    return await seeRows(eachOf(pagesOf(ask, source, filter, { columns: [source.key[0], 'subtopic'], limit: rowsMax })), rowsMax)
  }

  return {
    read: (query, signal) =>
      within<readonly Row[]>(query, signal, [], async (ask, source) => {
        const { direction, limit, offset } = query
        const after = offset === 0 ? query.after : await passOver(ask, source, query)
        if (offset > 0 && after === undefined) return []
        const found: Row[] = []
        let known: FoundKey[] = []
        for await (const { day, rows, isWhole } of pagesOf(ask, source, query, { columns: source.columns, direction, after, limit })) {
          for (const row of rows) {
            if (isWhole) found.push(row)
            else known.push({ day, row })
            if (found.length + known.length < limit) continue
            // A row that was deleted meanwhile is missing here, so another one fills the page.
            found.push(...(await wholeRows(ask, source, known)))
            known = []
            if (found.length === limit) return found
          }
        }
        found.push(...(await wholeRows(ask, source, known)))
        return found
      }),

    count: (filter, max, signal) =>
      within(filter, signal, 0, async (ask, source) => {
        let counted = 0
        for await (const { rows } of pagesOf(ask, source, filter, { columns: [source.key[2]], limit: max + 1 })) {
          counted += rows.length
          if (counted > max) return max + 1
        }
        return counted
      }),

    latest: (query, signal) =>
      within<Grouped<Row>>(query, signal, { groups: [], total: 0 }, async (ask, source) => {
        const series = ['publisher', 'subtopic', ...(source.kind === 'senml' ? ['name'] : [])]
        const days = new WeakMap<Row, number>()
        const pages = pagesOf(ask, source, query, { columns: [...source.key, ...series] })
        const newest = await firstOfEach(eachOf(pages, (row, day) => void days.set(row, day)))
        const page = pageOfRows(newest, query).map(row => ({ day: days.get(row)!, row }))
        const groups = await wholeRows(ask, source, page)
        return { groups, total: newest.length }
      }),

    aggregate: (query: AggregateQuery, signal) =>
      within<Grouped<Bucket>>(query, signal, { groups: [], total: 0 }, async (ask, source) => {
        const columns = [source.key[0], 'publisher', 'subtopic', 'name', 'unit', 'value']
        return await aggregateRows(eachOf(pagesOf(ask, source, query, { columns })), query)
      }),

    formats: (query, signal) =>
      within<readonly FoundFormat[]>({ ...noFilters, ...query, format: senmlFormat }, signal, [], async ask => {
        const names: string[] = []
        for (let from: string | undefined, isMore = true; isMore; isMore = from !== undefined) {
          const page = await ask(selectFormats(keyspace), { rows: formatsTogether, from })
          for (const row of page.rows) names.push(row['format'] as string)
          from = page.next
        }
        return await formatsOf(names, query, filter => seen(ask, filter, query.rowsMax))
      }),

    async check() {
      // Reads from an empty channel, by the same statements as queries.
      await withRequests({ connection, timeoutMs: options.queryTimeoutMs }, new AbortController().signal, async ask => {
        const empty: Filter = { ...noFilters, channel: '', format: senmlFormat }
        const source = sourceOf(keyspace, senmlFormat)
        const range = keyRangeOf(empty, source.unitNs, 'desc', undefined)!
        for (const publisher of [undefined, '']) await ask(selectDayBefore(keyspace, { ...empty, publisher }, firstDayOfAll), { rows: 1 })
        const rows = { columns: source.columns, channel: empty.channel, day: 0, range, direction: 'desc' as const, limit: 1 }
        await ask(selectRows(source, rows), { rows: 1 })
      })
    },

    async close() {
      // The caller closes the connection, and nothing else is open.
    },
  }
}

async function* eachOf(pages: AsyncIterable<RowsOfDay>, met?: (row: Row, day: number) => void): AsyncGenerator<Row> {
  for await (const { day, rows } of pages) {
    for (const row of rows) {
      met?.(row, day)
      yield row
    }
  }
}
