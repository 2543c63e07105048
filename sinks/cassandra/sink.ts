// The Cassandra sink: writes rows whose keys contain their position, by the protocol in README.md.

import { setTimeout as wait } from 'node:timers/promises'
import type { Client, QueryOptions } from 'cassandra-driver'
import { unlessAborted } from '../../config/aborting.ts'
import { eachAtOnce } from '../../config/each-at-once.ts'
import { daysKeptBy } from '../erasure.ts'
import { openFormats } from '../formats.ts'
import { openKeyedReplay } from '../keyed-replay.ts'
import { type KeyedStore, openKeyedSink } from '../keyed-sink.ts'
import { type LogIdentity, openLogRegistry, openLogs, type SinkLogs } from '../logs.ts'
import { resolveFormats } from '../rejections.ts'
import type { ReplaySink } from '../replay.ts'
import type { LogNumbers, Rejection, Sink } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import { type Connection, rowBytesMax } from './connection.ts'
import { dateBytes, type NotedDay, openDayRegistry } from './day-registry.ts'
import { type EncodedBatch, type EncodedRequest, type EncodedRow, type EncodedTable, type Encoding, encode } from './encode.ts'
import { classify, isDataError, isOverload, isSchemaFault } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { formatAdder, openLogTable, openReplays } from './registry.ts'
import { checkStore, checkTables, insertStatement, prepareIndexes, prepareSchema, schemaTable } from './schema.ts'

export { classify } from './errors.ts'

interface CassandraSinkOptions extends SinkLogs {
  /** The caller opens it, and closes it after the sink. */
  readonly connection: Connection
  readonly options: SinkOptions
  /** Called with a sentence for each permission that the role lacks, with what to do; the sink works all the same. */
  readonly onNotice?: (sentence: string) => void
}

type CassandraReplayOptions = Pick<CassandraSinkOptions, 'connection' | 'options' | 'onNotice'> & { readonly logNumber: number }

/**
 * A table that another process has just created is listed in system_schema before its node accepts statements for it, and other nodes get it even
 * later. The sink waits for it for up to ten seconds.
 */
const settlingMs = 250
const settlingAttempts = 40

/**
 * Opens a sink: creates the keyspace and the missing tables, and checks the logs.
 *
 * @throws SinkError (systemic) if the store belongs to another writer or to another log of this name, or has another schema
 * @throws the driver's errors; `classify` says what they mean
 */
export async function openSink({ connection, options, onNotice, logs }: CassandraSinkOptions): Promise<Sink<EncodedBatch>> {
  const notice = noticeOnce(onNotice)
  const opened = await prepare(connection, options, logs, notice)
  return openKeyedSink(await openStore(connection, options, opened.logNumbers, notice), opened)
}

/**
 * Opens a sink for replays, which creates and registers nothing.
 *
 * @throws SinkError (systemic) if the keyspace is not a store of this version
 * @throws the driver's errors
 */
export async function openReplaySink({ connection, options, logNumber, onNotice }: CassandraReplayOptions): Promise<ReplaySink> {
  try {
    await checkStore(connection, options)
  } catch (error) {
    throw connection.explain(error)
  }
  const store = await openStore(connection, options, [logNumber], noticeOnce(onNotice))
  return openKeyedReplay(store, openReplays(connection), logNumber)
}

