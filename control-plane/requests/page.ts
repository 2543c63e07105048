// Offset, limit and order of every list of the control plane (SPEC §4, §8), the statement that reads a page, and the turns of searches.

import type { ServerResponse } from 'node:http'
import { Type } from 'typebox'
import { type Database, DatabaseError, queryCanceled, type SqlRow, type SqlValue } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { type FairSlots, openFairSlots } from '../../http/requests/fair-slots.ts'
import type { UserId } from '../ids.ts'

const offset = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Number of items to skip.' })
const limit = Type.Integer({ minimum: 1, maximum: 100, description: 'Maximum number of items to return.' })

export const pageQuery = { offset: { ...offset, default: 0 }, limit: { ...limit, default: 10 } }

export const orderQuery = {
  order: Type.Optional(Type.Enum(['name', 'id'], { description: 'Field to sort by; the default is the order of creation.' })),
  dir: Type.Optional(Type.Enum(['asc', 'desc'], { default: 'asc' })),
}

export const pageAnswer = {
  total: Type.Integer({ description: 'Number of items on all pages.', examples: [1] }),
  offset: Type.Integer({ examples: [0] }),
  limit: Type.Integer({ examples: [10] }),
}

export const orderAnswer = {
  order: Type.String({ description: 'As requested; empty for the order of creation.', examples: [''] }),
  direction: Type.String({ description: '`asc` or `desc`.', examples: ['asc'] }),
}

/** Options for the schema of a page. */
export function pageOptions(title: string) {
  return { title, description: 'A page in the requested order, with the total at the same moment.' }
}

export interface PageRequest {
  readonly offset: number
  readonly limit: number
  readonly order?: 'name' | 'id' | undefined
  readonly dir?: 'asc' | 'desc' | undefined
}

/** `total` counts all matches; `items` are those of the page. */
export interface Page<Item> {
  readonly total: number
  readonly items: readonly Item[]
}

/**
 * One statement, so that the total and the page are from the same moment; a page beyond the end still returns the total.
 *
 * @param matching a SELECT of the columns `ordinal`, `id` and `name` among others; its last two values are offset and limit
 * @param values how many values there are, including these two
 * @param options readsOnce: for expensive conditions, evaluates them once for the total and the page; otherwise a page follows its index
 */
export function pageSql(matching: string, values: number, { order, dir = 'asc' }: PageRequest, { readsOnce = false } = {}): string {
  const by = order === undefined ? `ordinal ${dir}` : order === 'id' ? `id ${dir}` : `name COLLATE "C" ${dir}, ordinal ${dir}`
  return `
    WITH matching AS ${readsOnce ? '' : 'NOT '}MATERIALIZED (${matching})
    SELECT counted.total, page.*
    FROM (SELECT count(*) AS total FROM matching) AS counted
    LEFT JOIN LATERAL (SELECT * FROM matching ORDER BY ${by} OFFSET $${values - 1} LIMIT $${values}) AS page ON true
    ORDER BY ${by}`
}

/** Who searches; the signal aborts when they are gone. */
export interface Searcher {
  readonly user: UserId
  readonly signal: AbortSignal
}

/** The caller until the connection closes; the request's own signal may abort as soon as its body is read. */
export function searcherOf(user: UserId, { raw }: { readonly raw: ServerResponse }): Searcher {
  const gone = new AbortController()
  const onClose = (): void => {
    if (!raw.writableFinished) gone.abort(new HttpError('malformed_request', 'the client has closed the connection'))
  }
  if (raw.destroyed) onClose()
  else raw.once('close', onClose)
  return { user, signal: gone.signal }
}

/** Bounded because a search occupies one of few connections. */
const boundedMsMax = 3_000
const waitingMax = 256

const searchesOfDatabases = new WeakMap<Database, FairSlots>()

/**
 * A quarter of the connections search, so that the others answer what is quick: access checks of other roles among it. Embedded, one search at a time.
 * A server works on for a client that is gone: who asks and hangs up would else have new connections opened as quickly as they can.
 */
function searchesOf(database: Database): FairSlots {
  let searches = searchesOfDatabases.get(database)
  if (searches === undefined) {
    const max = Math.max(1, Math.floor(database.connectionsMax / 4))
    searches = openFairSlots({ max, what: 'searches that run at once', waitingMax, finishes: database.kind === 'server' })
    searchesOfDatabases.set(database, searches)
  }
  return searches
}

/**
 * The rows of a search that may read much more than it returns. Searches take turns, fairly between users. The embedded database has no time limits; there,
 * other statements run before it.
 *
 * @param advice what the caller can do if it takes too long
 * @throws HttpError `query_too_large` if a server takes longer than 3 s; `too_many_requests` and `unavailable` if others search too
 */
export function boundedRows<Row extends SqlRow>(
  database: Database,
  { user, signal }: Searcher,
  advice: string,
  sql: string,
  values: readonly SqlValue[],
): Promise<Row[]> {
  return searchesOf(database).run(user, signal, turn =>
    database.kind === 'embedded' ? embeddedRows<Row>(database, turn, sql, values) : serverRows<Row>(database, turn, advice, sql, values),
  )
}

/** A statement that waits leaves the queue when its turn ends. One that runs would be waited for anyway, so its rows are used. */
function embeddedRows<Row extends SqlRow>(database: Database, turn: AbortSignal, sql: string, values: readonly SqlValue[]): Promise<Row[]> {
  const leaving = new AbortController()
  const leave = (): void => leaving.abort(turn.reason)
  const stay = (): void => turn.removeEventListener('abort', leave)
  turn.addEventListener('abort', leave)
  return database.query<Row>(sql, values, { signal: leaving.signal, priority: 'reader', onTurn: stay }).finally(stay)
}

/** Its connection is dropped when its turn is given to another account. */
async function serverRows<Row extends SqlRow>(
  database: Database,
  turn: AbortSignal,
  advice: string,
  sql: string,
  values: readonly SqlValue[],
): Promise<Row[]> {
  try {
    return await database.transaction(async transaction => {
      await transaction.execute(`SET LOCAL statement_timeout = ${boundedMsMax}`)
      return transaction.query<Row>(sql, values)
    }, turn)
  } catch (error) {
    if (!(error instanceof DatabaseError && error.sqlState === queryCanceled)) throw error
    throw new HttpError('query_too_large', `the search takes longer than ${boundedMsMax / 1000} s: ${advice}`, { cause: error })
  }
}

/** The page from the rows of such a statement; a row without an id has only the total. */
export function toPage<Row extends SqlRow, Item>(rows: readonly (Row & { total: bigint })[], toItem: (row: Row) => Item): Page<Item> {
  return { total: Number(rows[0]?.total ?? 0), items: rows.filter(row => row['id'] !== null).map(toItem) }
}

/** The answer of a list: its items under their name, and the parameters of the request. */
export function pageOf<Item>({ total, items }: Page<Item>, { offset, limit, order, dir = 'asc' }: PageRequest) {
  return { total, offset, limit, order: order ?? '', direction: dir, items: [...items] }
}
