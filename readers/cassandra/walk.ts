// The rows of a range of keys, day after day and page after page, in order.
//
// A question begins with one day and a small page, so that a page of a busy channel costs what its rows cost; where it is likely which day
// that is, its rows are asked for while the days still are. Pages grow, and the next one is on its way while one is looked at. Where days turn out to be short, more and more of them are asked for at once, with as many rows
// in all as a page has: what is held is two pages, however long the walk is. Where rows turn out to be large, pages have fewer of them.

import { dayOfDate } from '../../sinks/cassandra/date.ts'
import { isSchemaFault } from '../../sinks/cassandra/errors.ts'
import type { Direction, Selection } from '../query.ts'
import type { Ask, FoundPage } from './asking.ts'
import { firstDayOfAll, type KeyRange } from './key-range.ts'
import { type Statement, selectDayBefore, selectDays, selectPublisherRows, selectRows } from './select.ts'
import type { Source } from './source.ts'

export interface Walk {
  readonly keyspace: string
  readonly source: Source
  /** Of it channel, format and publisher say which days are visited. */
  readonly selection: Selection
  readonly range: KeyRange
  readonly direction: Direction
  readonly columns: readonly string[]
  /** So many rows are wanted, and days that are asked for together may give some more; infinity where it turns out row by row. */
  readonly limit: number
  readonly pageRows: number
  readonly pageRowsMax: number
  /** On which the walk probably begins; where it does not, one page of it was read for nothing. */
  readonly likelyDay: number | undefined
  /** Rows of the selection's publisher alone are asked for, newest first. Without it the rows are everybody's. */
  readonly byIndex: boolean
  /** Called where the table of a format turns out to be gone: it has no rows then. */
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
/** Of the columns that may be large. */
const pageBytesMax = 8 * 1024 * 1024
const largeColumns: ReadonlySet<string> = new Set(['payload', 'string_value', 'data_value'])
/** Days that are listed at first, and further on: most pages end on the first. */
const daysFirst = 16
const daysNext = 500

export async function* walk(ask: Ask, { limit, pageRows, pageRowsMax, likelyDay, ...where }: Walk): AsyncGenerator<WalkedPage> {
  const days = daysOf(ask, where)
  let wanted = limit
  let size = Math.min(pageRows, pageRowsMax)
  let together = 1
  // One publisher's days are mostly short, and each turn is a round trip.
  const growth = where.byIndex ? 4 : 2
  const large = where.columns.filter(column => largeColumns.has(column))

  async function begin(day: number, rows: number): Promise<BegunDay> {
    const { source, columns, range, direction, byIndex } = where
    const { channel, publisher } = where.selection
    const asked = { columns, channel, day, range, direction, limit: wanted }
    const statement = byIndex && publisher !== undefined ? selectPublisherRows(source, asked, publisher) : selectRows(source, asked)
    return { day, statement, first: await askRows(ask, where, statement, rows) }
  }

  let likely: Promise<BegunDay> | undefined = likelyDay === undefined ? undefined : begin(likelyDay, size)
  // Nobody waits for it where the walk begins elsewhere.
  likely?.catch(() => undefined)
  for (;;) {
    const some = await take(days, together)
    const begun = await Promise.all(
      some.map(day => (likely !== undefined && day === likelyDay ? likely : begin(day, Math.ceil(size / some.length)))),
    )
    likely = undefined
    let areShort = true
    // A node that is asked for a page as large as the limit gives the first one, wherever the page before has ended.
    const nextMax = wanted - 1
    for (const { day, statement, first } of begun) {
      for (let page: FoundPage | undefined = first; page !== undefined; ) {
        size = Math.min(size * 2, pageRowsMax, rowsOfBytes(page.rows, large))
        const next: Promise<FoundPage> | undefined =
          page.next === undefined ? undefined : askRows(ask, where, statement, Math.min(size, nextMax), page.next)
        // Nobody waits for it where the walk ends here.
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

/** The table of a format may have been dropped, and its days are still listed. */
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
    // By the index it may be the index that is missing.
    if (source.kind === 'senml' || byIndex || !isSchemaFault(error)) throw error
    onMissing()
    return { rows: [], next: undefined }
  }
}

/** How many rows a page may have that are as large as these. */
function rowsOfBytes(rows: FoundPage['rows'], large: readonly string[]): number {
  let bytes = 0
  for (const row of rows) {
    for (const column of large) bytes += (row[column] as string | Uint8Array | null)?.length ?? 0
  }
  return bytes === 0 ? Number.POSITIVE_INFINITY : Math.max(1, Math.floor((pageBytesMax * rows.length) / bytes))
}

type Where = Pick<Walk, 'keyspace' | 'selection' | 'range' | 'direction'>

/**
 * The listed days that the range has rows on, in the direction. Where a partition is of several days its first one is listed, so that the
 * range begins in the latest that is not after its own first day, however many days that is.
 */
async function* daysOf(ask: Ask, { keyspace, selection, range, direction }: Where): AsyncGenerator<number> {
  const { firstDay, lastDay } = range
  if (direction === 'desc') {
    for await (const day of listed(ask, selectDays(keyspace, selection, direction, firstDayOfAll, lastDay))) {
      yield day
      if (day <= firstDay) return
    }
    return
  }
  if (firstDay !== firstDayOfAll) {
    const { rows } = await ask(selectDayBefore(keyspace, selection, firstDay), { rows: 1 })
    for (const row of rows) yield dayIn(row)
  }
  const next = firstDay === firstDayOfAll ? firstDay : firstDay + 1
  if (next <= lastDay) yield* listed(ask, selectDays(keyspace, selection, direction, next, lastDay))
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
