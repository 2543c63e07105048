// A MongoDB store filled by its own sink, and a reader over it.

import type { Db, MongoClient } from 'mongodb'
import { expect } from 'vitest'
import type { ReaderStoreOptions } from '../../../readers/mongodb/options.ts'
import { openMongodbReader } from '../../../readers/mongodb/reader.ts'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import { openSink } from '../../../sinks/mongodb/sink.ts'
import type { ReaderSite } from '../../conformance/reader/index.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { identity, openOperator, optionsOf } from '../../sinks/mongodb/store.ts'

export interface MongoSite extends ReaderSite {
  /** Of the reader. */
  readonly connection: Connection
  /** The operator's. */
  readonly database: Db
}

const signal = new AbortController().signal

export function readerOptionsOf(url: string, some: Partial<ReaderStoreOptions> = {}): ReaderStoreOptions {
  return { url, connectTimeoutMs: 10_000, queryTimeoutMs: 30_000, connectionsMax: 4, ...some }
}

/**
 * Drops the database, and lets the sink make it anew.
 *
 * @param readerUrl by which the reader comes, where that is another
 */
export async function openSite(url: string, readerUrl = url, some: Partial<ReaderStoreOptions> = {}): Promise<MongoSite> {
  const operator: MongoClient = openOperator(url)
  const database = operator.db()
  await database.dropDatabase()
  const sinkOptions = optionsOf(url)
  const sinkConnection = await openConnection(sinkOptions, 'test')
  const sink = await withNumbers(openSink({ connection: sinkConnection, options: sinkOptions, logs: [identity] }))
  const options = readerOptionsOf(readerUrl, some)
  const connection = await openConnection(options, 'reader-test')
  const reader = openMongodbReader({ connection, options })
  const isFerret = 'ferretdbVersion' in (await database.admin().buildInfo())
  return {
    reader,
    connection,
    database,
    async store(batch) {
      const refuse = async (rejections: unknown): Promise<void> => expect(rejections).toEqual([])
      await sink.write(sink.encode(batch), refuse, signal)
    },
    async names() {
      const found = await database.listCollections({}, { nameOnly: true }).toArray()
      return found.map(({ name }) => name).sort()
    },
    // FerretDB refuses keys with a dot.
    keptOf: payload => (isFerret && Object.keys(payload).some(key => key.includes('.')) ? undefined : payload),
    async close() {
      await reader.close()
      await connection.close()
      await sink.close()
      await sinkConnection.close()
      await operator.close()
    },
  }
}
