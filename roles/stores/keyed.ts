// The stores that identify rows by key: Cassandra, InfluxDB and MongoDB. Sinks, readers and audits of such a store share one connection.

import { readTlsFiles, type TlsFiles, type TlsTexts } from '../../http/tls-files.ts'
import type { ReaderStoreOptions as CassandraReaderOptions } from '../../readers/cassandra/options.ts'
import type { ReaderStoreOptions as InfluxdbReaderOptions } from '../../readers/influxdb/options.ts'
import type { ReaderStoreOptions as MongodbReaderOptions } from '../../readers/mongodb/options.ts'
import type { Reader } from '../../readers/reader.ts'
import type { StoreAudit } from '../../sinks/audit.ts'
import type { Connection as CassandraConnection } from '../../sinks/cassandra/connection.ts'
import type { SinkOptions as CassandraOptions } from '../../sinks/cassandra/options.ts'
import type { StoreErasure } from '../../sinks/erasure.ts'
import type { Connection as InfluxdbConnection } from '../../sinks/influxdb/connection.ts'
import type { SinkOptions as InfluxdbOptions } from '../../sinks/influxdb/options.ts'
import { checkLogs, freeLog, type LogTable, type SinkLogs } from '../../sinks/logs.ts'
import type { Connection as MongodbConnection } from '../../sinks/mongodb/connection.ts'
import type { SinkOptions as MongodbOptions } from '../../sinks/mongodb/options.ts'
import type { ReplaySink } from '../../sinks/replay.ts'
import type { ErrorClass, Sink } from '../../sinks/sink.ts'
import { closingBehind, type StoreKind } from './store.ts'

interface SinkParts<Connection, Options> extends SinkLogs {
  readonly connection: Connection
  readonly options: Options
  readonly onNotice: (sentence: string) => void
}

interface ReplayParts<Connection, Options> {
  readonly connection: Connection
  readonly options: Options
  readonly logNumber: number
}

/** The modules of a store's folders: each is loaded, together with the driver, when it is needed. */
interface StoreFolder<Options, ReadOptions, Connection> {
  connection(): Promise<{
    readonly openConnection: (options: Options | ReadOptions, applicationName: string, tls?: TlsTexts) => Promise<Connection>
  }>
  sink(): Promise<{
    readonly classify: (error: unknown) => ErrorClass
    readonly openSink: (parts: SinkParts<Connection, Options>) => Promise<Sink>
    readonly openReplaySink: (parts: ReplayParts<Connection, Options>) => Promise<ReplaySink>
  }>
  schema(): Promise<{ readonly maintain: (connection: Connection, options: Options) => Promise<void> }>
  openReader(): Promise<(parts: { readonly connection: Connection; readonly options: ReadOptions }) => Reader>
  queriesAtOnce(options: ReadOptions): number
  audit(): Promise<{ readonly openAudit: (connection: Connection, options: Options) => StoreAudit }>
  erase(): Promise<{ readonly openErasure: (connection: Connection) => StoreErasure }>
  registry(): Promise<{ readonly openLogTable: (connection: Connection) => LogTable }>
}

/** Its driver sends any number of requests over one connection. */
const cassandraQueriesAtOnce = 32

