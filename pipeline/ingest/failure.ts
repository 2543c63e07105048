// Converts errors of a publish into the HttpError for its sender.

import { AccessUnavailableError } from '../../control-plane/client.ts'
import { type ErrorCode, errors, HttpError } from '../../http/errors.ts'
import { LogUnavailableError, MessageRefusedError } from '../log.ts'
import { SystemicError } from '../systemic-error.ts'
import { SubtopicError } from './subtopic.ts'

/** The HttpError for a known error. Unknown errors are returned unchanged, and the server answers them. */
export function publishFailure(error: unknown): unknown {
  if (error instanceof SubtopicError) {
    return new HttpError('malformed_request', error.message, {
      faults: [{ pointer: '/path/subtopic', detail: error.message }],
      cause: error,
    })
  }
  if (error instanceof LogUnavailableError || error instanceof SystemicError) {
    return new HttpError('unavailable', 'the message was not stored, because the log is unavailable: retry', { cause: error })
  }
  if (error instanceof MessageRefusedError) {
    return new HttpError('too_large', 'too large for the log: send smaller messages, or fewer in one request, instead of retrying', {
      cause: error,
    })
  }
  if (error instanceof AccessUnavailableError) {
    return new HttpError('unavailable', 'the key cannot be checked now: retry', { cause: error })
  }
  return error
}

/**
 * The code under which a rejected request is counted. Errors of Fastify have a status: 400 for a schema violation and for a body
 * that was cut off; a bug counts as `internal`.
 */
export function refusalCode(failure: unknown): ErrorCode {
  if (failure instanceof HttpError) return failure.code
  const status = failure instanceof Error && 'statusCode' in failure ? failure.statusCode : undefined
  return (Object.keys(errors) as ErrorCode[]).find(code => errors[code].status === status) ?? 'internal'
}
