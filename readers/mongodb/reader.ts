// The reader of a MongoDB store: runs the queries of select.ts, and converts the bytes that come back to rows.

import type { Db } from 'mongodb'
import { unlessAborted } from '../../config/aborting.ts'
import { setBounded } from '../../config/bounded-map.ts'
import type { Connection } from '../../sinks/mongodb/connection.ts'
import { classify, explained, isErrorOf, login } from '../../sinks/mongodb/errors.ts'
import { type FormatEntry, formatsCollection } from '../../sinks/mongodb/registry.ts'
import { readVersion } from '../../sinks/mongodb/schema.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { formatsOf, type Seen, seeRows } from '../formats.ts'
import { aggregateRows, firstOfEach, pageOfRows } from '../groups.ts'
import {
  type AggregateQuery,
  type Bucket,
  type Filter,
  type FoundFormat,
  type Grouped,
  keyOf,
  type PageQuery,
  QueryTooLargeError,
  type Reader,
  type Row,
  type RowKey,
  StoreUnavailableError,
  senmlFormat,
} from '../reader.ts'
import { type TimeLimit, tookTooLong, withinTimeLimit } from '../time-limit.ts'
import { countBy, isExact, matchedCount, matchedPage, matchedRows, type Source, seriesRows } from './find.ts'
import type { ReaderStoreOptions } from './options.ts'
import { behind, type Conditions, conditionsOf, orderOf, rowsWith, seriesFields, timeFieldOf, withNumber } from './select.ts'

/** The components of a reader. */
export interface MongodbReaderParts {
  /** The caller closes it; closing the reader does not. */
  readonly connection: Connection
  readonly options: ReaderStoreOptions
  /** How much longer than a query may take the reader waits for the server, which ends it by itself unless it is paused or cut off. */
  readonly graceMs?: number
}

const collectionsRememberedMax = 10_000

/** The collections of all registered formats, by format. */
async function registeredCollections(database: Db, limit: TimeLimit): Promise<Map<string, string>> {
  const formats = database.collection<FormatEntry>(formatsCollection)
  const found = formats.find({}, { maxTimeMS: limit.remainingMs(), signal: limit.signal, projection: { collection: 1 } })
  return new Map((await unlessAborted(found.toArray(), limit.signal)).map(({ _id, collection }) => [_id, collection]))
}

