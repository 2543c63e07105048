// Every failed request's answer: one shape for all interfaces, and nothing in it that only the log may know.

import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../logger.ts'
import { factOf } from '../outage.ts'
import { DatabaseError } from '../postgres/database.ts'
import { type ErrorCode, errors, type Fault, HttpError } from './errors.ts'
import { faultsOf } from './validation.ts'

/** The body of every error. `error` is the code's sentence, `detail` what is wrong with this request and what to do. */
export interface ErrorBody {
  readonly error: string
  readonly code: ErrorCode
  readonly status: number
  readonly detail?: string
  readonly errors?: readonly Fault[]
  readonly request_id: string
}

/** The body of an error with its code's sentence. */
export function errorBody(code: ErrorCode, requestId: string, detail?: string, faults: readonly Fault[] = []): ErrorBody {
  return {
    error: errors[code].title,
    code,
    status: errors[code].status,
    ...(detail === undefined ? {} : { detail }),
    ...(faults.length === 0 ? {} : { errors: faults }),
    request_id: requestId,
  }
}

export type ErrorAnswer = (error: unknown, request: FastifyRequest, reply: FastifyReply) => FastifyReply

/** Lines about what is not served come at the rate of the requests while a dependency is away: one in this time is enough. */
const unservedLineMsMin = 60_000

/**
 * Answers errors. What is not a fault of the request is logged with the request's id and answered without any detail; a database
 * that is away is 503, of which one line a minute is logged, with the number of those left out (they are lines at debug). A refused
 * request is one line at debug.
 *
 * @param nowMs a clock that does not go back
 */
export function openErrorAnswer(logger: Logger, nowMs: () => number = () => performance.now()): ErrorAnswer {
  let linedMs = Number.NEGATIVE_INFINITY
  let leftOut = 0

  /** Without a stack: it is known where these come from, and the log is written before the request goes on. */
  function logUnserved(known: HttpError, where: object): void {
    const sentence = `request not served (${factOf(known)})`
    const now = nowMs()
    if (now - linedMs < unservedLineMsMin) {
      leftOut++
      logger.debug(where, sentence)
      return
    }
    logger.warn({ ...where, left_out: leftOut }, sentence)
    linedMs = now
    leftOut = 0
  }

  return (error, request, reply) => {
    const known = recognize(error, request)
    const where = { request_id: request.id, method: request.method, route: request.routeOptions.url ?? null, status: known.status }
    if (known.code === 'internal') logger.error({ ...where, err: error }, 'request failed')
    else if (known.code === 'unavailable') logUnserved(known, where)
    else logger.debug({ ...where, detail: detailOf(known) }, 'request refused')
    return answer(known, request, reply)
  }
}

function detailOf({ detail, faults: [first] }: HttpError): string | undefined {
  return detail ?? (first === undefined ? undefined : `${first.pointer} ${first.detail}`)
}

function answer(known: HttpError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const body = errorBody(known.code, request.id, detailOf(known), known.faults)
  if (known.status === 401 && !reply.hasHeader('www-authenticate')) reply.header('www-authenticate', 'Bearer realm="sluice"')
  if ((known.status === 503 || known.status === 429) && !reply.hasHeader('retry-after'))
    reply.header('retry-after', String(known.retryAfterSeconds))
  // The rest of the body is read and thrown away, up to what is sent in no time: a reset connection would lose the answer.
  if (known.status === 413 && Number(request.headers['content-length'] ?? 0) <= drainBytesMax) reply.removeHeader('connection')
  return send(reply.code(known.status), request, body)
}

/** A body up to this is drained after a 413. */
const drainBytesMax = 16 * 1024 * 1024

function send(reply: FastifyReply, request: FastifyRequest, body: ErrorBody): FastifyReply {
  const problem = request.headers.accept?.includes('application/problem+json') === true
  // A serializer of its own, since the route's schemas describe other answers.
  reply.serializer(JSON.stringify)
  if (!problem) return reply.type('application/json; charset=utf-8').send(body)
  return reply.type('application/problem+json').send({ type: 'about:blank', title: body.error, ...body })
}

function recognize(error: unknown, request: FastifyRequest): HttpError {
  if (error instanceof HttpError) return error
  if (error instanceof DatabaseError && error.transient) return new HttpError('unavailable', undefined, { cause: error })
  if (!(error instanceof Error)) return new HttpError('internal')
  const { code, statusCode, validation, validationContext } = error as FastifyError
  if (validation !== undefined) return new HttpError('malformed_request', undefined, { faults: faultsOf(validation, validationContext) })
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new HttpError('too_large', `the body may have at most ${request.routeOptions.bodyLimit} bytes: send less at once`)
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new HttpError('unsupported_media_type', `send ${taken(request).join(' or ')} and say so in the header content-type`)
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new HttpError('malformed_request', 'the body has another length than the header content-length says')
    case 'FST_ERR_BAD_URL':
      return new HttpError('malformed_request', 'the path is not a valid URL path: escape its special characters as %XX')
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new HttpError('malformed_request', 'a part of the path is too long')
    default:
      return new HttpError(codeOf(statusCode), undefined, { cause: error })
  }
}

/** What a route takes: its schema's `consumes`, else JSON. */
function taken(request: FastifyRequest): readonly string[] {
  const { consumes } = (request.routeOptions.schema ?? {}) as { consumes?: readonly string[] }
  return consumes ?? ['application/json']
}

/** Errors of plugins carry a status; one that the table does not know is a malformed request, and anything else is ours. */
function codeOf(status: number | undefined): ErrorCode {
  if (status === undefined || status < 400 || status > 599) return 'internal'
  const code = (Object.keys(errors) as ErrorCode[]).find(code => errors[code].status === status)
  return code ?? (status < 500 ? 'malformed_request' : 'internal')
}
