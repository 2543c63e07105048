// The requests of one query, which end together when it is answered, aborted or out of time; and what their errors mean.

import type { Answer, Connection } from '../../sinks/influxdb/connection.ts'
import { classify, ResponseError } from '../../sinks/influxdb/errors.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../reader.ts'
import { tookTooLong, withinTimeLimit } from '../time-limit.ts'
import type { Densities } from './windows.ts'

/** Sends the requests of one query. */
export interface Session {
  readonly bucket: string
  /** @throws the reason for which the query ended */
  query(flux: string): Answer
  readonly densities: Densities
}

/** What all queries of a reader share. */
export interface SessionParts {
  readonly connection: Connection
  /** One for all queries of a reader. */
  readonly densities: Densities
  readonly queryTimeoutMs: number
  /** After a query has taken too long, a server that answers nothing for this long is considered down rather than busy. */
  readonly lifeSignMs: number
}

/**
 * @param work when its promise settles, its requests end
 * @throws the signal's reason; StoreUnavailableError, QueryTooLargeError; errors of the configuration as the sink throws them
 */
export async function withSession<Result>(
  { connection, densities, queryTimeoutMs, lifeSignMs }: SessionParts,
  signal: AbortSignal,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  const expired = (cause: unknown): Promise<Error> => tooLong({ connection, queryTimeoutMs, lifeSignMs }, cause)
  return await withinTimeLimit(signal, { timeoutMs: queryTimeoutMs, expired, explain: readError }, limit =>
    work({
      bucket: connection.bucket,
      densities,
      query(flux) {
        limit.signal.throwIfAborted()
        return connection.query(flux, limit.signal)
      },
    }),
  )
}

async function tooLong({ connection, queryTimeoutMs, lifeSignMs }: Omit<SessionParts, 'densities'>, cause: unknown): Promise<Error> {
  return (await connection.isAlive(AbortSignal.timeout(lifeSignMs)))
    ? tookTooLong(cause)
    : new StoreUnavailableError(`the store cannot answer now: InfluxDB has not answered for ${queryTimeoutMs} ms`, { cause })
}

/** Matches errors of a query that exceeded a limit of the server. */
const needsMore = /\bmemory\b|\bquota\b|\btoo (large|many)\b/i

function readError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  if (error instanceof ResponseError && error.status === 404 && error.said.includes('bucket')) {
    return new StoreUnavailableError('the store has no bucket of this name: start a writer on it, which creates it', { cause: error })
  }
  // An error in the middle of an answer.
  if (error.message.startsWith('InfluxDB aborted a query')) {
    return needsMore.test(error.message)
      ? new QueryTooLargeError('the query exceeds the memory limit of the store: narrow it with name, publisher, from or to', {
          cause: error,
        })
      : new StoreUnavailableError(`the store cannot answer now: ${error.message}`, { cause: error })
  }
  if (classify(error) === 'transient') return new StoreUnavailableError(`the store cannot answer now: ${error.message}`, { cause: error })
  return error
}
