// Answers failed requests: one format for all interfaces, without internal details, which only go to the log.

import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { Counter, type Registry } from 'prom-client'
import type { Logger } from '../config/logger.ts'
import { factOf } from '../config/outage.ts'
import { DatabaseError } from '../database/database.ts'
import { type ErrorCode, errors, type Fault, HttpError } from './errors.ts'
import { faultsOf } from './requests/validation.ts'

/** The body of every error. `error` is the fixed sentence of the code, `detail` says what is wrong with this request and what to do. */
export interface ErrorBody {
  readonly error: string
  readonly code: ErrorCode
  readonly status: number
  readonly detail?: string
  readonly errors?: readonly Fault[]
  readonly request_id: string
}

/** Builds the body of an error. */
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

/** While a dependency is away, every request would log a line: one in this time is enough. */
const unservedLineMsMin = 60_000

/**
 * Answers errors. An internal error is logged with the request's id and answered without details. If the database is
 * away the answer is 503, and one line a minute is logged with the number of lines left out (those are logged at debug). A rejected
 * request is logged at debug. A request that fails while the process stops gets 503 too: what it used may be closed.
 */
export function openErrorAnswer(logger: Logger, isClosing: () => boolean, count: CountRefusal = () => undefined): ErrorAnswer {
  let linedMs = Number.NEGATIVE_INFINITY
  let leftOut = 0

  /** Without a stack: the origin is known, and logging is synchronous, so it should be cheap. */
  function logUnserved(known: HttpError, where: object): void {
    const sentence = `request not served (${factOf(known)})`
    const now = performance.now()
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
    const found = recognize(error, request)
    const known = found.code === 'internal' && isClosing() ? new HttpError('unavailable', stopDetail, { cause: error }) : found
    const { method, routeOptions } = request
    const where = { request_id: request.id, method, route: routeOptions.url ?? null, status: known.status }
    count(method, routeOptions.url ?? '', known.status)
    if (known.code === 'internal') logger.error({ ...where, err: error }, 'request failed')
    else if (known.code === 'unavailable') logUnserved(known, where)
    else logger.debug({ ...where, detail: detailOf(known) }, 'request rejected')
    return answer(known, request, reply)
  }
}

/** @param path of the route, so that no text of a client is a label; empty if there is none */
export type CountRefusal = (method: string, path: string, status: number) => void

export function countRefusals(registry: Registry, component: string): CountRefusal {
  const refusals = new Counter({
    name: 'http_server_refused_requests_total',
    help: 'Requests that were answered with an error, by route and status; without a path if there is no such route.',
    labelNames: ['component_id', 'component_kind', 'method', 'path', 'status'],
    registers: [registry],
  })
  return (method, path, status) => refusals.inc({ component_id: component, component_kind: 'source', method, path, status })
}

/** The detail of 503 while the process stops. */
export const stopDetail = 'this process is stopping: retry'

/** What the answer says, in one line; undefined if the title of its code says it all. */
export function detailOf({ detail, faults: [first] }: HttpError): string | undefined {
  return detail ?? (first === undefined ? undefined : `${first.pointer} ${first.detail}`)
}

function answer(known: HttpError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const body = errorBody(known.code, request.id, detailOf(known), known.faults)
  if (known.status === 401 && !reply.hasHeader('www-authenticate')) reply.header('www-authenticate', 'Bearer realm="sluice"')
  if ((known.status === 503 || known.status === 429) && !reply.hasHeader('retry-after'))
    reply.header('retry-after', String(known.retryAfterSeconds))
  // Keep the connection, so that a small rest of the body is read and discarded: closing it early would lose the answer.
  const isShort = Number(request.headers['content-length'] ?? 0) <= drainBytesMax
  if (known.status === 413 && isShort) reply.removeHeader('connection')
  return send(reply.code(known.status), request, body)
}

/** A body up to this is drained after a 413. */
const drainBytesMax = 16 * 1024 * 1024

function send(reply: FastifyReply, request: FastifyRequest, body: ErrorBody): FastifyReply {
  const problem = request.headers.accept?.includes('application/problem+json') === true
  // Not serialized with the route's schemas, which describe other answers.
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
      return new HttpError('too_large', `the body is limited to ${request.routeOptions.bodyLimit} bytes: split the request`)
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new HttpError('unsupported_media_type', `send ${taken(request).join(' or ')}, and set the header content-type accordingly`)
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new HttpError('malformed_request', 'the length of the body differs from the header content-length')
    case 'FST_ERR_BAD_URL':
      return new HttpError('malformed_request', 'the path is not a valid URL path: escape its special characters as %XX')
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new HttpError('malformed_request', 'a part of the path is too long')
    default:
      return new HttpError(codeOf(statusCode), undefined, { cause: error })
  }
}

/** The content types that a route accepts: its schema's `consumes`, else JSON. */
function taken(request: FastifyRequest): readonly string[] {
  const { consumes } = (request.routeOptions.schema ?? {}) as { consumes?: readonly string[] }
  return consumes ?? ['application/json']
}

/** Errors of plugins have a status: one outside the table counts as a malformed request. Any other error is internal. */
function codeOf(status: number | undefined): ErrorCode {
  if (status === undefined || status < 400 || status > 599) return 'internal'
  const code = (Object.keys(errors) as ErrorCode[]).find(code => errors[code].status === status)
  return code ?? (status < 500 ? 'malformed_request' : 'internal')
}
