// What the caller of a reader is told of an error of MongoDB or of its driver.

import { classify, explained, isErrorOf } from '../../sinks/mongodb/errors.ts'
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
    return new SinkError('systemic', 'MongoDB lets the user of the reader not read (code 13): give it the role `read` on the database', {
      cause: error,
    })
  }
  return explained(error)
}
