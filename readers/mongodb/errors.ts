// What the caller of a reader is told of an error of MongoDB or of its driver.

import { classify, explained, isErrorOf, login } from '../../sinks/mongodb/errors.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../reader.ts'
import { tookTooLong } from './time-limit.ts'

const denied = 13
const timeLimitExceeded = 50
/** A sort without an index would take more memory than a query may. */
const sortTooLarge = 292

export function readError(error: unknown): unknown {
  if (error instanceof QueryTooLargeError || error instanceof StoreUnavailableError) return error
  if (isErrorOf(error, timeLimitExceeded)) return tookTooLong(error)
  if (isErrorOf(error, sortTooLarge)) {
    const sentence = 'the collection has not the indexes that sinks/mongodb/README.md lists, and too many rows to be sorted: make them'
    return new QueryTooLargeError(sentence, { cause: error })
  }
  if (classify(error) === 'transient') {
    return new StoreUnavailableError(`the store cannot answer now: ${(error as Error).message}`, { cause: error })
  }
  if (isErrorOf(error, denied)) {
    const sentence = `the reader's MongoDB user is not authorized to read (code 13): grant it the \`read\` role on the database, or name another user in ${login}`
    return new SinkError('systemic', sentence, { cause: error })
  }
  return explained(error)
}
