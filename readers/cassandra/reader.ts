// The reader of a Cassandra store: what each question asks of its pages of rows, which it filters and groups in this process.

import type { Connection } from '../../sinks/cassandra/connection.ts'
import { formatsOf, type Seen, seeRows } from '../formats.ts'
import { aggregateRows, firstOfEach } from '../groups.ts'
import { type AggregateQuery, type Direction, noFilters, type PageQuery, type RowKey, type Selection } from '../query.ts'
import { type Bucket, type FoundFormat, type Grouped, keyOf, type Reader, type Row, senmlFormat } from '../reader.ts'
import { type Ask, asking } from './asking.ts'
import { comparePlaces, firstDayOfAll, keyRangeOf } from './key-range.ts'
import type { ReaderStoreOptions } from './options.ts'
import { openPages, type PageLimits, type RowsOfDay } from './pages.ts'
import { placeOf } from './rows.ts'
import { selectDayBefore, selectFormats, selectRows } from './select.ts'
import { isStorable, type Source, sourceOf } from './source.ts'
import { openTables } from './tables.ts'
import { type FoundKey, wholeRows } from './whole-rows.ts'

export interface CassandraReaderParts {
  /** Stays the caller's: closing the reader does not close it. */
  readonly connection: Connection
  readonly options: Pick<ReaderStoreOptions, 'queryTimeoutMs'>
}

/** Of one page of the registry. */
const formatsTogether = 1_000

/** Opens a reader over the tables that the Cassandra sink keeps. It makes none: before the first writer there is nothing to read. */
export function openCassandraReader(
  { connection, options }: CassandraReaderParts,
  { pageRowsMax = 1_024, keyRowsMax = 4_096 }: Partial<PageLimits> = {},
): Reader {
  const { keyspace } = connection
  const tables = openTables(keyspace)
  const pagesOf = openPages(keyspace, tables, { pageRowsMax, keyRowsMax })

  async function within<Found>(
    selection: Selection,
    signal: AbortSignal,
    nothing: Found,
    work: (ask: Ask, source: Source) => Promise<Found>,
  ): Promise<Found> {
    signal.throwIfAborted()
    if (!isStorable(selection)) return nothing
    const source = sourceOf(keyspace, selection.format)
    return await asking({ connection, timeoutMs: options.queryTimeoutMs }, signal, async ask =>
      (await tables.has(ask, source, selection)) ? await work(ask, source) : nothing,
    )
  }

  /** The place of the row that so many rows end with; undefined where there are fewer. */
  async function passOver(ask: Ask, source: Source, query: PageQuery): Promise<RowKey | undefined> {
    const { direction, after, offset } = query
    let left = offset
    for await (const { rows } of pagesOf(ask, source, query, { columns: source.key, direction, after, limit: offset })) {
      if (rows.length >= left) return keyOf(rows[left - 1]!)
      left -= rows.length
    }
    return undefined
  }

  /** A format without a listed day costs one request. */
  async function seen(ask: Ask, selection: Selection, rowsMax: number): Promise<Seen> {
    const source = sourceOf(keyspace, selection.format)
    return await seeRows(eachOf(pagesOf(ask, source, selection, { columns: [source.key[0], 'subtopic'], limit: rowsMax })), rowsMax)
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
            // One that has been deleted since makes room for another.
            found.push(...(await wholeRows(ask, source, known)))
            known = []
            if (found.length === limit) return found
          }
        }
        found.push(...(await wholeRows(ask, source, known)))
        return found
      }),

    count: (selection, max, signal) =>
      within(selection, signal, 0, async (ask, source) => {
        let counted = 0
        for await (const { rows } of pagesOf(ask, source, selection, { columns: [source.key[2]], limit: max + 1 })) {
          counted += rows.length
          if (counted > max) return max + 1
        }
        return counted
      }),

    latest: (query, signal) =>
      within<Grouped<Row>>(query, signal, { groups: [], total: 0 }, async (ask, source) => {
        const { direction, after, offset, limit } = query
        const series = ['publisher', 'subtopic', ...(source.kind === 'senml' ? ['name'] : [])]
        const days = new WeakMap<Row, number>()
        const pages = pagesOf(ask, source, query, { columns: [...source.key, ...series] })
        const newest = await firstOfEach(eachOf(pages, (row, day) => void days.set(row, day)))
        const ordered = direction === 'desc' ? newest : newest.toReversed()
        const behind = after === undefined ? ordered : ordered.filter(row => isBehind(row, after, direction, source))
        const page = behind.slice(offset, offset + limit).map(row => ({ day: days.get(row)!, row }))
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
        return await formatsOf(names, query, selection => seen(ask, selection, query.rowsMax))
      }),

    async check() {
      // Of no channel, by the ways that questions take.
      await asking({ connection, timeoutMs: options.queryTimeoutMs }, new AbortController().signal, async ask => {
        const nobody: Selection = { ...noFilters, channel: '', format: senmlFormat }
        const source = sourceOf(keyspace, senmlFormat)
        const range = keyRangeOf(nobody, source.unitNs, 'desc', undefined)!
        for (const publisher of [undefined, '']) await ask(selectDayBefore(keyspace, { ...nobody, publisher }, firstDayOfAll), { rows: 1 })
        const rows = { columns: source.columns, channel: nobody.channel, day: 0, range, direction: 'desc' as const, limit: 1 }
        await ask(selectRows(source, rows), { rows: 1 })
      })
    },

    async close() {
      // The connection is the caller's, and nothing else is held.
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

function isBehind(row: Row, after: RowKey, direction: Direction, { unitNs }: Source): boolean {
  const place = { time: after.timeNs / unitNs, position: after.position, index: after.index }
  const order = comparePlaces(placeOf(row), place)
  return direction === 'desc' ? order < 0 : order > 0
}
