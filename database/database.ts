// The interface to PostgreSQL, implemented for a server (`pg`) and for the embedded database (PGlite). Sinks, readers and the control plane use it and no driver.

/** int8 comes as bigint, float8 as number, json and jsonb as text, bytea as Uint8Array, timestamps as text, on both drivers. */
export type SqlValue = null | boolean | number | bigint | string | Uint8Array | readonly string[] | readonly number[] | readonly bigint[]
export type SqlRow = Record<string, SqlValue>

export interface Queries {
  /** One statement with $1, $2 …. */
  query<Row extends SqlRow = SqlRow>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>
}

export interface Asking {
  /**
   * Aborting it drops the connection immediately and throws the signal's reason; the server cancels the statement if
   * `ServerOptions.watchesClients` is set. Embedded, a queued statement leaves the queue immediately; a running one is waited for.
   */
  readonly signal?: AbortSignal | undefined
  /** Embedded, `reader` work queues behind all other work, but for a bounded time (`openQueue`). A server ignores it. */
  readonly priority?: 'reader'
  /** Embedded, called when the statement leaves the queue and starts to run. */
  readonly onTurn?: (() => void) | undefined
}

export interface Transaction extends Queries {
  /**
   * COPYs rows in PostgreSQL's binary format, with its header and trailer. Resolves with the number of rows.
   *
   * @param target table and columns, quoted by the caller: `"messages" ("time", "channel")`
   * @throws DatabaseError whose `line` is the rejected row, from 1, if the server names one
   */
  copy(target: string, binary: Uint8Array): Promise<number>
  /**
   * Several statements without values.
   *
   * @param options unhurried: a slow answer does not count as a lost connection. The server's statement timeout still applies, unless the
   * statements switch it off (`SET LOCAL statement_timeout = 0`)
   */
  execute(sql: string, options?: { readonly unhurried?: boolean }): Promise<void>
}

/** A statement whose rows are ignored, or a COPY as in `Transaction.copy`. */
export type Step = { readonly sql: string; readonly values: readonly SqlValue[] } | { readonly target: string; readonly binary: Uint8Array }

export interface Database extends Queries {
  readonly kind: 'server' | 'embedded'
  /** So many statements run at once. */
  readonly connectionsMax: number
  query<Row extends SqlRow = SqlRow>(sql: string, values?: readonly SqlValue[], asking?: Asking): Promise<Row[]>
  /**
   * Runs known steps in order in one transaction; if one fails, all are rolled back. They are sent to a server in one
   * exchange, so that it never waits for us between two steps.
   *
   * @param signal aborting it drops the connection immediately: the outcome of the transaction is then unknown
   * @throws DatabaseError of the step that failed; the signal's reason
   */
  run(steps: readonly Step[], signal?: AbortSignal): Promise<void>
  /**
   * BEGIN, `work`, COMMIT; if `work` throws, rolls back and rethrows. The embedded database runs one transaction at a time, so
   * calling `query` of the database itself inside `work` would deadlock: use the transaction's.
   *
   * @param signal aborting it drops the connection immediately, as in `run`; embedded, the running statement is waited for
   */
  transaction<Result>(work: (transaction: Transaction) => Promise<Result>, signal?: AbortSignal): Promise<Result>
  /** Several statements without values, outside an explicit transaction. */
  execute(sql: string): Promise<void>
  close(): Promise<void>
}

/** An error of the server or of the connection. */
export class DatabaseError extends Error {
  override readonly name: string = 'DatabaseError'
  /** Five characters if the server answered; empty if the connection failed. */
  readonly sqlState: string
  /** The rejected row of a COPY, from 1; undefined if unknown. */
  readonly line: number | undefined
  readonly detail: string
  /** The constraint that was violated, else empty. */
  readonly constraint: string

  constructor(
    message: string,
    fields: { sqlState: string; line?: number | undefined; detail?: string; constraint?: string; cause: unknown },
  ) {
    super(message, { cause: fields.cause })
    this.sqlState = fields.sqlState
    this.line = fields.line
    this.detail = fields.detail ?? ''
    this.constraint = fields.constraint ?? ''
  }

  /** True if the same statement may succeed later: SQLSTATE classes 08 40 53 55 57 58 25, and a connection that failed. */
  get transient(): boolean {
    return isTransient(this.sqlState)
  }
}

/** SQLSTATEs of a row that violates a unique index, and of a statement that took too long. */
export const uniqueViolation = '23505'
export const queryCanceled = '57014'

/** Whether a retry may help, by the SQLSTATE alone; an empty one means a failed connection. */
export function isTransient(sqlState: string): boolean {
  return sqlState === '' || /^(08|40|53|55|57|58|25)/.test(sqlState)
}
