// The process log: JSON lines on standard error, readable text on a terminal; fields with secrets are redacted in both.

import { createRequire } from 'node:module'
import type { Writable } from 'node:stream'
import { type DestinationStream, destination, type Logger, pino } from 'pino'
import type pinoPretty from 'pino-pretty'
import type { LoggingOptions } from './logging-options.ts'

export type { Logger } from 'pino'

/** Fields that are redacted in the first two levels of a line. No code should log them: this is the safety net. */
const secretFields = ['authorization', 'cookie', 'password', 'token', 'key', 'secret', 'payload']
const secretPaths = secretFields.flatMap(field => [field, `*.${field}`, `*.*.${field}`])

interface LoggedError {
  type: string
  message: string
  stack?: string
  code?: string
  cause?: LoggedError
}

/** An error as logged. Of a driver's own properties only the code is copied: others may hold rows. */
function describeError(error: unknown, depth = 0): LoggedError {
  if (!(error instanceof Error)) return { type: typeof error, message: String(error) }
  const { code, sqlState } = error as { code?: unknown; sqlState?: unknown }
  const shortCode = [sqlState, code].find(value => typeof value === 'string' && value !== '')
  return {
    type: error.name,
    message: error.message,
    ...(depth === 0 && error.stack !== undefined ? { stack: error.stack } : {}),
    ...(shortCode === undefined ? {} : { code: shortCode as string }),
    ...(error.cause === undefined || depth === 4 ? {} : { cause: describeError(error.cause, depth + 1) }),
  }
}

/**
 * The single logger of a process; components take it, or a child of it, as a parameter. Lines are written synchronously, so that
 * the last one before an exit is not lost. That is fast enough, because nothing is logged per message.
 *
 * @param options `pretty` is decided by the caller, from `format` and whether standard error is a terminal
 * @param stream where the lines go; standard error unless a test says otherwise
 */
export function createLogger({ level, pretty }: { level: string; pretty: boolean }, stream?: Writable): Logger {
  return pino(
    {
      level,
      base: null,
      redact: { paths: secretPaths, censor: '***' },
      serializers: { err: describeError, error: describeError },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    pretty ? prettyStream(stream) : (stream ?? destination({ fd: 2, sync: true })),
  )
}

/** Opens the process log with its options. */
export function openLogger(options: LoggingOptions): Logger {
  return createLogger({ level: options.level, pretty: isPretty(options) })
}

/** Whether lines are readable text for a terminal instead of JSON. */
export function isPretty({ format }: LoggingOptions): boolean {
  return format === 'pretty' || (format === 'auto' && process.stderr.isTTY)
}

/** Writes why the process ends, as JSON and at any log level. */
export function logLastLine(error: unknown, { withStack }: { readonly withStack: boolean }): void {
  const described = describeError(error)
  const code = codeOf(error)
  const err = withStack ? described : { type: described.type, ...(code === undefined ? {} : { code }) }
  createLogger({ level: 'fatal', pretty: false })
    .child({}, { serializers: { err: (one: unknown) => one } })
    .fatal({ err }, described.message)
}

/** The code of a server, a driver or the system: of the error itself or of one of its causes. */
export function codeOf(error: unknown): string | undefined {
  // Bounded, because an error can be its own cause.
  for (let one = error, depth = 0; one instanceof Error && depth < 8; one = one.cause, depth++) {
    const { sqlState, code, status } = one as { sqlState?: unknown; code?: unknown; status?: unknown }
    for (const found of [sqlState, code, status]) {
      if (typeof found === 'string' && found !== '') return found
      if (typeof found === 'number') return String(found)
    }
  }
  return undefined
}

/** Loaded only for a terminal: it adds 30 ms to the start. */
function prettyStream(stream: Writable | undefined): DestinationStream {
  const require = createRequire(import.meta.url)
  const pretty = require('pino-pretty') as typeof pinoPretty
  return pretty({ colorize: stream === undefined, sync: true, destination: stream ?? 2, translateTime: 'SYS:HH:MM:ss.l' })
}
