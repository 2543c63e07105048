// The way to a cluster: loads the driver when it is needed, connects when it is first used, and again after it could not.

import type * as cassandra from 'cassandra-driver'
import type { Client, ClientOptions, QueryOptions, types } from 'cassandra-driver'
import { loginOf } from '../login.ts'
import { explained } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { readServerUrl, type ServerUrl } from './server-url.ts'
import { quoted } from './statements.ts'

export interface TlsFiles {
  /** PEM, each. */
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** As numbers of the protocol. */
export interface Levels {
  /** Of rows, and of what is read of them. */
  readonly rows: number
  /** Of logs and formats, which every writer must find. */
  readonly registry: number
  readonly serial: number
}

export type Row = Readonly<Record<string, unknown>>

export interface Connection {
  readonly keyspace: string
  readonly levels: Levels
  readonly requestTimeoutMs: number
  /** The driver's value for a column that is left out: it makes no tombstone. */
  readonly unset: unknown
  /** Of a table of the keyspace, in quotes. */
  table(name: string): string
  /** Connected. Rejects where no node is there; the next call tries anew. */
  client(): Promise<Client>
  /** All rows of a statement, which is prepared. `bigint` columns are bigints. */
  query(cql: string, values?: readonly unknown[], options?: QueryOptions): Promise<Row[]>
  /** The rows of a statement page by page, for tables of any size. */
  pages(cql: string, values?: readonly unknown[], options?: QueryOptions): AsyncIterable<readonly Row[]>
  /** Changes the schema. Resolves when all nodes have it; false where some have not in time. */
  change(cql: string): Promise<boolean>
  /** An error with what to do about it. */
  explain(error: unknown): unknown
  close(): Promise<void>
}

/** What it takes to connect; `serialConsistency` where something is registered. */
export type ConnectionOptions = Pick<
  SinkOptions,
  'url' | 'user' | 'password' | 'tls' | 'tlsName' | 'consistency' | 'connectTimeoutMs' | 'requestTimeoutMs'
> &
  Partial<Pick<SinkOptions, 'serialConsistency'>>

/** Of the statements that change the schema, which a node answers when it has written it to the disk and told the others. */
const changeTimeoutMs = 60_000
const pageRows = 5_000
/** How long a node that is down is left alone. */
const reconnectMs = 1_000
/** A writer prepares a statement for each format; beyond this number the driver complains. */
const preparedMax = 200_000

/**
 * Loads the driver. The cluster does not need to be there.
 *
 * @param applicationName under which the nodes list our connections
 * @throws ServerUrlFault where the URL cannot be read
 */
export async function openConnection(options: ConnectionOptions, applicationName: string, tls: TlsFiles = {}): Promise<Connection> {
  const place = readServerUrl(options.url)
  const { default: driver } = await import('cassandra-driver')
  const { consistencies, unset } = driver.types
  const local = options.serialConsistency === 'LOCAL_SERIAL'
  const levels: Levels = {
    rows: levelOf(consistencies, options.consistency),
    registry: local ? consistencies.localQuorum : consistencies.quorum,
    serial: local ? consistencies.localSerial : consistencies.serial,
  }
  const settings = clientOptions(driver, place, options, { applicationName, tls, levels })
  const who = { user: options.user ?? place.user, dataCenter: place.dataCenter, keyspace: place.keyspace }
  let connecting: Promise<Client> | undefined
  let closed = false

  async function connect(): Promise<Client> {
    const client = new driver.Client(settings())
    try {
      await client.connect()
    } catch (error) {
      // One that could not connect keeps sockets and timers.
      connecting = undefined
      await client.shutdown().catch(() => undefined)
      throw explained(error, who)
    }
    return client
  }

  function client(): Promise<Client> {
    if (closed) return Promise.reject(new Error('the connection is closed'))
    connecting ??= connect()
    return connecting
  }

  async function* pages(cql: string, values: readonly unknown[] = [], options: QueryOptions = {}): AsyncGenerator<readonly Row[]> {
    const connected = await client()
    let pageState: string | null | undefined
    do {
      const result = await connected.execute(cql, [...values], {
        fetchSize: pageRows,
        ...options,
        ...(typeof pageState === 'string' ? { pageState } : {}),
      })
      // A statement that reads nothing has no rows, whatever the driver's types say.
      yield (result as { readonly rows?: readonly Row[] }).rows ?? []
      // The driver says null behind the last page.
      pageState = result.pageState
    } while (typeof pageState === 'string')
  }

  return {
    keyspace: place.keyspace,
    levels,
    requestTimeoutMs: options.requestTimeoutMs,
    unset,
    table: name => `${quoted(place.keyspace)}.${quoted(name)}`,
    client,
    async query(cql, values = [], options = {}) {
      const rows: Row[] = []
      for await (const page of pages(cql, values, { consistency: levels.registry, ...options })) rows.push(...page)
      return rows
    },
    pages,
    async change(cql) {
      const result = await (await client()).execute(cql, [], { prepare: false, readTimeout: changeTimeoutMs })
      // Of the driver, and not in its types.
      return (result.info as { isSchemaInAgreement?: boolean }).isSchemaInAgreement !== false
    },
    explain: error => explained(error, who),
    async close() {
      closed = true
      const connected = await connecting?.catch(() => undefined)
      await connected?.shutdown()
    },
  }
}

/** `LOCAL_QUORUM` is `localQuorum` to the driver. */
function levelOf(levels: typeof types.consistencies, name: string): number {
  const key = name.toLowerCase().replace(/_(.)/, (_, letter: string) => letter.toUpperCase())
  return levels[key as keyof typeof levels]
}

type Driver = typeof cassandra.default

/** Made anew for each client: policies belong to one. */
function clientOptions(
  driver: Driver,
  place: ServerUrl,
  options: ConnectionOptions,
  { applicationName, tls, levels }: { applicationName: string; tls: TlsFiles; levels: Levels },
): () => ClientOptions {
  const { user, password } = loginOf(options, place)
  return () => ({
    contactPoints: [...place.contactPoints],
    localDataCenter: place.dataCenter,
    applicationName,
    protocolOptions: { port: place.port },
    ...(user === undefined ? {} : { authProvider: new driver.auth.PlainTextAuthProvider(user, password ?? '') }),
    // The driver itself believes every certificate unless it is told otherwise.
    ...(options.tls || Object.keys(tls).length > 0
      ? { sslOptions: { ...tls, rejectUnauthorized: true, ...(options.tlsName === undefined ? {} : { servername: options.tlsName }) } }
      : {}),
    queryOptions: { prepare: true, isIdempotent: true, consistency: levels.rows, serialConsistency: levels.serial, fetchSize: pageRows },
    socketOptions: {
      connectTimeout: options.connectTimeoutMs,
      readTimeout: options.requestTimeoutMs,
      // A connection on which nothing was answered in time may be half open: the driver would use it for 64 time-outs more.
      defunctReadTimeoutThreshold: 0,
    },
    pooling: { heartBeatInterval: Math.min(options.requestTimeoutMs, 10_000) },
    policies: {
      // The pipeline retries a batch, with its own waits: retries in the driver would multiply.
      retry: new driver.policies.retry.FallthroughRetryPolicy(),
      // By default the wait doubles to ten minutes, which a writer would add to every outage.
      reconnection: new driver.policies.reconnection.ConstantReconnectionPolicy(reconnectMs),
    },
    encoding: { useBigIntAsLong: true },
    maxPrepared: preparedMax,
    monitorReporting: { enabled: false },
  })
}
