// The database interface for a PostgreSQL server: a pool of `pg` connections, COPY by `pg-copy-streams`.

import type { Socket } from 'node:net'
import { finished } from 'node:stream/promises'
import type { ClientBase, PoolClient } from 'pg'
import { unlessAborted } from '../config/aborting.ts'
import { type Database, DatabaseError, type SqlRow, type SqlValue, type Transaction } from './database.ts'
import { exchange } from './exchange.ts'
import { abortedTransaction, toDatabaseError } from './failure.ts'
import { oneAtATime, openGate } from './mutex.ts'
import { openPrepared } from './prepared.ts'
import { encodeValue, parserOf } from './values.ts'

export interface ServerOptions {
  /** `postgres://user:password@host:port/database?sslmode=…`; never logged. */
  url: string
  /** Shown in pg_stat_activity. A writer that releases a stuck lock searches for it, so it must be unique per writer. */
  applicationName: string
  connectionsMax: number
  /** How long to wait for a connection: for a new one, or for one in use to become free. */
  connectTimeoutMs?: number
  /** How long a statement waits for a lock before it fails with 55P03; 0, the default, means no limit. */
  lockTimeoutMs?: number
  /**
   * How long a statement may run before the server cancels it (57014); 0, the default, means no limit. A connection without an answer
   * for 5 s longer is treated as half-open and destroyed, and the caller gets a failed connection. The server likewise closes a connection
   * whose transaction is idle for that long (25P03): its client may be gone, and its locks block others.
   */
  statementTimeoutMs?: number
  /**
   * For queries whose cost depends on their values: a repeated text is prepared once on each connection (`prepared.ts`), each query is
   * planned for its values, and JIT compilation is off, since compiling takes longer than the query.
   */
  plansEach?: boolean
  /**
   * For queries that cost about the same for all values: a repeated text is prepared once on each connection, and the server
   * chooses between a custom and a generic plan. JIT compilation is off as well.
   */
  prepares?: boolean
  /** The server cancels a statement within a second after its connection was dropped, even while it has nothing to send. */
  watchesClients?: boolean
  /** Called for connections that broke while idle. Errors of connections in use go to their caller. */
  onConnectionLost?: (error: Error) => void
}

/** Broken connections, which do not return to the pool. */
const spent = new WeakSet<ClientBase>()
/** How much longer than its statement timeout a connection may stay silent, to allow for the network. */
const answerGraceMs = 5_000
/**
 * Detects a vanished server while waiting for its answer: after 10 s, ten probes are sent, one each second (libuv's interval). The server does the same
 * (its default is two hours): it has no other time limit for a client that vanished within a COPY, and would keep the locks.
 */
const keepAliveInitialDelayMs = 10_000

/**
 * Opens a pool. It connects on first use, so that a process can start before its database and retry.
 *
 * @throws Error if the URL is malformed; the message does not contain it, because of the password
 */
