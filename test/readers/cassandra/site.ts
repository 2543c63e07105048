// A Cassandra store with the sink's schema, and a reader over it whose statements are noted.

import type { Client, QueryOptions } from 'cassandra-driver'
import { expect } from 'vitest'
import type { ReaderStoreOptions } from '../../../readers/cassandra/options.ts'
import type { PageLimits } from '../../../readers/cassandra/pages.ts'
import { openCassandraReader } from '../../../readers/cassandra/reader.ts'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import type { ReaderSite } from '../../conformance/reader/index.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { dropKeyspace, identity, optionsFor } from '../../sinks/cassandra/store.ts'

/** What a reader has sent. */
export interface SentStatement {
  readonly cql: string
  readonly values: readonly unknown[]
  readonly fetchSize: number
  /** Of the answer, when it is there. */
  rows: number
}

export interface CassandraSite extends ReaderSite {
  readonly options: SinkOptions
  /** The operator's: what is done by it is not noted. */
  readonly connection: Connection
  /** Of the reader, in order. */
  readonly sent: SentStatement[]
}

export interface SiteSettings {
  readonly sink?: Partial<SinkOptions>
  readonly limits?: Partial<PageLimits>
  readonly queryTimeoutMs?: number
}

const signal = new AbortController().signal

export async function openSite(contactPoint: string, { sink: some, limits, queryTimeoutMs }: SiteSettings = {}): Promise<CassandraSite> {
  const options = optionsFor(contactPoint, some)
  const connection = await openConnection(options, 'writer')
  const sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
  const near = await openConnection(readerOptions(options.url), 'reader')
  const sent: SentStatement[] = []
  const reader = openCassandraReader({ connection: noting(near, sent), options: readerOptions(options.url, queryTimeoutMs) }, limits)
  return {
    options,
    connection,
    sent,
    reader,
    async store(batch) {
      const refuse = async (rejections: unknown): Promise<void> => expect(rejections).toEqual([])
      await sink.write(sink.encode(batch), refuse, signal)
    },
    async names() {
      const rows = await connection.query('SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?', [connection.keyspace])
      return rows.map(row => row['table_name'] as string)
    },
    async close() {
      await reader.close()
      await near.close()
      await sink.close()
      await dropKeyspace(connection)
      await connection.close()
    },
  }
}

export function readerOptions(url: string, queryTimeoutMs = 30_000): ReaderStoreOptions {
  return { url, tls: false, consistency: 'LOCAL_QUORUM', connectTimeoutMs: 10_000, requestTimeoutMs: 12_000, queryTimeoutMs }
}

/** The connection, of which each statement is noted. */
function noting(connection: Connection, sent: SentStatement[]): Connection {
  return {
    ...connection,
    async client() {
      const client = await connection.client()
      const execute = async (cql: string, values: unknown[], { fetchSize, ...options }: QueryOptions) => {
        const one = { cql, values, fetchSize: fetchSize!, rows: 0 }
        sent.push(one)
        const result = await client.execute(cql, values, { fetchSize: fetchSize!, ...options })
        one.rows = result.rowLength
        return result
      }
      return { execute } as unknown as Client
    },
  }
}
