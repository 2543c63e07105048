// One question in the store: its requests end together, when it is answered, given up, or has taken as long as one may; and what their errors mean.

import type { Answer } from '../../sinks/influxdb/annotated-csv.ts'
import type { Connection } from '../../sinks/influxdb/connection.ts'
import { classify, ResponseError } from '../../sinks/influxdb/errors.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../reader.ts'
import { type Shards, shardsOf } from './shards.ts'

/** What a question asks the store with. */
export interface Asking {
  readonly bucket: string
  /** @throws the reason for which the question has ended */
  query(flux: string): Answer
  shards(): Promise<Shards>
}

/** A server that says nothing for so long, after a question took too long, is away rather than busy. */
const lifeSignMs = 1_000

/**
 * @param work is over when the promise ends, and so are its requests
 * @throws the signal's reason; StoreUnavailableError, QueryTooLargeError; what is wrong with the configuration, in the sink's words
 */
export async function ask<Result>(
  connection: Connection,
  queryTimeoutMs: number,
  signal: AbortSignal,
  work: (asking: Asking) => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted()
  const ended = new AbortController()
  const giveUp = (): void => ended.abort(signal.reason)
  signal.addEventListener('abort', giveUp)
  const timer = setTimeout(() => ended.abort(tookTooLong), queryTimeoutMs)
  let shards: Promise<Shards> | undefined
  try {
    return await work({
      bucket: connection.bucket,
      query(flux) {
        ended.signal.throwIfAborted()
        return connection.query(flux, ended.signal)
      },
      shards: () => (shards ??= shardsOf(connection, ended.signal)),
    })
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw ended.signal.aborted ? await tooLong(connection, queryTimeoutMs, error) : readError(error)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', giveUp)
    ended.abort(answered)
  }
}

const tookTooLong = new Error('the question has taken too long')
const answered = new Error('the question has ended')

async function tooLong(connection: Connection, queryTimeoutMs: number, cause: unknown): Promise<Error> {
  return (await connection.isAlive(AbortSignal.timeout(lifeSignMs)))
    ? new QueryTooLargeError(
        `the store took longer than one question may (${queryTimeoutMs} ms): ask for less by name, publisher, from and to`,
        { cause },
      )
    : new StoreUnavailableError(`the store cannot answer now: InfluxDB has said nothing for ${queryTimeoutMs} ms`, { cause })
}

/** What a query needs more of than the server gives one. */
const needsMore = /\bmemory\b|\bquota\b|\btoo (large|many)\b/i

function readError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  if (error instanceof ResponseError && error.status === 404 && error.said.includes('bucket')) {
    return new StoreUnavailableError('the store has no bucket of this name: start a writer on it, which makes it', { cause: error })
  }
  // Said in the midst of an answer.
  if (error.message.startsWith('InfluxDB has ended a query')) {
    return needsMore.test(error.message)
      ? new QueryTooLargeError('the store has not the memory that the question needs: ask for less by name, publisher, from and to', {
          cause: error,
        })
      : new StoreUnavailableError(`the store cannot answer now: ${error.message}`, { cause: error })
  }
  if (classify(error) === 'transient') return new StoreUnavailableError(`the store cannot answer now: ${error.message}`, { cause: error })
  return error
}
