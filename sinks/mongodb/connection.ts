// The connection to a MongoDB database: the driver's client, and the one command that the driver has no public way for.

import type { Db, Document, MongoClientOptions } from 'mongodb'
import { named } from '../../config/option-variable.ts'
import { loginOf } from '../login.ts'
import { SinkError } from '../sink-error.ts'
import { withAnswerLimit } from './answer-limit.ts'
import { rowFailure, type WriteError } from './errors.ts'
import { credentialsOf, type SinkOptions, urlFaults } from './options.ts'

export interface Connection {
  /** Connects where that is not done. To be called before anything else is asked; once it has resolved the driver finds its servers again by itself. */
  connect(): Promise<void>
  /** Everything but rows: reads from the primary what a majority has, and writes to a majority. int64s are bigints, binaries Buffers. */
  readonly database: Db
  /** A command on the database that may be a large one: given up where it is not answered, also where the server does not take it. */
  command(command: Document, signal?: AbortSignal): Promise<Document>
  /**
   * Inserts documents that lie one behind the other, unordered, to the write concern of the options. Returns which were not inserted.
   *
   * @throws the driver's errors, also where the write concern was not reached; then nothing is known
   */
  insert(collection: string, documents: Uint8Array, signal: AbortSignal): Promise<readonly WriteError[]>
  /** Deletes the documents with these `_id`s, to the same write concern. */
  remove(collection: string, rowIds: readonly Uint8Array[], signal?: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** Of a sink: as many requests at once as it has writes in flight, and how they are acknowledged. */
type WriterOptions = Pick<SinkOptions, 'requestTimeoutMs' | 'writesInFlight' | 'writeConcern' | 'journal'>

/** Of a reader, which writes nothing. */
interface ReaderOptions {
  /** The server itself gives up a question that takes longer. */
  readonly queryTimeoutMs: number
  readonly connectionsMax: number
}

export type ConnectionOptions = Pick<SinkOptions, 'url' | 'user' | 'password' | 'connectTimeoutMs'> & (WriterOptions | ReaderOptions)

export interface TlsFiles {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** Beside the inserts of rows: the registries, and the retention. */
const otherConnections = 2
const connectingAtOnce = 4
/** The server gives up waiting for its members before we give up waiting for the server. */
const writeConcernShare = 0.8
const closeMsMax = 1_000
/** What a server has, beyond the time that a question may take, to say that it took too long. */
const answerMsMax = 2_000
/** The driver's own time-out comes before ours, where it comes. */
const silenceMs = 1_000

/**
 * Loads the driver. The server need not be there: it is connected when it is first needed, and anew whenever that is.
 *
 * Writes are not repeated by the driver (`retryWrites`): rows are keyed, so the pipeline repeats what failed; and a server alone knows no
 * transaction numbers, and answers with code 20.
 *
 * @param applicationName by which the server's log and `currentOp` name us
 * @param tls PEM; any of them switches TLS on
 * @throws SinkError (systemic) where the URL cannot be used
 */
export async function openConnection(options: ConnectionOptions, applicationName: string, tls: TlsFiles = {}): Promise<Connection> {
  const [fault] = urlFaults(options.url)
  if (fault !== undefined) throw new SinkError('systemic', `${named('store.url', 'SVC_DOCUMENT_URL')}: ${fault.problem}`)
  const { MongoClient } = await import('mongodb')
  const DocumentSequence = await loadDocumentSequence()
  function newClient(): InstanceType<typeof MongoClient> {
    try {
      const made = new MongoClient(options.url, clientOptions(options, applicationName, tls))
      // The pool and the topology say on events what the operations throw, too.
      return made.on('error', () => undefined)
    } catch (error) {
      throw new SinkError('systemic', `${named('store.url', 'SVC_DOCUMENT_URL')} cannot be used: ${withoutSecrets(error, options)}`)
    }
  }
  let client = newClient()
  let connecting: Promise<unknown> | undefined

  /** A client whose first connecting has failed says for ever that it is closed: the next call has another one. */
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
  const answerLimitMs = requestTimeoutOf(options) + silenceMs

  function command(document: Document, signal?: AbortSignal): Promise<Document> {
    return withAnswerLimit(answerLimitMs, signal, ending => client.db().command(document, { signal: ending }))
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
      // It says goodbye to the server, which may not be listening.
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

/** Of rows; who writes none has the default. */
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

/** A section of the wire protocol's OP_MSG: the elements of one field of a command, in BSON, sent as they are. */
interface DocumentSequence {
  push(document: object, bytes: Uint8Array): void
}

/**
 * The driver uses it for its own inserts and does not export it: through what it exports, each row would have to be an object, which it serialises
 * anew, and reads keys of payloads as its own (`_bsontype`).
 */
async function loadDocumentSequence(): Promise<new (field: string) => DocumentSequence> {
  const path = 'mongodb/lib/cmap/commands.js'
  const commands = (await import(path)) as { DocumentSequence?: new (field: string) => DocumentSequence }
  if (commands.DocumentSequence === undefined) {
    throw new SinkError('systemic', 'the installed version of the package mongodb is another than package.json names: run npm ci')
  }
  return commands.DocumentSequence
}

/** The driver quotes what it cannot read. */
function withoutSecrets(error: unknown, { url, password }: ConnectionOptions): string {
  let text = error instanceof Error ? error.message : String(error)
  const credentials = /\/\/([^/?#]*)@/.exec(url)?.[1]
  for (const secret of [url, credentials, credentials?.slice(credentials.indexOf(':') + 1), password]) {
    if (secret !== undefined && secret !== '') text = text.replaceAll(secret, '…')
  }
  return text
}
