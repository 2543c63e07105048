// The requests of one query, which end together when it is answered, aborted or out of time; what their errors mean; and the boundaries of the
// bucket's shards.
//
// In a request over several shards, the storage returns a field's points only while they have the type that the field has in the first of these
// shards. It silently omits the others.

import type { Answer, Connection } from '../../sinks/influxdb/connection.ts'
import { classify, ResponseError } from '../../sinks/influxdb/errors.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../reader.ts'
import { tookTooLong, withinTimeLimit } from '../time-limit.ts'
import type { Densities, Span } from './windows.ts'

/** Sends the requests of one query. */
export interface Session {
  readonly bucket: string
  /** @throws the reason for which the query ended */
  query(flux: string): Answer
  shards(): Promise<Shards>
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
  let shards: Promise<Shards> | undefined
  const expired = (cause: unknown): Promise<Error> => tooLong({ connection, queryTimeoutMs, lifeSignMs }, cause)
  return await withinTimeLimit(signal, { timeoutMs: queryTimeoutMs, expired, explain: readError }, limit =>
    work({
      bucket: connection.bucket,
      densities,
      query(flux) {
        limit.signal.throwIfAborted()
        return connection.query(flux, limit.signal)
      },
      shards: () => (shards ??= shardsOf(connection, limit.signal)),
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

/** The division of a bucket by time. */
export interface Shards {
  /** The shard that contains this millisecond. */
  at(ms: number): Span
}

interface Bucket {
  readonly name: string
  readonly retentionRules: readonly { readonly shardGroupDurationSeconds?: number }[]
}

/** InfluxDB's default for buckets without retention. */
const usualSeconds = 7 * 86_400
/** The year 1, from which the server counts shards. */
const yearOneMs = -62_135_596_800_000n

/** The shards of the connection's bucket, by its current shard duration. */
export async function shardsOf(connection: Connection, signal: AbortSignal): Promise<Shards> {
  return shardsOfLength((await secondsOf(connection, signal)) ?? usualSeconds)
}

/** @param seconds duration of a shard */
export function shardsOfLength(seconds: number): Shards {
  const lengthMs = seconds * 1000
  const firstMs = Number(yearOneMs % BigInt(lengthMs))
  return {
    at(ms) {
      const startMs = Math.floor((ms - firstMs) / lengthMs) * lengthMs + firstMs
      return { startMs, endMs: startMs + lengthMs }
    },
  }
}

/** undefined if the token may read the bucket's points, but not the bucket itself. */
async function secondsOf(connection: Connection, signal: AbortSignal): Promise<number | undefined> {
  const { org, bucket } = connection
  try {
    const query = { org, name: bucket }
    const { buckets } = await connection.ask<{ buckets: readonly Bucket[] }>('GET', '/api/v2/buckets', query, undefined, signal)
    return buckets.find(({ name }) => name === bucket)?.retentionRules[0]?.shardGroupDurationSeconds
  } catch (error) {
    if (error instanceof ResponseError && (error.status === 401 || error.status === 403 || error.status === 404)) return undefined
    throw error
  }
}
