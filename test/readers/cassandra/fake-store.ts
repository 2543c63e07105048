// The days of one channel in memory, asked as a node is asked: statements of the reader's forms, page by page.

import type { Ask, FoundPage } from '../../../readers/cassandra/requests.ts'
import { dayOfDate } from '../../../sinks/cassandra/day-registry.ts'

export interface FakeStore {
  readonly ask: Ask
  readonly requests: number
  /** Rows that were asked for and not answered yet, at most. */
  readonly rowsAskedMax: number
  /** How many requests were under way at once, at most. */
  readonly togetherMax: number
}

/**
 * @param rowsOfDay by day since 1970, how many rows it has; they are numbered from the oldest on, day by day
 * @param payload that each of them has
 */
export function fakeStore(rowsOfDay: ReadonlyMap<number, number>, payload = ''): FakeStore {
  const days = [...rowsOfDay.keys()].toSorted((one, other) => one - other)
  const starts = new Map<number, number>()
  let total = 0
  for (const day of days) {
    starts.set(day, total)
    total += rowsOfDay.get(day)!
  }
  const store = { requests: 0, rowsAskedMax: 0, togetherMax: 0 }
  let together = 0
  let rowsAsked = 0

  function answer(cql: string, values: readonly unknown[]): readonly Record<string, unknown>[] {
    const isDown = / desc/.test(cql)
    if (cql.startsWith('SELECT day')) {
      const [last, first] = values.slice(cql.includes('>=') ? -2 : -1).toReversed() as Buffer[]
      const from = first === undefined ? Number.NEGATIVE_INFINITY : dayOf(first)
      const listed = days.filter(day => day >= from && day <= dayOf(last!)).map(day => ({ day: { toBuffer: () => bytesOf(day) } }))
      return isDown ? listed.toReversed() : listed
    }
    const day = dayOf(values[1] as Buffer)
    const rows = Array.from({ length: rowsOfDay.get(day) ?? 0 }, (_, nth) => ({ nth: starts.get(day)! + nth, payload }))
    return isDown ? rows.toReversed() : rows
  }

  async function ask({ cql, values }: Parameters<Ask>[0], { rows: pageRows, from }: Parameters<Ask>[1]): Promise<FoundPage> {
    store.requests++
    const isOfRows = !cql.startsWith('SELECT day')
    if (isOfRows) {
      store.togetherMax = Math.max(store.togetherMax, ++together)
      rowsAsked += pageRows
      store.rowsAskedMax = Math.max(store.rowsAskedMax, rowsAsked)
    }
    await new Promise(setImmediate)
    if (isOfRows) {
      together--
      rowsAsked -= pageRows
    }
    const limit = cql.includes('LIMIT ?') ? (values.at(-1) as number) : cql.includes('LIMIT 1') ? 1 : Number.POSITIVE_INFINITY
    const all = answer(cql, values).slice(0, limit)
    // As Cassandra does: where the page is as large as the limit, it forgets where the page before has ended.
    const start = pageRows >= limit ? 0 : Number(from ?? 0)
    const end = start + pageRows
    return { rows: all.slice(start, end), next: end < all.length ? String(end) : undefined }
  }

  return {
    ask,
    get requests() {
      return store.requests
    },
    get rowsAskedMax() {
      return store.rowsAskedMax
    },
    get togetherMax() {
      return store.togetherMax
    },
  }
}

function bytesOf(day: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(day + 2 ** 31)
  return bytes
}

function dayOf(bytes: Buffer): number {
  return dayOfDate({ toBuffer: () => bytes })
}
