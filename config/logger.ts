// The log: structured lines on standard error, readable ones on a terminal, and a net that keeps secrets out of both.

import { createRequire } from 'node:module'
import type { Writable } from 'node:stream'
import { type DestinationStream, destination, type Logger, pino } from 'pino'
import type pinoPretty from 'pino-pretty'
import { type Static, Type } from 'typebox'

export type { Logger } from 'pino'

export const loggingOptions = Type.Object({
  level: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    default: 'info',
    description: 'Least level of a line that is logged.',
  }),
  format: Type.Enum(['auto', 'json', 'pretty'], {
    default: 'auto',
    description: 'Form of the lines on standard error; auto is pretty on a terminal and json elsewhere.',
  }),
})

export type LoggingOptions = Static<typeof loggingOptions>

/** Fields that are never printed, wherever they stand in the first two levels of a line. No line should hold them: this is the net below. */
const secretFields = ['authorization', 'cookie', 'password', 'token', 'key', 'secret', 'payload']
const secretPaths = secretFields.flatMap(field => [field, `*.${field}`, `*.*.${field}`])

interface LoggedError {
  type: string
  message: string
  stack?: string
  code?: string
  cause?: LoggedError
}

/** What a log line says of an error: a driver's own properties may hold rows, so none is copied but the code. */
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
 * The one logger of a process; parts get it, or a child of it, as a parameter. Lines are written before the call returns, so
 * that the last one before an exit is not lost; there is none per message that would make this slow.
 *
 * @param options `pretty` is decided by the caller: `format` and whether standard error is a terminal
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

/** The log of a process as its options say. */
export function openLogger(options: LoggingOptions): Logger {
  return createLogger({ level: options.level, pretty: isPretty(options) })
}

/** Whether the lines are for a person at a terminal, and not JSON. */
export function isPretty({ format }: LoggingOptions): boolean {
  return format === 'pretty' || (format === 'auto' && process.stderr.isTTY)
}

/** Says as JSON, whatever the level of the log, why a process ends. */
export function logLastLine(error: unknown, { withStack }: { readonly withStack: boolean }): void {
  const described = describeError(error)
  const code = codeOf(error)
  const err = withStack ? described : { type: described.type, ...(code === undefined ? {} : { code }) }
  createLogger({ level: 'fatal', pretty: false })
    .child({}, { serializers: { err: (one: unknown) => one } })
    .fatal({ err }, described.message)
}

/** The code that a server, a driver or the system gave: of the error, or of what caused it. */
export function codeOf(error: unknown): string | undefined {
  // Bounded, since an error may be its own cause.
  for (let one = error, depth = 0; one instanceof Error && depth < 8; one = one.cause, depth++) {
    const { sqlState, code, status } = one as { sqlState?: unknown; code?: unknown; status?: unknown }
    for (const found of [sqlState, code, status]) {
      if (typeof found === 'string' && found !== '') return found
      if (typeof found === 'number') return String(found)
    }
  }
  return undefined
}

/** Loaded only where a person reads: it costs 30 ms of a start. */
function prettyStream(stream: Writable | undefined): DestinationStream {
  const require = createRequire(import.meta.url)
  const pretty = require('pino-pretty') as typeof pinoPretty
  return pretty({ colorize: stream === undefined, sync: true, destination: stream ?? 2, translateTime: 'SYS:HH:MM:ss.l' })
}