/** It stores no positions; a relational store does, in the transaction of the rows. */
function keyedStore<Options extends TlsFiles, ReadOptions extends TlsFiles, Connection extends { close(): Promise<void> }>(
  { name, takesFlat }: Pick<StoreKind, 'name' | 'takesFlat'>,
  folder: StoreFolder<Options, ReadOptions, Connection>,
): StoreKind<Options, ReadOptions> {
  async function connectionOf(options: Options | ReadOptions, applicationName: string): Promise<Connection> {
    const { openConnection } = await folder.connection()
    return await openConnection(options, applicationName, await readTlsFiles('store', options))
  }

  return {
    name,
    takesFlat,
    keepsPositions: false,
    async open(options, writer) {
      const { classify, openSink } = await folder.sink()
      const { maintain } = await folder.schema()
      const connection = await connectionOf(options, `sluice-writer-${writer}`)
      return {
        openSink: (logs, onNotice) => openSink({ connection, options, onNotice, logs }),
        classify,
        maintain: () => maintain(connection, options),
        close: () => connection.close(),
      }
    },
    async openReader(options) {
      const openReader = await folder.openReader()
      const connection = await connectionOf(options, 'sluice-reader')
      return closingBehind(openReader({ connection, options }), connection)
    },
    queriesAtOnce: options => folder.queriesAtOnce(options),
    async openAudit(options) {
      const { openAudit } = await folder.audit()
      const connection = await connectionOf(options, 'sluice-audit')
      return { ...openAudit(connection, options), close: () => connection.close() }
    },
    async check(options, writer, logs) {
      const replays = await this.openReplays(options, writer)
      try {
        await replays.openSink(1)
        checkLogs(await replays.audit.logs(), logs)
        return 'its schema is that of this version'
      } finally {
        await replays.close()
      }
    },
    classifier: async () => (await folder.sink()).classify,
    async freeLog(options, number, isIdle) {
      const [{ openLogTable }, { openAudit }] = [await folder.registry(), await folder.audit()]
      const connection = await connectionOf(options, 'sluice-logs')
      try {
        const audit = openAudit(connection, options)
        await audit.logs() // connects
        await freeLog(openLogTable(connection), number, audit, isIdle)
      } finally {
        await connection.close()
      }
    },
    async openErasure(options) {
      const { openErasure } = await folder.erase()
      return openErasure(await connectionOf(options, 'sluice-erase'))
    },
    async openReplays(options, writer) {
      const [{ openReplaySink }, { openAudit }] = [await folder.sink(), await folder.audit()]
      const connection = await connectionOf(options, `sluice-replay-${writer}`)
      return {
        audit: openAudit(connection, options),
        openSink: logNumber => openReplaySink({ connection, options, logNumber }),
        close: () => connection.close(),
      }
    },
  }
}

export const widecolumn = keyedStore<CassandraOptions, CassandraReaderOptions, CassandraConnection>(
  { name: 'widecolumn', takesFlat: false },
  {
    connection: () => import('../../sinks/cassandra/connection.ts'),
    sink: () => import('../../sinks/cassandra/sink.ts'),
    schema: () => import('../../sinks/cassandra/schema.ts'),
    openReader: async () => (await import('../../readers/cassandra/reader.ts')).openCassandraReader,
    queriesAtOnce: () => cassandraQueriesAtOnce,
    audit: () => import('../../sinks/cassandra/audit.ts'),
    erase: () => import('../../sinks/cassandra/erase.ts'),
    registry: () => import('../../sinks/cassandra/registry.ts'),
  },
)

export const timeseries = keyedStore<InfluxdbOptions, InfluxdbReaderOptions, InfluxdbConnection>(
  { name: 'timeseries', takesFlat: true },
  {
    connection: () => import('../../sinks/influxdb/connection.ts'),
    sink: () => import('../../sinks/influxdb/sink.ts'),
    schema: () => import('../../sinks/influxdb/schema.ts'),
    openReader: async () => (await import('../../readers/influxdb/reader.ts')).openInfluxdbReader,
    queriesAtOnce: ({ requestsInFlight }) => requestsInFlight,
    audit: () => import('../../sinks/influxdb/audit.ts'),
    erase: () => import('../../sinks/influxdb/erase.ts'),
    registry: () => import('../../sinks/influxdb/registry.ts'),
  },
)

export const document = keyedStore<MongodbOptions, MongodbReaderOptions, MongodbConnection>(
  { name: 'document', takesFlat: false },
  {
    connection: () => import('../../sinks/mongodb/connection.ts'),
    sink: () => import('../../sinks/mongodb/sink.ts'),
    schema: () => import('../../sinks/mongodb/schema.ts'),
    openReader: async () => (await import('../../readers/mongodb/reader.ts')).openMongodbReader,
    queriesAtOnce: ({ connectionsMax }) => connectionsMax,
    audit: () => import('../../sinks/mongodb/audit.ts'),
    erase: () => import('../../sinks/mongodb/erase.ts'),
    registry: () => import('../../sinks/mongodb/registry.ts'),
  },
)
