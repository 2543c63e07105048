// The reader of a Cassandra store: walks the days of a channel that have rows, and filters and groups in this process.

import type { Connection } from '../../sinks/cassandra/connection.ts'
import { aggregateRows, firstOfEach } from '../groups.ts'
import { matcherOf } from '../matching.ts'
import { type AggregateQuery, type Direction, noFilters, type PageQuery, type RowKey, type Selection } from '../query.ts'
import { type Bucket, type Grouped, keyOf, type Reader, type Row, senmlFormat } from '../reader.ts'
import { type Ask, asking } from './asking.ts'
import { comparePlaces, firstDayOfAll, keyRangeOf } from './key-range.ts'
import { openLikelyDays } from './likely-days.ts'
import type { ReaderStoreOptions } from './options.ts'
import { placeOf, toRow } from './rows.ts'
import { selectDayBefore, selectRow, selectRows } from './select.ts'
import { isStorable, type Source, sourceOf, testedColumns } from './source.ts'
import { openTables } from './tables.ts'
import { walk } from './walk.ts'

export interface CassandraReaderParts {
  /** Stays the caller's: closing the reader does not close it. */
  readonly connection: Connection
  readonly options: Pick<ReaderStoreOptions, 'queryTimeoutMs'>
}

export interface ReaderLimits {
  /** Whole rows that one request asks for at most. Two such pages are held. */
  readonly pageRowsMax?: number
  /** The same of rows of which only some columns are read. */
  readonly keyRowsMax?: number
}

/** What is walked, and what is read of it. */
interface Walked {
  readonly columns: readonly string[]
  readonly direction?: Direction
  readonly after?: RowKey | undefined
  /** Matching rows that are wanted; without it all are. */
  readonly limit?: number
}

interface RowsOfDay {
  readonly day: number
  readonly rows: readonly Row[]
}

/** A filter that passes over rows begins with so many. */
const pageRowsMin = 64
const rowsTogetherMax = 32

/** Opens a reader over the tables that the Cassandra sink keeps. It makes none: before the first writer there is nothing to read. */
export function openCassandraReader(
  { connection, options }: CassandraReaderParts,
  { pageRowsMax = 1_024, keyRowsMax = 4_096 }: ReaderLimits = {},
): Reader {
  const { keyspace } = connection
  const likelyDays = openLikelyDays()
  const tables = openTables(keyspace)

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

  /** The rows of the selection, page by page, newest first unless it is said otherwise. */
  async function* pagesOf(
    ask: Ask,
    source: Source,
    selection: Selection,
    { columns, direction = 'desc', after, limit = Number.POSITIVE_INFINITY }: Walked,
  ): AsyncGenerator<RowsOfDay> {
    const { channel } = selection
    const range = keyRangeOf(selection, source.unitNs, direction, after)
    if (range === undefined) return
    const isWhole = columns === source.columns
    const tested = testedColumns(selection)
    // The range has answered for the time.
    const matches = tested.length === 0 ? undefined : matcherOf({ ...selection, fromNs: undefined, toNs: undefined })
    const pages = walk(ask, {
      keyspace,
      source,
      selection,
      range,
      direction,
      columns: isWhole ? columns : [...new Set([...columns, ...tested])],
      limit: matches === undefined ? limit : Number.POSITIVE_INFINITY,
      pageRows: Math.max(limit, pageRowsMin),
      pageRowsMax: isWhole ? pageRowsMax : keyRowsMax,
      likelyDay: likelyDays.find(selection, range, direction),
      onMissing: () => tables.forget(source),
    })
    let isFirst = true
    for await (const { day, rows } of pages) {
      if (isFirst) likelyDays.remember(selection, range, direction, day)
      isFirst = false
      const page = rows.map(found => toRow(found, source, channel))
      yield { day, rows: matches === undefined ? page : page.filter(matches) }
    }
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

  return {
    read: (query, signal) =>
      within<readonly Row[]>(query, signal, [], async (ask, source) => {
        const { direction, limit, offset } = query
        const after = offset === 0 ? query.after : await passOver(ask, source, query)
        if (offset > 0 && after === undefined) return []
        const found: Row[] = []
        for await (const { rows } of pagesOf(ask, source, query, { columns: source.columns, direction, after, limit })) {
          for (const row of rows) if (found.push(row) === limit) return found
        }
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
        const { channel, direction, after, offset, limit } = query
        const series = ['publisher', 'subtopic', ...(source.kind === 'senml' ? ['name'] : [])]
        const days = new WeakMap<Row, number>()
        const pages = pagesOf(ask, source, query, { columns: [...source.key, ...series] })
        const newest = await firstOfEach(eachOf(pages, (row, day) => void days.set(row, day)))
        const ordered = direction === 'desc' ? newest : newest.toReversed()
        const behind = after === undefined ? ordered : ordered.filter(row => isBehind(row, after, direction, source))
        const groups: Row[] = []
        // Whole rows, of the page alone.
        for (let page = behind.slice(offset, offset + limit); page.length > 0; page = page.slice(rowsTogetherMax)) {
          const asked = page.slice(0, rowsTogetherMax).map(async row => {
            const { rows } = await ask(selectRow(source, channel, days.get(row)!, placeOf(row)), { rows: 1 })
            return rows.map(found => toRow(found, source, channel))
          })
          groups.push(...(await Promise.all(asked)).flat())
        }
        return { groups, total: newest.length }
      }),

    aggregate: (query: AggregateQuery, signal) =>
      within<Grouped<Bucket>>(query, signal, { groups: [], total: 0 }, async (ask, source) => {
        const columns = [source.key[0], 'publisher', 'subtopic', 'name', 'unit', 'value']
        return await aggregateRows(eachOf(pagesOf(ask, source, query, { columns })), query)
      }),

    async check() {
      // Of no channel, by the ways that questions take.
      await asking({ connection, timeoutMs: options.queryTimeoutMs }, new AbortController().signal, async ask => {
        const nobody: Selection = { ...noFilters, channel: '', format: senmlFormat }
        const source = sourceOf(keyspace, senmlFormat)
        const range = keyRangeOf(nobody, source.unitNs, 'desc', undefined)!
        for (const publisher of [undefined, '']) await ask(selectDayBefore(keyspace, { ...nobody, publisher }, firstDayOfAll), { rows: 1 })
        await ask(selectRows(source, source.columns, nobody.channel, 0, range, 'desc', 1), { rows: 1 })
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
