// The reader of a MongoDB store: runs what select.ts asks for, and makes rows of the bytes that come back.

import type { Db } from 'mongodb'
import type { Connection } from '../../sinks/mongodb/connection.ts'
import { type FormatEntry, formatsCollection } from '../../sinks/mongodb/formats.ts'
import { readVersion } from '../../sinks/mongodb/schema.ts'
import { formatsOf, type Seen, seeRows } from '../formats.ts'
import { aggregateRows, firstOfEach } from '../groups.ts'
import type { AggregateQuery, PageQuery, Selection } from '../query.ts'
import { type Bucket, type FoundFormat, type Grouped, type Reader, type Row, StoreUnavailableError, senmlFormat } from '../reader.ts'
import { readError } from './errors.ts'
import { countBy, type Place } from './found.ts'
import { isExact, matchedCount, matchedPage, matchedRows, seriesRows } from './matched.ts'
import { inOrderOf, pageOfKeys } from './newest.ts'
import type { ReaderStoreOptions } from './options.ts'
import { behind, type Filter, filterOf, orderOf, rowsWith, seriesFields, timeFieldOf, withNumber } from './select.ts'
import { openTimeLimit, type TimeLimit } from './time-limit.ts'

export interface MongodbReaderParts {
  /** Stays the caller's: closing the reader does not close it. */
  readonly connection: Connection
  readonly options: ReaderStoreOptions
}

const collectionsRememberedMax = 10_000

/** By format. */
async function registeredCollections(database: Db, limit: TimeLimit): Promise<Map<string, string>> {
  const formats = database.collection<FormatEntry>(formatsCollection)
  const found = formats.find({}, { maxTimeMS: limit.remainingMs(), signal: limit.signal, projection: { collection: 1 } })
  return new Map((await limit.within(found.toArray())).map(({ _id, collection }) => [_id, collection]))
}

/** Opens a reader over the collections that the MongoDB sink keeps. It makes none, and asks nothing before it is asked. */
export function openMongodbReader({ connection, options: { queryTimeoutMs } }: MongodbReaderParts): Reader {
  // A format never changes its collection, and one that was dropped is empty.
  const collections = new Map<string, string>()
  let hasSchema = false

  /** Before the first writer, and in a database whose name is mistyped, nothing is found: that is not to be taken for an answer. */
  async function checkSchema(database: Db, limit: TimeLimit): Promise<void> {
    if (hasSchema) return
    if ((await limit.within(readVersion(database, limit.signal))) === 0) {
      throw new StoreUnavailableError(
        `the database "${database.databaseName}" holds no message tables: start a writer on it, which makes them`,
      )
    }
    hasSchema = true
  }

  async function collectionOf(database: Db, format: string, limit: TimeLimit): Promise<string | undefined> {
    if (format === senmlFormat) return senmlFormat
    const remembered = collections.get(format)
    if (remembered !== undefined || !format.isWellFormed()) return remembered
    const formats = database.collection<FormatEntry>(formatsCollection)
    const entry = await limit.within(
      formats.findOne({ _id: { $eq: format } }, { maxTimeMS: limit.remainingMs(), signal: limit.signal, projection: { collection: 1 } }),
    )
    if (entry === null) return undefined
    if (collections.size >= collectionsRememberedMax) collections.clear()
    collections.set(format, entry.collection)
    return entry.collection
  }

  async function limited<Found>(signal: AbortSignal, work: (database: Db, limit: TimeLimit) => Promise<Found>): Promise<Found> {
    const limit = openTimeLimit(signal, queryTimeoutMs)
    try {
      await limit.within(connection.connect())
      await checkSchema(connection.database, limit)
      return await work(connection.database, limit)
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : readError(error)
    } finally {
      limit.end()
    }
  }

  /** What `work` finds; `nothing` where the format has no collection, or no row can be meant. */
  function ask<Found>(
    selection: Selection,
    signal: AbortSignal,
    nothing: Found,
    work: (place: Place, filter: Filter) => Promise<Found>,
  ): Promise<Found> {
    return limited(signal, async (database, limit) => {
      const filter = filterOf(selection)
      const collection = filter === undefined ? undefined : await collectionOf(database, selection.format, limit)
      if (filter === undefined || collection === undefined) return nothing
      return await work({ database, collection, limit }, filter)
    })
  }

  async function seen(database: Db, collection: string, selection: Selection, rowsMax: number, limit: TimeLimit): Promise<Seen> {
    const filter = filterOf(selection)
    if (filter === undefined) return { lastUs: new Map(), hasMore: false }
    const find = { filter, sort: orderOf('desc', timeFieldOf(selection.format)), projection: seriesFields(selection), limit: rowsMax }
    return await seeRows(seriesRows({ database, collection, limit }, selection, find), rowsMax)
  }

  return {
    read: (query: PageQuery, signal) =>
      ask<readonly Row[]>(query, signal, [], (place, filter) => {
        const { direction, format, after, offset, limit } = query
        const time = timeFieldOf(format)
        const find = { filter: behind(filter, after, direction, time), sort: orderOf(direction, time) }
        return matchedPage(place, query, find, offset, limit)
      }),

    count: (selection: Selection, max, signal) =>
      ask(selection, signal, 0, (place, filter) =>
        isExact(selection) ? countBy(place, filter, max + 1) : matchedCount(place, selection, { filter }, max + 1),
      ),

    latest: (query: PageQuery, signal) =>
      ask<Grouped<Row>>(query, signal, { groups: [], total: 0 }, async (place, filter) => {
        const sort = orderOf('desc', timeFieldOf(query.format))
        const newest = await firstOfEach(seriesRows(place, query, { filter, sort, projection: seriesFields(query) }))
        const keys = pageOfKeys(newest, query)
        if (keys.length === 0) return { groups: [], total: newest.length }
        const rows = await matchedPage(place, { ...query, payload: [] }, { filter: rowsWith(query.channel, keys) }, 0, keys.length)
        return { groups: inOrderOf(keys, rows), total: newest.length }
      }),

    aggregate: (query: AggregateQuery, signal) =>
      ask<Grouped<Bucket>>(query, signal, { groups: [], total: 0 }, (place, filter) => {
        const find = { filter: withNumber(filter), sort: orderOf('desc', timeFieldOf(query.format)) }
        return aggregateRows(matchedRows(place, query, find), query)
      }),

    formats: (query, signal) =>
      limited<readonly FoundFormat[]>(signal, async (database, limit) => {
        const collections = await registeredCollections(database, limit)
        return await formatsOf(collections.keys(), query, selection =>
          seen(database, collections.get(selection.format) ?? senmlFormat, selection, query.rowsMax, limit),
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
