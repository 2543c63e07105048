// The port over a PostgreSQL server: a pool of `pg` connections, COPY by `pg-copy-streams`.

import type { Socket } from 'node:net'
import { finished } from 'node:stream/promises'
import type { ClientBase, PoolClient } from 'pg'
import { unlessAborted } from '../aborting.ts'
import { type Database, DatabaseError, type SqlRow, type SqlValue, type Transaction } from './database.ts'
import { exchange } from './exchange.ts'
import { abortedTransaction, toDatabaseError } from './failure.ts'
import { openPrepared } from './prepared.ts'
import { oneAtATime, openGate } from './turns.ts'
import { encodeValue, parserOf } from './values.ts'

export interface ServerOptions {
  /** `postgres://user:password@host:port/database?sslmode=…`; never logged. */
  url: string
  /** What pg_stat_activity shows. A writer that frees a held lock looks for it, so it is distinct for each writer. */
  applicationName: string
  connectionsMax: number
  /** How long to wait for a connection, be it a new one or one that others hold. */
  connectTimeoutMs?: number
  /** How long a statement waits for a lock before it fails with 55P03; 0, the default, is for ever. */
  lockTimeoutMs?: number
  /**
   * How long a statement may run before the server cancels it (57014); 0, the default, is for ever. A connection that says
   * nothing for 5 s longer is taken for half-open and destroyed, which a caller sees as a failed connection. The server does the same with one of ours
   * that leaves a transaction alone for that long (25P03): nobody may be at its other end, and what it has locked is wanted by others.
   */
  statementTimeoutMs?: number
  /**
   * For questions whose cost follows from their values: a text that is asked again is prepared once on each connection (`prepared.ts`), each question is
   * planned for its values, and none is compiled, which takes longer than it.
   */
  plansEach?: boolean
  /**
   * For questions that cost much the same whatever their values are: a text that is asked again is prepared once on each connection, and the server
   * plans it for the values or once for all, as it finds cheaper. None is compiled either.
   */
  prepares?: boolean
  /** A statement whose connection was ended is cancelled by the server within a second, also while it has nothing to send. */
  watchesClients?: boolean
  /** Told of connections that broke while nobody used them. Those in use report to their user. */
  onConnectionLost?: (error: Error) => void
}

/** Connections that are of no more use: the pool does not get them back. */
const spent = new WeakSet<ClientBase>()
/** How much longer than its statement timeout a connection may stay silent: the server's answer needs its time on the way. */
const answerGraceMs = 5_000
/** A peer that vanished is noticed while we wait for its answer: after 10 s, then ten probes, one each second (libuv's interval). */
const keepAliveInitialDelayMs = 10_000

/**
 * Opens a pool. It connects when first used, so that a process can start before its database and retry.
 *
 * @throws Error where the URL cannot be read; the message does not repeat it, since it holds the password
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
  /** How long an answer may take: 0 is for ever. */
  const answerMsMax = statementTimeoutMs === 0 ? 0 : statementTimeoutMs + answerGraceMs
  const settings = `SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'; SET extra_float_digits = 1;
    SET lock_timeout = ${lockTimeoutMs}; SET statement_timeout = ${statementTimeoutMs}; SET idle_in_transaction_session_timeout = ${answerMsMax}${watchesClients ? '; SET client_connection_check_interval = 1000' : ''}
    ${plansEach ? "; SET plan_cache_mode = 'force_custom_plan'" : ''}${prepares ? '; SET jit = off' : ''}`
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.connectionsMax,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveInitialDelayMs,
    types: { getTypeParser: (typeId: number) => parserOf(typeId) },
    // By SET and not in the startup packet, which PgBouncer refuses. Times and bytes then have one text form on both drivers.
    // The pool's own time limit ends before it.
    // oxlint-disable-next-line typescript/no-misused-promises -- pg-pool awaits it, which its types do not say.
    onConnect: client => ask(client, () => client.query(settings), connectTimeoutMs),
  })
  pool.on('error', error => options.onConnectionLost?.(toDatabaseError(error, where)))
  // The pool listens to its idle connections only, and an 'error' event that nobody listens to ends the process. One in use
  // gives the same error to the statement that waits for it.
  pool.on('connect', client => client.on('error', () => undefined))

  /** One exchange with the server, under the deadline for connections that went silent; 0 is none. */
  async function ask<Answer>(client: ClientBase, exchange: () => Promise<Answer>, msMax = answerMsMax): Promise<Answer> {
    const deadline = msMax === 0 ? undefined : setTimeout(() => abandon(client), msMax)
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
      // One that comes too late goes back to the others.
      connecting.then(client => client.release()).catch(() => undefined)
      throw error
    }
  }

  /** Lends a connection for one exchange outside a transaction of ours. */
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
    for (;;) {
      const name = prepared?.nameOf(sql)
      try {
        return await once(client => rows<Row>(client, sql, values, name), signal)
      } catch (error) {
        // More than once where columns changed behind a pooler: another process may have given the next name on this connection already.
        if (name === undefined || !prepared!.forgets(sql, name, error)) throw error
      }
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
            // In one piece: after an error the stream goes on writing the pieces it still has, on a connection it no longer
            // knows, and that TypeError in a socket's event would end the process.
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
        // A rollback that fails is not the news: the connection is dropped below, and the server rolls back.
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
    query: (sql, values = [], { signal } = {}) => gate.pass(() => query(sql, values, signal)),
    execute: sql => gate.pass(() => once(async client => void (await client.query(sql)))),
    run: (steps, signal) => gate.pass(() => once(client => exchange(client, steps), signal)),
    transaction: (work, signal) => gate.pass(() => transaction(work, signal)),
    close: () => gate.close(() => pool.end()),
  }
}

/**
 * True where the connection is of no more use: it failed, the server is ending it (57P01 to 57P05; 25P03, its transaction was left alone), or that server
 * has become a standby (25006) and another one may be behind the same name.
 */
function lostWith({ sqlState }: DatabaseError): boolean {
  return sqlState === '' || sqlState === '25006' || sqlState === '25P03' || sqlState.startsWith('57P')
}

/** Ends a connection: whoever waits on it gets the error. The socket is pg's own, which its types do not show. */
function abandon(client: ClientBase, reason = 'no answer came in time'): void {
  spent.add(client)
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
  stream.destroy(new Error(reason))
}

/** Work on a connection that is ended when the signal aborts; its reason is then what is thrown. */
async function breakable<Result>(client: PoolClient, signal: AbortSignal | undefined, work: () => Promise<Result>): Promise<Result> {
  if (signal === undefined) return await work()
  const onAbort = (): void => abandon(client, 'it was given up')
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

/** The server as errors name it, without its password. */
export function locationOf(url: string): string {
  if (!URL.canParse(url))
    throw new Error('the URL of the PostgreSQL server cannot be read: write postgres://user:password@host:port/database')
  const { hostname, port, pathname } = new URL(url)
  return `PostgreSQL at ${hostname || 'its local socket'}:${port || 5432}${pathname}`
}
