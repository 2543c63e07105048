// Converts the drivers' errors into DatabaseError, so that no caller has to know a driver.

import { isTlsFault } from '../config/tls-fault.ts'
import { DatabaseError, isTransient } from './database.ts'

/** The fields of an ErrorResponse (PostgreSQL manual, "Error and Notice Message Fields") as both drivers give them. */
interface ErrorResponse extends Error {
  severity: string
  code: string
  detail?: string
  where?: string
  constraint?: string
}

/**
 * @param connection the server without its password: `PostgreSQL at 127.0.0.1:5432/sluice`
 * @returns a DatabaseError unchanged; a server's error with its SQLSTATE; a bug (TypeError, RangeError …) unchanged, because failed
 * connections are retried and a retry does not fix a bug; a login that the driver finds impossible with a SQLSTATE of class 28;
 * everything else as a failed connection, with an empty SQLSTATE
 */
export function toDatabaseError(error: unknown, connection: string): DatabaseError | Defect {
  if (error instanceof DatabaseError || isDefect(error)) return error
  if (isErrorResponse(error)) {
    return new DatabaseError(error.message, {
      sqlState: error.code,
      // After an interrupted COPY the line only says how far it got, so no row is at fault; line 0 is the header.
      line: isTransient(error.code) ? undefined : copyLine(error.where) || undefined,
      detail: error.detail ?? '',
      constraint: error.constraint ?? '',
      cause: error,
    })
  }
  const refusal = refusalOf(error)
  const reason = `the connection to ${connection} failed: ${refusal?.reason ?? reasonOf(error)}`
  return new DatabaseError(reason, { sqlState: refusal?.sqlState ?? '', cause: error })
}

/**
 * Permanent login faults that the driver finds before the server has sent a SQLSTATE. They get the SQLSTATE that
 * servers use for them, of class 28 (invalid authorization).
 */
function refusalOf(error: unknown): { sqlState: string; reason: string } | undefined {
  const { message, code } = error as { message?: unknown; code?: unknown }
  if (typeof message !== 'string') return undefined
  if (/^SASL: .*client password must be /.test(message))
    return { sqlState: '28P01', reason: 'the server requires a password, and the URL has none' }
  if (message.startsWith('SASL: ')) return { sqlState: '28000', reason: message }
  if (message === 'The server does not support SSL connections') {
    return { sqlState: '28000', reason: 'the server does not support TLS: remove sslmode from the URL, or enable TLS on the server' }
  }
  if (isTlsFault(code)) return { sqlState: '28000', reason: `TLS: ${message} (${code})` }
  return undefined
}

/**
 * The row at which a COPY failed, from the error's context `COPY messages, line 3, column time`.
 * The last match counts, because a table's name may look like such a line.
 */
export function copyLine(where: string | undefined): number | undefined {
  const line = /^COPY .*, line (\d+)(?:, column .*)?$/m.exec(where ?? '')?.[1]
  return line === undefined ? undefined : Number(line)
}

/** If `work` swallows the error of a statement, COMMIT rolls back, and PostgreSQL does not report that as an error. */
export function abortedTransaction(): DatabaseError {
  return new DatabaseError('the transaction was rolled back at its commit, because a statement in it had failed', {
    sqlState: '25P02',
    cause: undefined,
  })
}

/** Errors that JavaScript and Node.js throw on a bug: an undefined parameter, an invalid port. */
type Defect = TypeError | RangeError | ReferenceError | SyntaxError | URIError

function isDefect(error: unknown): error is Defect {
  return [TypeError, RangeError, ReferenceError, SyntaxError, URIError].some(kind => error instanceof kind)
}

function isErrorResponse(error: unknown): error is ErrorResponse {
  // A socket's error has a `code` too (ECONNREFUSED), but no severity.
  return (
    error instanceof Error && 'severity' in error && typeof error.severity === 'string' && 'code' in error && typeof error.code === 'string'
  )
}

/** For a host with several addresses Node.js throws an AggregateError, whose own message is empty. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}
