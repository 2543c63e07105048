// The requests of one query, until its caller goes away or its time is over. A request that is in flight then is left alone, since the protocol
// cannot cancel it; it reads a page at most.

import { unlessAborted } from '../../config/aborting.ts'
import type { Row as Columns, Connection } from '../../sinks/cassandra/connection.ts'
import { classify, isSchemaFault } from '../../sinks/cassandra/errors.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../reader.ts'
import { tookTooLong, withinTimeLimit } from '../time-limit.ts'
import type { Statement } from './select.ts'

/** Which page of a statement to return. */
export interface Paging {
  /** Most rows of this page. */
  readonly rows: number
  /** Where the previous page ended. */
  readonly from?: string | undefined
}

/** A page of rows. */
export interface FoundPage {
  readonly rows: readonly Columns[]
  /** Where the next page begins; undefined after the last. */
  readonly next: string | undefined
}

/**
 * Sends one request.
 *
 * @throws the reason for which the query ended
 */
export type Ask = (statement: Statement, paging: Paging) => Promise<FoundPage>

/** The connection, and the time limit of one query. */
export interface RequestParts {
  readonly connection: Connection
  /** For all requests together. */
  readonly timeoutMs: number
}

/**
 * @throws the signal's reason, at once when it aborts
 * @throws QueryTooLargeError if the store answered, but the time was too short
 * @throws StoreUnavailableError if it did not answer, or has no tables yet
 */
export async function withRequests<Found>(
  { connection, timeoutMs }: RequestParts,
  signal: AbortSignal,
  work: (ask: Ask) => Promise<Found>,
): Promise<Found> {
  let answers = 0
  const expired = (cause: unknown): Error => (answers > 0 ? tookTooLong(cause) : noAnswer(timeoutMs, cause))
  return await withinTimeLimit(signal, { timeoutMs, expired, explain: error => readError(error, connection) }, limit =>
    work(async ({ cql, values, types }, { rows: fetchSize, from }) => {
      const client = await unlessAborted(connection.client(), limit.signal)
      const request = client.execute(cql, [...values], {
        fetchSize,
        ...(types === undefined ? {} : { prepare: false, hints: [...types] }),
        ...(from === undefined ? {} : { pageState: from }),
      })
      const { rows, pageState } = await unlessAborted(request, limit.signal)
      answers++
      // The driver returns null after the last page.
      return { rows, next: pageState ?? undefined }
    }),
  )
}

function readError(error: unknown, connection: Connection): unknown {
  if (error instanceof QueryTooLargeError) return error
  if (isSchemaFault(error)) {
    return new StoreUnavailableError(
      `the keyspace "${connection.keyspace}" contains no message tables: start a writer on it, which creates them`,
      { cause: error },
    )
  }
  if (classify(error) === 'transient') {
    return new StoreUnavailableError(`the store cannot answer now: ${(error as Error).message}`, { cause: error })
  }
  return connection.explain(error)
}

function noAnswer(timeoutMs: number, cause: unknown): StoreUnavailableError {
  return new StoreUnavailableError(`the store cannot answer now: no answer within ${timeoutMs} ms`, { cause })
}
