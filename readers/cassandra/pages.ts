// The rows of a selection, page by page: by the index of publishers where one publisher is asked for, else by walking everybody's rows.
//
// A row that is found by the index costs the store three to four times what a row costs that is walked past. So where keys are read, and
// perhaps many of them, the walk begins with everybody's, and goes on by the index when it is seen that the publisher has sent few of them.

import { isIndexFault } from '../../sinks/cassandra/errors.ts'
import { matcherOf } from '../matching.ts'
import type { Direction, RowKey, Selection } from '../query.ts'
import { keyOf, type Row } from '../reader.ts'
import type { Ask } from './asking.ts'
import { keyRangeOf } from './key-range.ts'
import { openLikelyDays } from './likely-days.ts'
import { openPublisherIndex } from './publisher-index.ts'
import { toRow } from './rows.ts'
import { type Source, testedColumns } from './source.ts'
import type { Tables } from './tables.ts'
import { walk } from './walk.ts'

export interface PageLimits {
  /** Whole rows that one request asks for at most. Two such pages are held. */
  readonly pageRowsMax: number
  /** The same of rows of which only some columns are read. */
  readonly keyRowsMax: number
}

/** What is walked, and what is read of it. */
export interface Walked {
  /** Those of the source: whole rows. */
  readonly columns: readonly string[]
  readonly direction?: Direction
  readonly after?: RowKey | undefined
  /** Matching rows that are wanted; without it all are. */
  readonly limit?: number
}

export interface RowsOfDay {
  readonly day: number
  readonly rows: readonly Row[]
  /** False where rows have their key and what was tested of them: those of others are not read whole. */
  readonly isWhole: boolean
}

/** The rows of the selection, page by page, newest first unless it is said otherwise. */
export type PagesOf = (ask: Ask, source: Source, selection: Selection, walked: Walked) => AsyncGenerator<RowsOfDay>

/** How rows are asked for, and whose. */
interface Way {
  readonly columns: readonly string[]
  readonly byIndex: boolean
  readonly after: RowKey | undefined
  /** Rows that are wanted of the store; infinity where it turns out row by row. */
  readonly limit: number
  readonly pageRows: number
}

/** A walk whose rows may not match begins with so many. */
const pageRowsMin = 64
/** A publisher of fewer than one row in so many is looked for by the index. */
const fewInRows = 4

export function openPages(keyspace: string, tables: Tables, { pageRowsMax, keyRowsMax }: PageLimits): PagesOf {
  const likelyDays = openLikelyDays()
  const index = openPublisherIndex()

  async function* rowsOf(ask: Ask, source: Source, selection: Selection, direction: Direction, way: Way): AsyncGenerator<RowsOfDay> {
    const { after, columns, ...asked } = way
    const range = keyRangeOf(selection, source.unitNs, direction, after)
    if (range === undefined) return
    const isWhole = columns === source.columns
    const pages = walk(ask, {
      ...asked,
      keyspace,
      source,
      selection,
      range,
      direction,
      columns,
      pageRowsMax: isWhole ? pageRowsMax : keyRowsMax,
      likelyDay: likelyDays.find(selection, range, direction),
      onMissing: () => tables.forget(source),
    })
    let isFirst = true
    for await (const { day, rows } of pages) {
      if (isFirst) likelyDays.remember(selection, range, direction, day)
      isFirst = false
      yield { day, rows: rows.map(found => toRow(found, source, selection.channel)), isWhole }
    }
  }

  return async function* pagesOf(ask, source, selection, { columns, direction = 'desc', after, limit = Number.POSITIVE_INFINITY }) {
    const { publisher } = selection
    const tested = testedColumns(selection)
    const wantsWhole = columns === source.columns
    // A place to go on from is needed where it is to be gone on otherwise, or where the rows are read whole by their keys.
    const keys = wantsWhole || publisher !== undefined ? source.key : []
    const named = [...new Set([...keys, ...(wantsWhole ? [] : columns), ...tested])]
    // The range has answered for the time.
    const matches = tested.length === 0 ? undefined : matcherOf({ ...selection, fromNs: undefined, toNs: undefined })
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
        for await (const page of rowsOf(ask, source, selection, direction, wayOf(false, last))) {
          yield matching(page)
          last = lastOf(page) ?? last
          share.passed += page.rows.length
          for (const row of page.rows) if (row.publisher === publisher) share.own++
          if (areFew(share)) break
        }
        if (!areFew(share)) return
      }
      try {
        for await (const page of rowsOf(ask, source, selection, direction, { ...byIndex, after: last })) {
          yield matching(page)
          last = lastOf(page) ?? last
        }
        return
      } catch (error) {
        if (!isIndexFault(error)) throw error
        index.miss(source)
      }
    }
    for await (const page of rowsOf(ask, source, selection, direction, wayOf(false, last))) yield matching(page)
  }
}

function areFew({ own, passed }: { readonly own: number; readonly passed: number }): boolean {
  return passed >= pageRowsMin && own * fewInRows < passed
}

function lastOf({ rows }: RowsOfDay): RowKey | undefined {
  const row = rows.at(-1)
  return row === undefined ? undefined : keyOf(row)
}
