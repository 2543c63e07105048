// Reads the rows of a range of keys in order, day by day and page by page.
//
// A walk begins with one day and a small page, so that a page of a busy channel costs only its rows. Pages grow, and the next one is requested while
// one is processed. If days turn out to be short, more and more of them are requested at once, together with as many rows as a page has: so at most
// two pages are in memory, however long the walk is. If rows turn out to be large, pages have fewer rows.

import { dayOfDate } from '../../sinks/cassandra/day-registry.ts'
import { isSchemaFault } from '../../sinks/cassandra/errors.ts'
import type { Direction, Filter } from '../reader.ts'
import type { Ask, FoundPage } from './requests.ts'
import {
  firstDayOfAll,
  type KeyRange,
  type Source,
  type Statement,
  selectDayBefore,
  selectDays,
  selectPublisherRows,
  selectRows,
} from './select.ts'

/** What to read, how far, and in which steps. */
export interface Walk {
  readonly keyspace: string
  readonly source: Source
  /** Channel, format and publisher decide which days are visited. */
  readonly filter: Filter
  readonly range: KeyRange
  readonly direction: Direction
  readonly columns: readonly string[]
  /** Number of rows to read; days that are requested together may return some more. Infinity if matching is decided row by row. */
  readonly limit: number
  readonly pageRows: number
  readonly pageRowsMax: number
  /** Its rows are requested together with the list of days. Saves a round trip if the walk begins on this day; otherwise a page is read in vain. */
  readonly likelyDay: number | undefined
  /** Reads only rows of the filter's publisher, newest first. Otherwise it reads the rows of all publishers. */
  readonly byIndex: boolean
  /** Called if the table of a format turns out to be missing; it then has no rows. */
  readonly onMissing: () => void
}

/** Some rows of one partition. */
export interface WalkedPage {
  readonly day: number
  readonly rows: FoundPage['rows']
}

interface BegunDay {
  readonly day: number
  readonly statement: Statement
  readonly first: FoundPage
}

const daysTogetherMax = 16
/** Most bytes of the columns that may be large. */
const pageBytesMax = 8 * 1024 * 1024
const largeColumns: ReadonlySet<string> = new Set(['payload', 'string_value', 'data_value'])
/** Days in the first list and in later ones: most pages end on the first day. */
const daysFirst = 16
const daysNext = 500

/** Rows in the order of the direction, page by page. */
export async function* walk(ask: Ask, { limit, pageRows, pageRowsMax, likelyDay, ...where }: Walk): AsyncGenerator<WalkedPage> {
  const days = daysOf(ask, where)
  let wanted = limit
  let size = Math.min(pageRows, pageRowsMax)
  let together = 1
  // The days of one publisher are usually short, and each round is a round trip.
  const growth = where.byIndex ? 4 : 2
  const large = where.columns.filter(column => largeColumns.has(column))

  async function begin(day: number, rows: number): Promise<BegunDay> {
    const { source, columns, range, direction, byIndex } = where
    const { channel, publisher } = where.filter
    const asked = { columns, channel, day, range, direction, limit: wanted }
    const statement = byIndex && publisher !== undefined ? selectPublisherRows(source, asked, publisher) : selectRows(source, asked)
    return { day, statement, first: await askRows(ask, where, statement, rows) }
  }

  let likely: Promise<BegunDay> | undefined = likelyDay === undefined ? undefined : begin(likelyDay, size)
  // If the walk begins on another day, its failure does not matter.
  likely?.catch(() => undefined)
  for (;;) {
    const some = await take(days, together)
    const begun = await Promise.all(
      some.map(day => (likely !== undefined && day === likelyDay ? likely : begin(day, Math.ceil(size / some.length)))),
    )
    likely = undefined
    let areShort = true
    // A node returns the first page again, wherever the previous one ended, if the page size is at least the limit.
    const nextMax = wanted - 1
    for (const { day, statement, first } of begun) {
      for (let page: FoundPage | undefined = first; page !== undefined; ) {
        size = Math.min(size * 2, pageRowsMax, rowsOfBytes(page.rows, large))
        const next: Promise<FoundPage> | undefined =
          page.next === undefined ? undefined : askRows(ask, where, statement, Math.min(size, nextMax), page.next)
        // If the walk ends here, its failure does not matter.
        next?.catch(() => undefined)
        areShort &&= next === undefined
        yield { day, rows: page.rows }
        wanted -= page.rows.length
        if (wanted <= 0) return
        page = await next
      }
    }
    if (some.length < together) return
    together = areShort ? Math.min(together * growth, daysTogetherMax) : 1
  }
}

/** The table of a format may have been dropped while its days are still listed. */
async function askRows(
  ask: Ask,
  { source, byIndex, onMissing }: Pick<Walk, 'source' | 'byIndex' | 'onMissing'>,
  statement: Statement,
  rows: number,
  from?: string,
): Promise<FoundPage> {
  try {
    return await ask(statement, { rows, from })
  } catch (error) {
    // With the index, it may be the index that is missing.
    if (source.kind === 'senml' || byIndex || !isSchemaFault(error)) throw error
    onMissing()
    return { rows: [], next: undefined }
  }
}

/** How many rows of this size fit into a page. */
function rowsOfBytes(rows: FoundPage['rows'], large: readonly string[]): number {
  let bytes = 0
  for (const row of rows) {
    for (const column of large) bytes += (row[column] as string | Uint8Array | null)?.length ?? 0
  }
  return bytes === 0 ? Number.POSITIVE_INFINITY : Math.max(1, Math.floor((pageBytesMax * rows.length) / bytes))
}

type Where = Pick<Walk, 'keyspace' | 'filter' | 'range' | 'direction'>

/**
 * The listed days with rows in the range, in the direction. If a partition has several days, its first one is listed, so the range begins in the
 * latest listed day that is not after its own first day.
 */
async function* daysOf(ask: Ask, { keyspace, filter, range, direction }: Where): AsyncGenerator<number> {
  const { firstDay, lastDay } = range
  if (direction === 'desc') {
    for await (const day of listed(ask, selectDays(keyspace, filter, direction, firstDayOfAll, lastDay))) {
      yield day
      if (day <= firstDay) return
    }
    return
  }
  if (firstDay !== firstDayOfAll) {
    const { rows } = await ask(selectDayBefore(keyspace, filter, firstDay), { rows: 1 })
    for (const row of rows) yield dayIn(row)
  }
  const next = firstDay === firstDayOfAll ? firstDay : firstDay + 1
  if (next <= lastDay) yield* listed(ask, selectDays(keyspace, filter, direction, next, lastDay))
}

async function* listed(ask: Ask, statement: Statement): AsyncGenerator<number> {
  let from: string | undefined
  do {
    const page = await ask(statement, { rows: from === undefined ? daysFirst : daysNext, from })
    for (const row of page.rows) yield dayIn(row)
    from = page.next
  } while (from !== undefined)
}

function dayIn(row: FoundPage['rows'][number]): number {
  return dayOfDate(row['day'] as { toBuffer(): Buffer })
}

async function take<Item>(items: AsyncGenerator<Item>, count: number): Promise<Item[]> {
  const taken: Item[] = []
  while (taken.length < count) {
    const { value, done } = await items.next()
    if (done === true) break
    taken.push(value)
  }
  return taken
}
