// From what went wrong with a publish to what its sender is answered.

import { type ErrorCode, errors, HttpError } from '../../config/http/errors.ts'
import { AccessUnavailableError } from '../../control-plane/client.ts'
import { LogUnavailableError, MessageRefusedError } from '../log.ts'
import { SubtopicError } from './subtopic.ts'

/** The error as the table of errors has it. What is foreign here stays as it is: the server answers it. */
export function publishFailure(error: unknown, payloadBytesMax: number): unknown {
  if (error instanceof SubtopicError) {
    return new HttpError('malformed_request', error.message, {
      faults: [{ pointer: '/path/subtopic', detail: error.message }],
      cause: error,
    })
  }
  if (error instanceof LogUnavailableError) {
    return new HttpError('unavailable', 'the message was not taken, because the log cannot keep it now: send it again', { cause: error })
  }
  if (error instanceof MessageRefusedError) {
    return new HttpError('too_large', 'the log can never take this message: divide it into several, and do not send it again', {
      cause: error,
    })
  }
  if (error instanceof AccessUnavailableError) {
    return new HttpError('unavailable', 'the key cannot be checked now: send the message again', { cause: error })
  }
  if (error instanceof Error && 'code' in error && error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return new HttpError('too_large', `the payload is larger than ${payloadBytesMax} bytes: divide it into several messages`, {
      cause: error,
    })
  }
  return error
}

/**
 * The code under which a refusal is counted. What is foreign carries a status: 400 for what its schema refuses and for a body
 * that broke off; `internal` for a defect.
 */
export function refusalCode(failure: unknown): ErrorCode {
  if (failure instanceof HttpError) return failure.code
  const status = failure instanceof Error && 'statusCode' in failure ? failure.statusCode : undefined
  return (Object.keys(errors) as ErrorCode[]).find(code => errors[code].status === status) ?? 'internal'
}
