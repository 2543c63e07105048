// The port to PostgreSQL: a server by `pg`, or the embedded one by PGlite. Sinks, readers and the control plane know this and no driver.

/** int8 comes as bigint, float8 as number, json and jsonb as text, bytea as Uint8Array, timestamps as text, on both drivers. */
export type SqlValue = null | boolean | number | bigint | string | Uint8Array | readonly string[] | readonly number[] | readonly bigint[]
export type SqlRow = Record<string, SqlValue>

export interface Queries {
  /** One statement with $1, $2 …. */
  query<Row extends SqlRow = SqlRow>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>
}

export interface Asking {
  /**
   * Aborting it ends the connection at once, and the signal's reason is thrown; the server ends the statement where
   * `ServerOptions.watchesClients` says so. Embedded, a statement that waits for its turn leaves the queue at once; one under way is waited for.
   */
  readonly signal?: AbortSignal | undefined
  /** Embedded, `reader` waits behind everything else that waits, though not for ever (`openQueue`). To a server it means nothing. */
  readonly priority?: 'reader'
  /** Embedded, called when the turn has come: what follows is the database's work, and no waiting. */
  readonly onTurn?: (() => void) | undefined
}

export interface Transaction extends Queries {
  /**
   * COPYs rows in PostgreSQL's binary format, with its header and trailer. Resolves with the number of rows.
   *
   * @param target table and columns, quoted by the caller: `"messages" ("time", "channel")`
   * @throws DatabaseError whose `line` is the row at fault, from 1, where the server names one
   */
  copy(target: string, binary: Uint8Array): Promise<number>
  /**
   * Several statements without values.
   *
   * @param options unhurried: how long the answer takes says nothing about the connection. The server's own statement timeout is for
   * the statements to put off (`SET LOCAL statement_timeout = 0`)
   */
  execute(sql: string, options?: { readonly unhurried?: boolean }): Promise<void>
}

/** A statement whose rows nobody looks at, or a COPY as of `Transaction.copy`. */
export type Step = { readonly sql: string; readonly values: readonly SqlValue[] } | { readonly target: string; readonly binary: Uint8Array }

export interface Database extends Queries {
  readonly kind: 'server' | 'embedded'
  query<Row extends SqlRow = SqlRow>(sql: string, values?: readonly SqlValue[], asking?: Asking): Promise<Row[]>
  /**
   * One transaction of steps that are known beforehand, in order: the first that fails undoes them all. To a server they go in one
   * exchange, so that it never waits for us between two of them.
   *
   * @param signal aborting it ends the connection at once: what has become of the transaction is then not known
   * @throws DatabaseError of the step that failed; the signal's reason
   */
  run(steps: readonly Step[], signal?: AbortSignal): Promise<void>
  /**
   * BEGIN, `work`, COMMIT; a throw rolls back and is thrown on. On the embedded database one transaction runs at a time, and
   * a `query` of the database itself inside `work` would wait for ever: use the transaction's.
   *
   * @param signal aborting it ends the connection at once, as of `run`; embedded, the statement under way is waited for
   */
  transaction<Result>(work: (transaction: Transaction) => Promise<Result>, signal?: AbortSignal): Promise<Result>
  /** Several statements without values, outside a transaction of ours. */
  execute(sql: string): Promise<void>
  close(): Promise<void>
}

/** What the server or the connection said. */
export class DatabaseError extends Error {
  override readonly name: string = 'DatabaseError'
  /** Five characters where the server answered; empty where the connection failed. */
  readonly sqlState: string
  /** The row at fault in a COPY, from 1; undefined where none is named. */
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

  /** True where the same statement may succeed later: SQLSTATE classes 08 40 53 55 57 58 25, and a connection that failed. */
  get transient(): boolean {
    return isTransient(this.sqlState)
  }
}

/** SQLSTATEs of a row that a unique index refuses, and of a statement that took too long. */
export const uniqueViolation = '23505'
export const queryCanceled = '57014'

/** Whether a retry may help, by the SQLSTATE alone; an empty one is a connection that failed. */
export function isTransient(sqlState: string): boolean {
  return sqlState === '' || /^(08|40|53|55|57|58|25)/.test(sqlState)
}
