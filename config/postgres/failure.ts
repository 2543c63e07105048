// Makes one DatabaseError of what the drivers throw, so that nobody above the port looks at a driver's error.

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
 * failed connection is tried again, and no retry mends a defect; everything else with an empty SQLSTATE, as a failed connection
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
  return new DatabaseError(`the connection to ${connection} failed: ${reasonOf(error)}`, { sqlState: '', cause: error })
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