async function openStore(
  connection: Connection,
  options: SinkOptions,
  logNumbers: LogNumbers,
  notice: (sentence: string) => void,
): Promise<KeyedStore<EncodedBatch>> {
  const formats = openFormats(formatAdder(connection, options, notice))
  const dayRegistry = openDayRegistry({ keptDays: daysKeptBy(options), bucketDays: options.bucketDays })
  const inFlight = new InFlight(options.requestsInFlightMax)
  const encoding: Encoding = {
    logNumbers,
    bucketDays: options.bucketDays,
    dayRegistry,
    insert: format => insertStatement(connection.keyspace, format),
    unset: connection.unset,
    rowBytesMax: await rowBytesMax(connection),
  }
  const writer = async (signal: AbortSignal): Promise<RowWriter> =>
    openRowWriter(connection, await unlessAborted(connection.client(), signal), inFlight, signal)
  return {
    encode: batch => encode(batch, encoding),

    /** Creates the tables of the batch's formats, and rejects messages whose format gets none. */
    async prepare(encoded, signal) {
      await resolveFormats(
        formats,
        encoded,
        encoded.tables.map(table => ({ format: table.format, channels: table.channels, messages: messagesOf(table) })),
        signal,
      )
    },

    /** Days first: a day that has rows must always be listed. */
    async insert({ tables, days: noted, rejected }, _prepared, signal) {
      const rows = await writer(signal)
      const unwritten = dayRegistry.unwritten(noted)
      await rows.execute(dayStatements(connection, unwritten))
      for (const rejection of await rows.insert(tables, rejected)) rejected.set(rejection.message, rejection)
      dayRegistry.remember(unwritten)
      return undefined
    },

    async failed(error, attempt, signal) {
      // The failure may come from something cached.
      dayRegistry.forget()
      formats.forget()
      if (!isSchemaFault(error) || attempt > settlingAttempts) throw connection.explain(error)
      await unlessAborted(checkTables(connection), signal)
      // All of sluice's own tables exist. So the table of a format is missing, and is created again, or was created just now.
      if (attempt > 1) await wait(settlingMs, undefined, { signal })
    },
    classify,
  }
}

function messagesOf({ requests }: EncodedTable): Iterable<number> {
  return {
    *[Symbol.iterator]() {
      for (const request of requests) for (const { message } of request) yield message
    },
  }
}

async function prepare(
  connection: Connection,
  options: SinkOptions,
  logs: readonly LogIdentity[],
  notice: (sentence: string) => void,
): ReturnType<typeof openLogs> {
  const registry = openLogRegistry(openLogTable(connection))
  for (let attempt = 1; ; attempt++) {
    try {
      await prepareSchema(connection, options)
      const unindexed = options.publisherIndex ? await prepareIndexes(connection) : undefined
      if (unindexed !== undefined) notice(unindexed)
      return await openLogs(logs, registry)
    } catch (error) {
      if (!isSchemaFault(error) || attempt > settlingAttempts) throw connection.explain(error)
      await wait(settlingMs)
    }
  }
}

function noticeOnce(onNotice: ((sentence: string) => void) | undefined): (sentence: string) => void {
  const said = new Set<string>()
  return sentence => {
    if (said.has(sentence)) return
    said.add(sentence)
    onNotice?.(sentence)
  }
}

/** Includes days whose only rows are refused: a reader finds them empty. */
function dayStatements(connection: Connection, days: readonly NotedDay[]): Statement[] {
  if (days.length === 0) return []
  const channelInsert = `INSERT INTO ${connection.table('sluice_channel_days')} (channel, format, day) VALUES (?, ?, ?)`
  const publisherInsert = `INSERT INTO ${connection.table('sluice_publisher_days')} (channel, publisher, format, day) VALUES (?, ?, ?, ?)`
  const statements: Statement[] = []
  let last: NotedDay | undefined
  for (const noted of days) {
    const { channel, publisher, format, day } = noted
    const bytes = dateBytes(day)
    // Skips most duplicates, since rows of one channel usually follow each other. The remaining ones do no harm.
    if (last?.channel !== channel || last.format !== format || last.day !== day)
      statements.push({ query: channelInsert, params: [channel, format, bytes] })
    statements.push({ query: publisherInsert, params: [channel, publisher, format, bytes] })
    last = noted
  }
  return statements
}

interface RowWriter {
  /**
   * Sends the requests of these tables, without the rows of rejected messages. Returns a rejection for each message with a row that the server
   * refuses; all rows of the others are durable.
   *
   * @throws SinkError (systemic) if the server refuses every row, whatever its content
   */
  insert(tables: readonly EncodedTable[], rejected: ReadonlyMap<number, Rejection>): Promise<readonly Rejection[]>
  /** Runs independent statements, each with its values. */
  execute(statements: readonly Statement[]): Promise<void>
}

interface Statement {
  readonly query: string
  readonly params: unknown[]
}

const options: QueryOptions = { prepare: true, isIdempotent: true, logged: false }

/** Fewer in flight would not keep a healthy node busy, and so few do not overload one. */
const fewestInFlight = 4
/** For each request that may be in flight. */
const answersToDouble = 16

