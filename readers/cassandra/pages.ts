// The rows of a filter, page by page: for one publisher by the index of publishers, otherwise by reading all rows.
//
// A row that is found by the index costs the store three to four times as much as a row that is read and skipped. So if keys are read, possibly many,
// the walk begins with all rows, and continues by the index if the publisher turns out to have few of them.
//
// Whether a table has the index is found by trying: a cluster may not support it, a writer may not be allowed to create it, and nodes that still
// build it refuse to use it. Such tables are read without it, and the index is tried again after a while.

import { setBounded } from '../../config/bounded-map.ts'
import { isIndexFault, isSchemaFault } from '../../sinks/cassandra/errors.ts'
import { matcherOf } from '../matching.ts'
import { type Direction, type Filter, keyOf, type Row, type RowKey } from '../reader.ts'
import type { Ask } from './requests.ts'
import { toRow } from './rows.ts'
import {
  firstDayOfAll,
  type KeyRange,
  keyRangeOf,
  lastDayOfAll,
  type Source,
  selectAnything,
  selectDayBefore,
  testedColumns,
} from './select.ts'
import { walk } from './walk.ts'

/** How many rows one request may return. */
export interface PageLimits {
  /** Most whole rows of one request. Two such pages are in memory. */
  readonly pageRowsMax: number
  /** The same for rows of which only some columns are read. */
  readonly keyRowsMax: number
}

/** Which rows to read, and which columns of them. */
export interface Walked {
  /** The columns of the source for whole rows. */
  readonly columns: readonly string[]
  readonly direction?: Direction
  readonly after?: RowKey | undefined
  /** Number of matching rows to return; all by default. */
  readonly limit?: number
}

/** Rows of one partition, in order. */
export interface RowsOfDay {
  readonly day: number
  readonly rows: readonly Row[]
  /** False if rows have only their key and the tested columns: rows that do not match are never read whole. */
  readonly isWhole: boolean
}

/** Returns the rows of the filter, page by page, newest first by default. */
export type PagesOf = (ask: Ask, source: Source, filter: Filter, walked: Walked) => AsyncGenerator<RowsOfDay>

/** How to read rows, and from which key on. */
interface Way {
  readonly columns: readonly string[]
  readonly byIndex: boolean
  readonly after: RowKey | undefined
  /** Number of rows to read; infinity if matching is decided row by row. */
  readonly limit: number
  readonly pageRows: number
}

/** The first page of a walk whose rows may not match. */
const pageRowsMin = 64
/** If less than one row in this many is the publisher's, the index is used. */
const fewInRows = 4
const firstDaysMax = 10_000

/** Remembers which tables have the index of publishers, and on which days walks began. */
export function openPages(keyspace: string, tables: Tables, { pageRowsMax, keyRowsMax }: PageLimits): PagesOf {
  const index = openPublisherIndex()
  /** The days on which unbounded walks began: the next one of the same kind probably begins there too. */
  const firstDays = new Map<string, number>()

  async function* rowsOf(ask: Ask, source: Source, filter: Filter, direction: Direction, way: Way): AsyncGenerator<RowsOfDay> {
    const { after, columns, ...asked } = way
    const range = keyRangeOf(filter, source.unitNs, direction, after)
    if (range === undefined) return
    const isWhole = columns === source.columns
    const kind = JSON.stringify([direction, filter.format, filter.channel, filter.publisher ?? null])
    const boundDay = boundedStart(range, direction)
    const pages = walk(ask, {
      ...asked,
      keyspace,
      source,
      filter,
      range,
      direction,
      columns,
      pageRowsMax: isWhole ? pageRowsMax : keyRowsMax,
      likelyDay: boundDay ?? firstDays.get(kind),
      onMissing: () => tables.forget(source),
    })
    let isFirst = boundDay === undefined
    for await (const { day, rows } of pages) {
      if (isFirst) {
        setBounded(firstDays, kind, day, firstDaysMax)
        isFirst = false
      }
      yield { day, rows: rows.map(found => toRow(found, source, filter.channel)), isWhole }
    }
  }

  return async function* pagesOf(ask, source, filter, { columns, direction = 'desc', after, limit = Number.POSITIVE_INFINITY }) {
    const { publisher } = filter
    const tested = testedColumns(filter)
    const wantsWhole = columns === source.columns
    // The key is needed to continue in another way, or to read the rows whole.
    const keys = wantsWhole || publisher !== undefined ? source.key : []
    const named = [...new Set([...keys, ...(wantsWhole ? [] : columns), ...tested])]
    // The range has already applied `from` and `to`.
    const matches = tested.length === 0 ? undefined : matcherOf({ ...filter, fromNs: undefined, toNs: undefined })
    const matching = (page: RowsOfDay): RowsOfDay =>
      matches === undefined ? page : { ...page, rows: page.rows.filter(row => matches(row)) }

    function wayOf(byIndex: boolean, from: RowKey | undefined): Way {
      const allMatch = tested.length === (byIndex ? 1 : 0)
      return {
        columns: wantsWhole && (allMatch || tested.includes('payload')) ? source.columns : named,
        byIndex,
        after: from,
        limit: allMatch ? limit : Number.POSITIVE_INFINITY,
        pageRows: allMatch ? Math.max(limit, pageRowsMin) : pageRowsMin,
      }
    }

    let last = after
    if (publisher !== undefined && index.isThere(source, publisher, direction)) {
      const byIndex = wayOf(true, last)
      if (byIndex.columns !== source.columns) {
        const share = { own: 0, passed: 0 }
        for await (const page of rowsOf(ask, source, filter, direction, wayOf(false, last))) {
          yield matching(page)
          last = lastOf(page) ?? last
          share.passed += page.rows.length
          for (const row of page.rows) if (row.publisher === publisher) share.own++
          if (areFew(share)) break
        }
        if (!areFew(share)) return
      }
      try {
        for await (const page of rowsOf(ask, source, filter, direction, { ...byIndex, after: last })) {
          yield matching(page)
          last = lastOf(page) ?? last
        }
        return
      } catch (error) {
        if (!isIndexFault(error)) throw error
        index.miss(source)
      }
    }
    for await (const page of rowsOf(ask, source, filter, direction, wayOf(false, last))) yield matching(page)
  }
}

