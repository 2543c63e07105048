// The connection to a MongoDB database: the driver's client, and the one command for which the driver has no public method.

import type { EventEmitter } from 'node:events'
import type { Db, Document, MongoClientOptions } from 'mongodb'
import { named } from '../../config/options/variable.ts'
import { loginOf } from '../options.ts'
import { SinkError } from '../sink-error.ts'
import { rowFailure, type WriteError } from './errors.ts'
import { credentialsOf, type SinkOptions, urlFaults } from './options.ts'

export interface Connection {
  /** Connects if necessary. Call it before anything else; once it has resolved, the driver reconnects by itself. */
  connect(): Promise<void>
  /** For everything except rows: reads from the primary what a majority has, and writes to a majority. int64s are bigints, binaries are Buffers. */
  readonly database: Db
  /** Runs a command, which may be large. It fails if it is not answered in time, also if the server stops reading it. */
  command(command: Document, signal?: AbortSignal): Promise<Document>
  /**
   * Inserts documents that are stored one after another in the buffer, unordered, with the write concern of the options. Returns those that were not
   * inserted.
   *
   * @throws the driver's errors, also if the write concern was not reached: the outcome is then unknown
   */
  insert(collection: string, documents: Uint8Array, signal: AbortSignal): Promise<readonly WriteError[]>
  /** Deletes the documents with these `_id`s, with the same write concern. */
  remove(collection: string, rowIds: readonly Uint8Array[], signal?: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** Options of a writer: how many inserts are in flight, and how they are acknowledged. */
type WriterOptions = Pick<SinkOptions, 'requestTimeoutMs' | 'writesInFlight' | 'writeConcern' | 'journal'>

/** Options of a reader, which writes nothing. */
interface ReaderOptions {
  /** The server itself aborts a query that takes longer. */
  readonly queryTimeoutMs: number
  readonly connectionsMax: number
}

export type ConnectionOptions = Pick<SinkOptions, 'url' | 'user' | 'password' | 'connectTimeoutMs'> & (WriterOptions | ReaderOptions)

export interface TlsFiles {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** Connections besides those for inserts of rows: for the registries and the retention. */
const otherConnections = 2
const connectingAtOnce = 4
/** The server stops waiting for its members before the client stops waiting for the server. */
const writeConcernShare = 0.8
const closeMsMax = 1_000
const driverFolder = 'mongodb/lib/cmap'
/** How long a server may take, after a query's time is over, to answer that it took too long. */
const answerMsMax = 2_000

/**
 * Loads the driver. The server need not be reachable: the driver connects when it is first needed, and reconnects whenever necessary.
 *
 * The driver does not retry writes (`retryWrites`): rows are keyed, so the pipeline retries what failed; and a standalone server does not support
 * transaction numbers, and answers with code 20.
 *
 * @param applicationName the name in the server's log and in `currentOp`
 * @param tls each as PEM; any of them enables TLS
 * @throws SinkError (systemic) if the URL cannot be used
 */
export async function openConnection(options: ConnectionOptions, applicationName: string, tls: TlsFiles = {}): Promise<Connection> {
  const [fault] = urlFaults(options.url)
  if (fault !== undefined) throw new SinkError('systemic', `${named('store.url', 'SVC_DOCUMENT_URL')}: ${fault.problem}`)
  const { MongoClient } = await import('mongodb')
  const { DocumentSequence, connectionType } = await loadInternals()
  function newClient(): InstanceType<typeof MongoClient> {
    try {
      const given = { ...clientOptions(options, applicationName, tls), connectionType }
      const made = new MongoClient(options.url, given)
      // The pool and the topology emit errors that the operations throw as well.
      return made.on('error', () => undefined)
    } catch (error) {
      throw new SinkError('systemic', `${named('store.url', 'SVC_DOCUMENT_URL')} cannot be used: ${withoutSecrets(error, options)}`)
    }
  }
  let client = newClient()
  let connecting: Promise<unknown> | undefined

  /** After a first connection attempt has failed, the driver's client always reports that it is closed: the next call uses a new one. */
  async function connect(): Promise<void> {
    const trying = client
    connecting ??= trying.connect().catch(async (error: unknown) => {
      connecting = undefined
      client = newClient()
      await trying.close().catch(() => undefined)
      throw error
    })
    await connecting
  }

  const writeConcern = writeConcernOf(options)

  function command(document: Document, signal?: AbortSignal): Promise<Document> {
    return client.db().command(document, signal === undefined ? {} : { signal })
  }

  return {
    connect,
    get database() {
      return client.db()
    },
    command,
    async insert(collection, documents, signal) {
      const sequence = new DocumentSequence('documents')
      sequence.push({}, documents)
      const answer = await command({ insert: collection, documents: sequence, ordered: false, writeConcern }, signal)
      return (answer['writeErrors'] as WriteError[] | undefined) ?? []
    },
    async remove(collection, rowIds, signal) {
      const deletes = [{ q: { _id: { $in: rowIds } }, limit: 0 }]
      const answer = await command({ delete: collection, deletes, writeConcern }, signal)
      const [failure] = (answer['writeErrors'] as WriteError[] | undefined) ?? []
      if (failure !== undefined) throw rowFailure(failure, `MongoDB did not delete rows of ${collection}`)
    },
    async close() {
      // The driver ends its sessions on the server, which may not answer.
      const closing = client.close()
      closing.catch(() => undefined)
      const bound = Promise.withResolvers<void>()
      const timer = setTimeout(bound.resolve, closeMsMax)
      await Promise.race([closing, bound.promise]).finally(() => clearTimeout(timer))
    },
  }
}

function clientOptions(options: ConnectionOptions, applicationName: string, tls: TlsFiles): MongoClientOptions {
  const { connectTimeoutMs } = options
  const requestTimeoutMs = requestTimeoutOf(options)
  const connectionsMax = 'queryTimeoutMs' in options ? options.connectionsMax : options.writesInFlight + otherConnections
  const { j: journal, wtimeout: wtimeoutMS } = writeConcernOf(options)
  return {
    appName: applicationName.slice(0, 100),
    ...authOf(options),
    ...(Object.values(tls).every(one => one === undefined) ? {} : { tls: true, ...tls }),
    maxPoolSize: connectionsMax,
    maxConnecting: Math.min(connectionsMax, connectingAtOnce),
    connectTimeoutMS: connectTimeoutMs,
    serverSelectionTimeoutMS: connectTimeoutMs,
    waitQueueTimeoutMS: requestTimeoutMs,
    socketTimeoutMS: requestTimeoutMs,
    retryWrites: false,
    readPreference: 'primary',
    readConcernLevel: 'majority',
    w: 'majority',
    journal,
    wtimeoutMS,
    useBigInt64: true,
    promoteBuffers: true,
  }
}

function requestTimeoutOf(options: ConnectionOptions): number {
  return 'queryTimeoutMs' in options ? options.queryTimeoutMs + answerMsMax : options.requestTimeoutMs
}

/** The write concern of rows; a reader, which writes none, gets the default. */
function writeConcernOf(options: ConnectionOptions): { w: number | string; j: boolean; wtimeout: number } {
  if ('queryTimeoutMs' in options) return { w: 'majority', j: true, wtimeout: options.queryTimeoutMs }
  const { writeConcern, journal, requestTimeoutMs } = options
  return {
    w: /^\d+$/.test(writeConcern) ? Number(writeConcern) : writeConcern,
    j: journal,
    wtimeout: Math.ceil(requestTimeoutMs * writeConcernShare),
  }
}

function authOf(options: ConnectionOptions): Pick<MongoClientOptions, 'auth'> {
  if (options.user === undefined && options.password === undefined) return {}
  const { user, password } = loginOf(options, credentialsOf(options.url))
  return { auth: { ...(user === undefined ? {} : { username: user }), ...(password === undefined ? {} : { password }) } }
}

/** A section of OP_MSG, the wire protocol's message: the elements of one field of a command, as BSON that is sent as it is. */
interface DocumentSequence {
  push(document: object, bytes: Uint8Array): void
}

/** The driver's connection to a server, as far as it is used here. */
interface DriverConnection extends EventEmitter {
  readonly error: Error | null
  /** Resolves when the socket has accepted the command. */
  writeCommand(...given: unknown[]): Promise<void>
}

/** Classes that the driver does not export. */
interface Internals {
  /**
   * The driver uses it for its own inserts. Through its public methods, each row would have to be an object, which it serializes, and it would
   * interpret some keys of payloads (`_bsontype`).
   */
  readonly DocumentSequence: new (
    field: string,
  ) => DocumentSequence
  /** An option of the driver's client that its types lack. */
  readonly connectionType: new (
    ...given: unknown[]
  ) => DriverConnection
}

async function loadInternals(): Promise<Internals> {
  const { DocumentSequence } = (await import(`${driverFolder}/commands.js`)) as Partial<Internals>
  const { Connection: Base } = (await import(`${driverFolder}/connection.js`)) as { Connection?: Internals['connectionType'] }
  if (DocumentSequence === undefined || Base?.prototype.writeCommand === undefined) {
    throw new SinkError('systemic', 'the installed version of the package mongodb is not the one in package.json: run npm ci')
  }
  /**
   * The driver waits forever for a closed socket to accept a command: if the server had stopped reading, and if the socket closes just before the command is
   * written. If that happens to its search for the server, it never finds the server again.
   */
  class ClosingConnection extends Base {
    override async writeCommand(...given: unknown[]): Promise<void> {
      const closed = Promise.withResolvers<never>()
      const onClose = (): void => closed.reject(this.error)
      this.once('close', onClose)
      try {
        await Promise.race([super.writeCommand(...given), closed.promise])
      } finally {
        this.off('close', onClose)
      }
    }
  }
  return { DocumentSequence, connectionType: ClosingConnection }
}

/** The driver's message quotes the part of the URL that it cannot parse. */
function withoutSecrets(error: unknown, { url, password }: ConnectionOptions): string {
  let text = error instanceof Error ? error.message : String(error)
  const credentials = /\/\/([^/?#]*)@/.exec(url)?.[1]
  for (const secret of [url, credentials, credentials?.slice(credentials.indexOf(':') + 1), password]) {
    if (secret !== undefined && secret !== '') text = text.replaceAll(secret, '…')
  }
  return text
}