/**
 * The limit of requests in flight, at first that of the option. An overload (a time-out, or an answer that says so) halves it. After
 * `answersToDouble` good answers for each request that it allows, it doubles again, up to the option.
 */
export class InFlight {
  readonly most: number
  limit: number
  #answers = 0

  constructor(most: number) {
    this.most = most
    this.limit = most
  }

  answered(): void {
    if (this.limit === this.most || ++this.#answers < this.limit * answersToDouble) return
    this.limit = Math.min(this.most, this.limit * 2)
    this.#answers = 0
  }

  overloaded(): void {
    this.limit = Math.max(Math.min(fewestInFlight, this.most), this.limit >> 1)
    this.#answers = 0
  }
}

export function openRowWriter(connection: Connection, client: Client, inFlight: InFlight, signal: AbortSignal): RowWriter {
  let probing: Promise<void> | undefined

  /** Rejects at once when the signal aborts, and starts nothing more; what is in flight may still be stored. */
  async function sendAll<Item>(items: readonly Item[], send: (item: Item) => Promise<unknown>): Promise<void> {
    const sending = eachAtOnce(items, inFlight.limit, async item => {
      signal.throwIfAborted()
      await send(item)
      inFlight.answered()
    })
    try {
      await unlessAborted(sending, signal)
    } catch (error) {
      if (isOverload(error)) inFlight.overloaded()
      throw error
    }
  }

  /** Writes a row that is surely valid. If the server refuses it too, the refusal of a message's row is not the message's fault. */
  async function probe(): Promise<void> {
    try {
      await client.execute(`INSERT INTO ${connection.table(schemaTable.name)} (name, value) VALUES ('probe', 'a row')`, [], options)
    } catch (error) {
      if (!isDataError(error)) throw error
      const { message } = error as Error
      throw new SinkError('systemic', `Cassandra refuses every row because of a limit: ${message}. Raise this limit of the nodes`, {
        cause: error,
      })
    }
  }

  return {
    async insert(tables, rejected) {
      const requests = tables.flatMap(({ requests }) => without(requests, rejected))
      const refused = new Map<number, Rejection>()

      async function insertRow(row: EncodedRow): Promise<void> {
        // The message is dead-lettered anyway: its other rows need not be sent.
        if (refused.has(row.message)) return
        try {
          await client.execute(row.query, row.params, options)
        } catch (error) {
          if (!isDataError(error)) throw error
          probing ??= probe()
          await probing
          refused.set(row.message, rejectionOf(row, error as Error))
        }
      }

      async function insertRequest(request: EncodedRequest): Promise<void> {
        if (request.length === 1) return insertRow(request[0]!)
        try {
          await client.batch(request as EncodedRow[], options)
        } catch (error) {
          if (!isDataError(error)) throw error
          // The error does not say which row it is about.
          for (const row of request) await insertRow(row)
        }
      }

      await sendAll(requests, insertRequest)
      return markPartial(refused, requests)
    },
    execute: statements => sendAll(statements, ({ query, params }) => client.execute(query, params, options)),
  }
}

/** A refused message with other rows may have some of them in the store: from this attempt, or from an earlier one whose answer never came. */
function markPartial(refused: ReadonlyMap<number, Rejection>, requests: readonly EncodedRequest[]): Rejection[] {
  if (refused.size === 0) return []
  const several = new Set<number>()
  for (const request of requests) {
    for (const { message, record } of request) {
      const rejection = refused.get(message)
      if (rejection !== undefined && rejection.record !== record) several.add(message)
    }
  }
  return [...refused.values()].map(rejection => (several.has(rejection.message) ? { ...rejection, partial: true } : rejection))
}

function without(requests: readonly EncodedRequest[], rejected: ReadonlyMap<number, Rejection>): readonly EncodedRequest[] {
  if (rejected.size === 0) return requests
  return requests.map(request => request.filter(row => !rejected.has(row.message))).filter(request => request.length > 0)
}

function rejectionOf({ message, record }: EncodedRow, error: Error): Rejection {
  const { code } = error as { code?: unknown }
  const by = error.name === 'ResponseError' ? `Cassandra refused it (0x${Number(code).toString(16)})` : 'it cannot be encoded for Cassandra'
  return { message, record, rule: 'store-refused', reason: `${by}: ${error.message}` }
}