export async function openServer(options: ServerOptions): Promise<Database> {
  const { default: pg } = await import('pg')
  const { from: copyFrom } = await import('pg-copy-streams')
  const {
    lockTimeoutMs = 0,
    statementTimeoutMs = 0,
    connectTimeoutMs = 10_000,
    watchesClients = false,
    plansEach = false,
    prepares = plansEach,
  } = options
  const where = locationOf(options.url)
  const gate = openGate(where)
  const prepared = prepares ? openPrepared() : undefined
  /** How long an answer may take; 0 means no limit. */
  const answerMsMax = statementTimeoutMs === 0 ? 0 : statementTimeoutMs + answerGraceMs
  const settings = `SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'; SET extra_float_digits = 1;
    SET lock_timeout = ${lockTimeoutMs}; SET statement_timeout = ${statementTimeoutMs}; SET idle_in_transaction_session_timeout = ${answerMsMax};
    SET tcp_keepalives_idle = ${keepAliveInitialDelayMs / 1000}; SET tcp_keepalives_interval = 1${watchesClients ? '; SET client_connection_check_interval = 1000' : ''}
    ${plansEach ? "; SET plan_cache_mode = 'force_custom_plan'" : ''}${prepares ? '; SET jit = off' : ''}`
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.connectionsMax,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveInitialDelayMs,
    types: { getTypeParser: (typeId: number) => parserOf(typeId) },
    // With SET instead of the startup packet, which PgBouncer rejects. Times and bytes then have the same text form with both drivers.
    // The pool's own time limit is shorter.
    // oxlint-disable-next-line typescript/no-misused-promises -- pg-pool awaits it, which its types do not say.
    onConnect: client => ask(client, () => client.query(settings), connectTimeoutMs),
  })
  pool.on('error', error => options.onConnectionLost?.(toDatabaseError(error, where)))
  // The pool only handles errors of idle connections, and an unhandled 'error' event would end the process. A connection in use
  // also reports the error to the waiting statement.
  pool.on('connect', client => client.on('error', () => undefined))

  /** One exchange with the server, with the deadline for silent connections; 0 means none. */
  async function ask<Answer>(client: ClientBase, exchange: () => Promise<Answer>, msMax = answerMsMax): Promise<Answer> {
    const deadline = msMax === 0 ? undefined : setTimeout(() => dropClient(client), msMax)
    try {
      return await exchange()
    } catch (error) {
      const failure = toDatabaseError(error, where)
      if (!(failure instanceof DatabaseError) || lostWith(failure)) spent.add(client)
      throw failure
    } finally {
      clearTimeout(deadline)
    }
  }

  async function connect(signal?: AbortSignal): Promise<PoolClient> {
    signal?.throwIfAborted()
    const connecting = pool.connect()
    try {
      return await (signal === undefined ? connecting : unlessAborted(connecting, signal))
    } catch (error) {
      if (signal?.aborted !== true) throw toDatabaseError(error, where)
      // A connection that opens too late returns to the pool.
      connecting.then(client => client.release()).catch(() => undefined)
      throw error
    }
  }

  /** Runs one exchange on a pooled connection, outside an explicit transaction. */
  async function once<Answer>(exchange: (client: PoolClient) => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    const client = await connect(signal)
    try {
      return await breakable(client, signal, () => ask(client, () => exchange(client)))
    } finally {
      client.release(spent.has(client))
    }
  }

  async function rows<Row extends SqlRow>(client: PoolClient, sql: string, values: readonly SqlValue[], name?: string): Promise<Row[]> {
    const encoded = values.map(encodeValue)
    const result = await (name === undefined ? client.query<Row>(sql, encoded) : client.query<Row>({ name, text: sql, values: encoded }))
    return result.rows
  }

  async function query<Row extends SqlRow>(sql: string, values: readonly SqlValue[], signal?: AbortSignal): Promise<Row[]> {
    const name = prepared?.nameOf(sql)
    try {
      return await once(client => rows<Row>(client, sql, values, name), signal)
    } catch (error) {
      if (name === undefined || !prepared!.forgets(sql, error)) throw error
      return await once(client => rows<Row>(client, sql, values), signal)
    }
  }

  function transactionOf(client: PoolClient, turn: ReturnType<typeof oneAtATime>): Transaction {
    return {
      query: (sql, values = []) => turn(() => ask(client, () => rows(client, sql, values))),
      execute: (sql, { unhurried = false } = {}) =>
        turn(() => ask(client, async () => void (await client.query(sql)), unhurried ? 0 : answerMsMax)),
      copy: (target, binary) =>
        turn(() =>
          ask(client, async () => {
            const stream = client.query(copyFrom(`COPY ${target} FROM STDIN (FORMAT binary)`))
            // In one chunk: after an error the stream keeps writing its remaining chunks to a connection that it has already
            // released, and the resulting TypeError in a socket event would end the process.
            stream.end(binary)
            await finished(stream)
            return stream.rowCount
          }),
        ),
    }
  }

  async function transaction<Result>(work: (transaction: Transaction) => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const client = await connect(signal)
    return breakable(client, signal, () => transactionOn(client, work))
  }

  async function transactionOn<Result>(client: PoolClient, work: (transaction: Transaction) => Promise<Result>): Promise<Result> {
    const turn = oneAtATime()
    let settled = false
    try {
      await ask(client, () => client.query('BEGIN'))
      let result: Result
      try {
        result = await work(transactionOf(client, turn))
      } catch (error) {
        await turn.end()
        // If the rollback fails, the original error matters more: the connection is dropped below, and the server rolls back.
        settled = await ask(client, () => client.query('ROLLBACK'), answerGraceMs).then(
          () => true,
          () => false,
        )
        throw error
      }
      await turn.end()
      const committed = await ask(client, () => client.query('COMMIT'))
      settled = true
      if (committed.command !== 'COMMIT') throw abortedTransaction()
      return result
    } finally {
      client.release(!settled || spent.has(client))
    }
  }

  return {
    kind: 'server',
    connectionsMax: options.connectionsMax,
    query: (sql, values = [], { signal } = {}) => gate.pass(() => query(sql, values, signal)),
    execute: sql => gate.pass(() => once(async client => void (await client.query(sql)))),
    run: (steps, signal) => gate.pass(() => once(client => exchange(client, steps), signal)),
    transaction: (work, signal) => gate.pass(() => transaction(work, signal)),
    close: () => gate.close(() => pool.end()),
  }
}

/**
 * True if the connection is no longer usable: it failed, the server is closing it (57P01 to 57P05; 25P03 for an idle transaction), or the server
 * has become a standby (25006) and the same name may now lead to another one.
 */
function lostWith({ sqlState }: DatabaseError): boolean {
  return sqlState === '' || sqlState === '25006' || sqlState === '25P03' || sqlState.startsWith('57P')
}

/** Drops a connection; pending calls on it fail with the error. The socket is internal to pg, so its types do not show it. */
function dropClient(client: ClientBase, reason = 'no answer in time'): void {
  spent.add(client)
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
  stream.destroy(new Error(reason))
}

/** Runs work on a connection that is dropped when the signal aborts; the signal's reason is then thrown. */
async function breakable<Result>(client: PoolClient, signal: AbortSignal | undefined, work: () => Promise<Result>): Promise<Result> {
  if (signal === undefined) return await work()
  const onAbort = (): void => dropClient(client, 'aborted')
  signal.addEventListener('abort', onAbort)
  try {
    return await work()
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** The server for error messages, without its password. */
export function locationOf(url: string): string {
  if (!URL.canParse(url))
    throw new Error('the URL of the PostgreSQL server is malformed: write postgres://user:password@host:port/database')
  const { hostname, port, pathname } = new URL(url)
  return `PostgreSQL at ${hostname || 'its local socket'}:${port || 5432}${pathname}`
}
