// The requests of one question: as many as it takes, until its caller goes away or its time is over. A request that is under way then is
// left to itself, since the protocol has no word to end it; it reads a page at most.

import { unlessAborted } from '../../config/aborting.ts'
import type { Row as Columns, Connection } from '../../sinks/cassandra/connection.ts'
import { classify, isSchemaFault } from '../../sinks/cassandra/errors.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../reader.ts'
import type { Statement } from './select.ts'

export interface Paging {
  /** Rows of this page at most. */
  readonly rows: number
  /** Where the page before has ended. */
  readonly from?: string | undefined
}

export interface FoundPage {
  readonly rows: readonly Columns[]
  /** Where the next page begins; undefined behind the last one. */
  readonly next: string | undefined
}

export type Ask = (statement: Statement, paging: Paging) => Promise<FoundPage>

export interface AskingParts {
  readonly connection: Connection
  /** Of all requests together. */
  readonly timeoutMs: number
}

/**
 * @throws the signal's reason, at once when it aborts
 * @throws QueryTooLargeError where the store answered, and the time was not enough
 * @throws StoreUnavailableError where it did not answer, or has no tables yet
 */
export async function asking<Found>(
  { connection, timeoutMs }: AskingParts,
  signal: AbortSignal,
  work: (ask: Ask) => Promise<Found>,
): Promise<Found> {
  signal.throwIfAborted()
  const ending = new AbortController()
  const onAbort = (): void => ending.abort(signal.reason)
  signal.addEventListener('abort', onAbort)
  let answers = 0
  const timer = setTimeout(() => ending.abort(answers > 0 ? tooLarge() : noAnswer(timeoutMs)), timeoutMs)

  async function ask({ cql, values, types }: Statement, { rows: fetchSize, from }: Paging): Promise<FoundPage> {
    const client = await unlessAborted(connection.client(), ending.signal)
    const request = client.execute(cql, [...values], {
      fetchSize,
      ...(types === undefined ? {} : { prepare: false, hints: [...types] }),
      ...(from === undefined ? {} : { pageState: from }),
    })
    const { rows, pageState } = await unlessAborted(request, ending.signal)
    answers++
    // The driver says null behind the last page.
    return { rows, next: pageState ?? undefined }
  }

  try {
    return await work(ask)
  } catch (error) {
    throw ending.signal.aborted ? ending.signal.reason : readError(error, connection)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

function readError(error: unknown, connection: Connection): unknown {
  if (error instanceof QueryTooLargeError) return error
  if (isSchemaFault(error)) {
    return new StoreUnavailableError(
      `the keyspace "${connection.keyspace}" holds no message tables: start a writer on it, which makes them`,
      { cause: error },
    )
  }
  if (classify(error) === 'transient') {
    return new StoreUnavailableError(`the store cannot answer now: ${(error as Error).message}`, { cause: error })
  }
  return connection.explain(error)
}

function tooLarge(): QueryTooLargeError {
  return new QueryTooLargeError('the store took longer than one question may: ask for less by name, publisher, from and to')
}

function noAnswer(timeoutMs: number): StoreUnavailableError {
  return new StoreUnavailableError(`the store cannot answer now: nothing came from it within ${timeoutMs} ms`)
}