/** The first day of the range in the direction; undefined if the range is open at that end. */
function boundedStart({ firstDay, lastDay }: KeyRange, direction: Direction): number | undefined {
  if (direction === 'asc') return firstDay === firstDayOfAll ? undefined : firstDay
  return lastDay === lastDayOfAll ? undefined : lastDay
}

function areFew({ own, passed }: { readonly own: number; readonly passed: number }): boolean {
  return passed >= pageRowsMin && own * fewInRows < passed
}

function lastOf({ rows }: RowsOfDay): RowKey | undefined {
  const row = rows.at(-1)
  return row === undefined ? undefined : keyOf(row)
}

const askAgainMs = 60_000
const missingMax = 10_000
/** Nodes leave longer texts out of an index, by default from 8 KiB on. This is well below it, so no row is missing. */
const publisherBytesMax = 1_024

/** Which tables have a usable index of publishers. */
export interface PublisherIndex {
  /** True if the index should be used: rows found by an index come newest first, and in no other order. */
  isThere(source: Source, publisher: string, direction: Direction): boolean
  /** Records that the store could not use the index. */
  miss(source: Source): void
}

/** @param nowMs a monotonic clock */
export function openPublisherIndex(nowMs: () => number = () => performance.now()): PublisherIndex {
  /** By table, until when the index is not tried again. */
  const missing = new Map<string, number>()
  return {
    isThere({ table }, publisher, direction) {
      if (direction === 'asc' || Buffer.byteLength(publisher) > publisherBytesMax) return false
      const untilMs = missing.get(table)
      return untilMs === undefined || nowMs() >= untilMs
    },
    miss({ table }) {
      setBounded(missing, table, nowMs() + askAgainMs, missingMax)
    },
  }
}

const knownMax = 10_000

/** Which formats have a table. The driver caches every text that it prepares, so this is checked without preparing a statement. */
export interface Tables {
  /** @throws the store's error if it has none of the sink's tables */
  has(ask: Ask, source: Source, filter: Filter): Promise<boolean>
  /** Called when a table turns out to be missing. */
  forget(source: Source): void
}

/** Remembers the tables that were found. */
export function openTables(keyspace: string): Tables {
  const known = new Set<string>()
  return {
    async has(ask, source, filter) {
      if (source.kind === 'senml' || known.has(source.table)) return true
      try {
        await ask(selectAnything(source, filter.channel), { rows: 1 })
      } catch (error) {
        if (!isSchemaFault(error)) throw error
        // Fails if the whole schema is missing.
        await ask(selectDayBefore(keyspace, filter, lastDayOfAll), { rows: 1 })
        return false
      }
      if (known.size >= knownMax) known.clear()
      known.add(source.table)
      return true
    },
    forget: ({ table }) => void known.delete(table),
  }
}
