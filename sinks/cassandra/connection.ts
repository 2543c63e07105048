// Connects to a cluster when it is first used, and again after a failure. Loads the driver only then.

import type * as cassandra from 'cassandra-driver'
import type { Client, ClientOptions, QueryOptions, types } from 'cassandra-driver'
import { loginOf } from '../options.ts'
import { classify, explained } from './errors.ts'
import { readServerUrl, type ServerUrl, type SinkOptions } from './options.ts'

export interface TlsFiles {
  /** Each as PEM. */
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** Consistency levels, as numbers of the protocol. */
interface Levels {
  /** For rows, written and read. */
  readonly rows: number
  /** For logs and formats, which every writer must find. */
  readonly registry: number
  readonly serial: number
}

export type Row = Readonly<Record<string, unknown>>

export interface Connection {
  readonly keyspace: string
  readonly levels: Levels
  readonly requestTimeoutMs: number
  /** The driver's value for a column that is left out. Unlike null, it writes no tombstone. */
  readonly unset: unknown
  /** The quoted name of a table of the keyspace. */
  table(name: string): string
  /** Connects if necessary. Rejects if no node can be reached; the next call tries again. */
  client(): Promise<Client>
  /** Returns all rows of a prepared statement. `bigint` columns are bigints. */
  query(cql: string, values?: readonly unknown[], options?: QueryOptions): Promise<Row[]>
  /** Returns the rows of a statement page by page, for tables of any size. */
  pages(cql: string, values?: readonly unknown[], options?: QueryOptions): AsyncIterable<readonly Row[]>
  /** Changes the schema. Resolves to true when all nodes have the change, to false if some did not get it in time. */
  change(cql: string): Promise<boolean>
  /** Adds to an error what to do about it. */
  explain(error: unknown): unknown
  close(): Promise<void>
}

/** What is needed to connect; `serialConsistency` only by callers that register something. */
type ConnectionOptions = Pick<
  SinkOptions,
  'url' | 'user' | 'password' | 'tls' | 'tlsName' | 'consistency' | 'connectTimeoutMs' | 'requestTimeoutMs'
> &
  Partial<Pick<SinkOptions, 'serialConsistency'>>

/** For statements that change the schema: a node answers when it has written the change to disk and sent it to the others. */
const changeTimeoutMs = 60_000
const pageRows = 5_000
/** How long the driver waits before it reconnects to a node that is down. */
const reconnectMs = 1_000
/** A writer prepares a statement for each format; beyond this number the driver logs warnings. */
const preparedMax = 200_000

/**
 * Loads the driver; the cluster need not be reachable.
 *
 * @param applicationName the name under which the nodes list the connections
 * @throws ServerUrlFault if the URL is invalid
 */
export async function openConnection(options: ConnectionOptions, applicationName: string, tls: TlsFiles = {}): Promise<Connection> {
  const serverUrl = readServerUrl(options.url)
  const { default: driver } = await import('cassandra-driver')
  const { consistencies, unset } = driver.types
  const local = options.serialConsistency === 'LOCAL_SERIAL'
  const levels: Levels = {
    rows: levelOf(consistencies, options.consistency),
    registry: local ? consistencies.localQuorum : consistencies.quorum,
    serial: local ? consistencies.localSerial : consistencies.serial,
  }
  const settings = clientOptions(driver, serverUrl, options, { applicationName, tls, levels })
  const who = { user: options.user ?? serverUrl.user, dataCenter: serverUrl.dataCenter, keyspace: serverUrl.keyspace }
  let connecting: Promise<Client> | undefined
  let closed = false

  async function connect(): Promise<Client> {
    const client = new driver.Client(settings())
    try {
      await client.connect()
    } catch (error) {
      // A client that failed to connect still has sockets and timers.
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
      // A statement that is not a SELECT has no rows, whatever the driver's types say.
      yield (result as { readonly rows?: readonly Row[] }).rows ?? []
      // The driver returns null after the last page.
      pageState = result.pageState
    } while (typeof pageState === 'string')
  }

  return {
    keyspace: serverUrl.keyspace,
    levels,
    requestTimeoutMs: options.requestTimeoutMs,
    unset,
    table: name => `${quoted(serverUrl.keyspace)}.${quoted(name)}`,
    client,
    async query(cql, values = [], options = {}) {
      const rows: Row[] = []
      for await (const page of pages(cql, values, { consistency: levels.registry, ...options })) rows.push(...page)
      return rows
    },
    pages,
    async change(cql) {
      const result = await (await client()).execute(cql, [], { prepare: false, readTimeout: changeTimeoutMs })
      // Missing in the driver's types.
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

/** Only for names of sluice and names from physicalName, which contain no quote. */
export function quoted(name: string): string {
  return `"${name}"`
}

/** Maps a name to the driver's key: `LOCAL_QUORUM` is `localQuorum`. */
function levelOf(levels: typeof types.consistencies, name: string): number {
  const key = name.toLowerCase().replace(/_(.)/, (_, letter: string) => letter.toUpperCase())
  return levels[key as keyof typeof levels]
}

type Driver = typeof cassandra.default

/** Returns new options for each client, since clients cannot share policies. */
function clientOptions(
  driver: Driver,
  serverUrl: ServerUrl,
  options: ConnectionOptions,
  { applicationName, tls, levels }: { applicationName: string; tls: TlsFiles; levels: Levels },
): () => ClientOptions {
  const { user, password } = loginOf(options, serverUrl)
  return () => ({
    contactPoints: [...serverUrl.contactPoints],
    localDataCenter: serverUrl.dataCenter,
    applicationName,
    protocolOptions: { port: serverUrl.port },
    ...(user === undefined ? {} : { authProvider: new driver.auth.PlainTextAuthProvider(user, password ?? '') }),
    // By default the driver accepts any certificate.
    ...(options.tls || Object.keys(tls).length > 0
      ? { sslOptions: { ...tls, rejectUnauthorized: true, ...(options.tlsName === undefined ? {} : { servername: options.tlsName }) } }
      : {}),
    queryOptions: { prepare: true, isIdempotent: true, consistency: levels.rows, serialConsistency: levels.serial, fetchSize: pageRows },
    socketOptions: {
      connectTimeout: options.connectTimeoutMs,
      readTimeout: options.requestTimeoutMs,
      // A connection that did not answer in time may be half open: by default the driver would use it for 64 more time-outs.
      defunctReadTimeoutThreshold: 0,
    },
    pooling: { heartBeatInterval: Math.min(options.requestTimeoutMs, 10_000) },
    policies: {
      // The pipeline retries a batch, with its own waits; retries in the driver would multiply.
      retry: new driver.policies.retry.FallthroughRetryPolicy(),
      // By default the wait doubles up to ten minutes, which would be added to every outage.
      reconnection: new driver.policies.reconnection.ConstantReconnectionPolicy(reconnectMs),
    },
    encoding: { useBigIntAsLong: true },
    maxPrepared: preparedMax,
    monitorReporting: { enabled: false },
  })
}

const units: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }

/**
 * The size of a row, in bytes, that a node surely accepts: its mutation has some bytes more. A larger row is refused before any row of its message is
 * sent. Only one node is asked; if others have a lower limit, they refuse the row themselves.
 *
 * @returns infinity if the node does not report its limits (before Cassandra 4.1, or to a role that may not read them)
 */
export async function rowBytesMax(connection: Connection): Promise<number> {
  const sql = `SELECT name, value FROM system_views.settings WHERE name IN ('max_mutation_size', 'native_transport_max_frame_size')`
  try {
    const rows = await connection.query(sql, [], { consistency: 1 })
    return rows.reduce((least, { value }) => Math.min(least, bytesOf(String(value))), Number.POSITIVE_INFINITY)
  } catch (error) {
    if (classify(error) === 'transient') throw error
    return Number.POSITIVE_INFINITY
  }
}

/** Parses a size such as `8192KiB`; infinity for any other text. */
function bytesOf(size: string): number {
  const [, digits = '', unit = ''] = /^(\d+)(B|KiB|MiB|GiB)$/.exec(size) ?? []
  return digits === '' ? Number.POSITIVE_INFINITY : Number(digits) * units[unit]!
}
