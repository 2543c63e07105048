// Makes one DatabaseError of what the drivers throw, so that nobody above the port looks at a driver's error.

import { isTlsFault } from '../tls-fault.ts'
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
 * @param connection what was asked, without its password: `PostgreSQL at 127.0.0.1:5432/sluice`
 * @returns DatabaseError as it is; what the server answered with its SQLSTATE; a defect (TypeError, RangeError …) as it is, since a
 * failed connection is tried again, and no retry mends a defect; a login that the driver finds impossible with a SQLSTATE of class 28;
 * everything else with an empty SQLSTATE, as a failed connection
 */
export function toDatabaseError(error: unknown, connection: string): DatabaseError | Defect {
  if (error instanceof DatabaseError || isDefect(error)) return error
  if (isErrorResponse(error)) {
    return new DatabaseError(error.message, {
      sqlState: error.code,
      // A COPY that was cut off tells how far it came, which is nobody's fault; and line 0 is the header.
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
 * Faults that the driver finds before the server has said anything with a SQLSTATE, and that no retry changes: they get the SQLSTATE that
 * servers give for them, of the class 28 (invalid authorization).
 */
function refusalOf(error: unknown): { sqlState: string; reason: string } | undefined {
  const { message, code } = error as { message?: unknown; code?: unknown }
  if (typeof message !== 'string') return undefined
  if (/^SASL: .*client password must be /.test(message))
    return { sqlState: '28P01', reason: 'the server asks for a password, and the URL has none' }
  if (message.startsWith('SASL: ')) return { sqlState: '28000', reason: message }
  if (message === 'The server does not support SSL connections') {
    return { sqlState: '28000', reason: 'the server does not support TLS: leave sslmode out of the URL, or switch TLS on in the server' }
  }
  if (isTlsFault(code)) return { sqlState: '28000', reason: `TLS: ${message} (${code})` }
  return undefined
}

/**
 * The row that a COPY stopped at, from the error's context `COPY messages, line 3, column time`.
 *
 * A table may carry a name that looks like such a line, so it is the last of them that counts.
 */
export function copyLine(where: string | undefined): number | undefined {
  const line = /^COPY .*, line (\d+)(?:, column .*)?$/m.exec(where ?? '')?.[1]
  return line === undefined ? undefined : Number(line)
}

/** A COMMIT after a failed statement that `work` swallowed rolls back, and PostgreSQL does not call that an error. */
export function abortedTransaction(): DatabaseError {
  return new DatabaseError('the transaction was rolled back at its commit, because a statement in it had failed', {
    sqlState: '25P02',
    cause: undefined,
  })
}

/** What the language and Node.js throw where code is wrong: a parameter that is undefined, a port that is none. */
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

/** Node gathers the failures of a name with several addresses in an AggregateError, whose own message is empty. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}