/** Opens a reader of the MongoDB sink's collections. It creates nothing, and sends nothing before the first query. */
export function openMongodbReader({ connection, options: { queryTimeoutMs }, graceMs = 1_000 }: MongodbReaderParts): Reader {
  // A format never changes its collection, and a dropped collection is empty.
  const collections = new Map<string, string>()
  let hasSchema = false

  /** Before the first writer, or with a mistyped database name, a query would find nothing; that must not look like an answer. */
  async function checkSchema(database: Db, limit: TimeLimit): Promise<void> {
    if (hasSchema) return
    if ((await unlessAborted(readVersion(database, limit.signal), limit.signal)) === 0) {
      throw new StoreUnavailableError(
        `the database "${database.databaseName}" contains no message tables: start a writer on it, which creates them`,
      )
    }
    hasSchema = true
  }

  async function collectionOf(database: Db, format: string, limit: TimeLimit): Promise<string | undefined> {
    if (format === senmlFormat) return senmlFormat
    const remembered = collections.get(format)
    if (remembered !== undefined || !format.isWellFormed()) return remembered
    const formats = database.collection<FormatEntry>(formatsCollection)
    const entry = await unlessAborted(
      formats.findOne({ _id: { $eq: format } }, { maxTimeMS: limit.remainingMs(), signal: limit.signal, projection: { collection: 1 } }),
      limit.signal,
    )
    if (entry === null) return undefined
    setBounded(collections, format, entry.collection, collectionsRememberedMax)
    return entry.collection
  }

  const limited = <Found>(signal: AbortSignal, work: (database: Db, limit: TimeLimit) => Promise<Found>): Promise<Found> =>
    withinTimeLimit(signal, { timeoutMs: queryTimeoutMs, graceMs, expired: silent, explain: readError }, async limit => {
      await unlessAborted(connection.connect(), limit.signal)
      await checkSchema(connection.database, limit)
      return await work(connection.database, limit)
    })

  const silent = (cause: unknown): Error => new StoreUnavailableError(`the store has not answered for ${queryTimeoutMs} ms`, { cause })

  /** Returns what `work` finds, or `nothing` if the format has no collection or no row can match. */
  function ask<Found>(
    filter: Filter,
    signal: AbortSignal,
    nothing: Found,
    work: (source: Source, conditions: Conditions) => Promise<Found>,
  ): Promise<Found> {
    return limited(signal, async (database, limit) => {
      const conditions = conditionsOf(filter)
      const collection = conditions === undefined ? undefined : await collectionOf(database, filter.format, limit)
      if (conditions === undefined || collection === undefined) return nothing
      return await work({ database, collection, limit }, conditions)
    })
  }

  async function seen(database: Db, collection: string, filter: Filter, rowsMax: number, limit: TimeLimit): Promise<Seen> {
    const conditions = conditionsOf(filter)
    if (conditions === undefined) return { lastUs: new Map(), hasMore: false }
    const find = { conditions, sort: orderOf('desc', timeFieldOf(filter.format)), projection: seriesFields(filter), limit: rowsMax }
    return await seeRows(seriesRows({ database, collection, limit }, filter, find), rowsMax)
  }

  return {
    read: (query: PageQuery, signal) =>
      ask<readonly Row[]>(query, signal, [], (source, conditions) => {
        const { direction, format, after, offset, limit } = query
        const time = timeFieldOf(format)
        const find = { conditions: behind(conditions, after, direction, time), sort: orderOf(direction, time) }
        return matchedPage(source, query, find, offset, limit)
      }),

    count: (filter: Filter, max, signal) =>
      ask(filter, signal, 0, (source, conditions) =>
        isExact(filter) ? countBy(source, conditions, max + 1) : matchedCount(source, filter, { conditions }, max + 1),
      ),

    latest: (query: PageQuery, signal) =>
      ask<Grouped<Row>>(query, signal, { groups: [], total: 0 }, async (source, conditions) => {
        const sort = orderOf('desc', timeFieldOf(query.format))
        const newest = await firstOfEach(seriesRows(source, query, { conditions, sort, projection: seriesFields(query) }))
        const keys = pageOfRows(newest, query).map(keyOf)
        if (keys.length === 0) return { groups: [], total: newest.length }
        const rows = await matchedPage(source, { ...query, payload: [] }, { conditions: rowsWith(query.channel, keys) }, 0, keys.length)
        return { groups: inOrderOf(keys, rows), total: newest.length }
      }),

    aggregate: (query: AggregateQuery, signal) =>
      ask<Grouped<Bucket>>(query, signal, { groups: [], total: 0 }, (source, conditions) => {
        const find = { conditions: withNumber(conditions), sort: orderOf('desc', timeFieldOf(query.format)) }
        return aggregateRows(matchedRows(source, query, find), query)
      }),

    formats: (query, signal) =>
      limited<readonly FoundFormat[]>(signal, async (database, limit) => {
        const collections = await registeredCollections(database, limit)
        return await formatsOf(collections.keys(), query, filter =>
          seen(database, collections.get(filter.format) ?? senmlFormat, filter, query.rowsMax, limit),
        )
      }),

    async check() {
      hasSchema = false
      await limited(new AbortController().signal, async () => undefined)
    },
    async close() {
      collections.clear()
    },
  }
}

/** The rows in the order of their keys, without rows that were deleted meanwhile. */
function inOrderOf(keys: readonly RowKey[], rows: readonly Row[]): Row[] {
  const byId = new Map(rows.map(row => [idTextOf(row), row]))
  return keys.map(key => byId.get(idTextOf(key))).filter(row => row !== undefined)
}

function idTextOf({ position, index }: Pick<RowKey, 'position' | 'index'>): string {
  return `${position} ${index}`
}

const denied = 13
const timeLimitExceeded = 50
/** A sort without an index exceeded the memory that a query may use. */
const sortTooLarge = 292

/** Converts an error of MongoDB or its driver to one of the contract. */
export function readError(error: unknown): unknown {
  if (error instanceof QueryTooLargeError || error instanceof StoreUnavailableError) return error
  if (isErrorOf(error, timeLimitExceeded)) return tookTooLong(error)
  if (isErrorOf(error, sortTooLarge)) {
    const sentence = 'the collection lacks the indexes that docs/stores/mongodb.md lists, and has too many rows to sort: create them'
    return new QueryTooLargeError(sentence, { cause: error })
  }
  if (classify(error) === 'transient') {
    return new StoreUnavailableError(`the store cannot answer now: ${(error as Error).message}`, { cause: error })
  }
  if (isErrorOf(error, denied)) {
    const sentence = `the reader's MongoDB user is not authorized to read (code 13): grant it the \`read\` role on the database, or set another ${login}`
    return new SinkError('systemic', sentence, { cause: error })
  }
  return explained(error)
}
