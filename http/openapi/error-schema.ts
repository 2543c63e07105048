// Response schemas for the errors of a route.

import { Type } from 'typebox'
import { type ErrorCode, errors, type Fault, tokenRequired } from '../errors.ts'

const codes = Object.keys(errors) as ErrorCode[]
const malformed: Fault = { pointer: '/query/limit', detail: 'is not allowed: give a whole number from 1 to 100' }
const requestId = '4d1f0a52-6c0e-4b5e-8f0a-3f1c2b7d9e60'

const properties = {
  error: Type.String({ description: 'Fixed text of the code.', examples: [errors.malformed_request.title] }),
  code: Type.Enum(codes, { description: 'For programs: stable across releases.' }),
  status: Type.Integer({ examples: [errors.malformed_request.status] }),
  detail: Type.Optional(Type.String({ description: 'What is wrong with this request and what to do.' })),
  errors: Type.Optional(
    Type.Array(
      Type.Object(
        {
          pointer: Type.String({ description: '`/body/0/name`, `/query/limit`, `/path/id`.', examples: [malformed.pointer] }),
          detail: Type.String({ examples: [malformed.detail] }),
        },
        { title: 'Fault' },
      ),
      { description: 'Each fault of the request with its place.' },
    ),
  ),
  request_id: Type.String({ description: 'The same as in the header X-Request-Id and in the log.', examples: [requestId] }),
}
/** The error body. The error handler serializes it itself, so this schema only documents it. */
export const errorSchema = Type.Object(properties, { title: 'Error' })
const problemSchema = Type.Object(
  {
    type: Type.String({ description: 'Always about:blank.', examples: ['about:blank'] }),
    title: Type.String({ examples: [errors.malformed_request.title] }),
    ...properties,
  },
  { title: 'Problem', description: 'The error in the form of RFC 9457, for clients that accept application/problem+json.' },
)

const headers: Readonly<Partial<Record<ErrorCode, Readonly<Record<string, string>>>>> = {
  unauthenticated: { 'WWW-Authenticate': 'The accepted authentication schemes.' },
  method_not_allowed: { Allow: 'The methods that the path supports.' },
  too_many_requests: { 'Retry-After': 'Seconds to wait before a retry.' },
  unavailable: { 'Retry-After': 'Seconds to wait before a retry.' },
}

/** The `detail` of each example. */
const details: Readonly<Partial<Record<ErrorCode, string>>> = {
  malformed_request: `${malformed.pointer} ${malformed.detail}`,
  unauthenticated: tokenRequired,
  not_found: 'no entity has this id: it was never created, or it was deleted',
  not_acceptable: 'give application/json, application/x-ndjson or text/csv in Accept',
  conflict: 'a user with this email exists: sign in with POST /tokens',
  precondition_failed: 'it has changed since it was read: read it again, and repeat the change with the new ETag',
  too_large: 'the body is limited to 1048576 bytes: split the request',
  unsupported_media_type: 'send application/json, and set the header content-type accordingly',
  misdirected: 'this address answers for localhost only, so that pages of other sites cannot read it: name the host in http.hosts',
  headers_too_large: 'the path and the headers are limited to 16384 bytes together: send fewer or shorter ones',
  query_too_large: 'the query exceeded the time limit of the store: narrow it with name, publisher, from or to',
  too_many_requests: 'too many failed logins: wait for the seconds in Retry-After',
}

/** The response of one code, also as problem details for clients that accept them. */
export function errorAnswer(code: ErrorCode) {
  const { status, title } = errors[code]
  const detail = details[code] === undefined ? {} : { detail: details[code] }
  const faults = code === 'malformed_request' ? { errors: [malformed] } : {}
  const example = { error: title, code, status, ...detail, ...faults, request_id: requestId }
  const named = Object.entries(headers[code] ?? {}).map(([name, description]) => [name, { type: 'string', description }] as const)
  return {
    description: title,
    ...(named.length === 0 ? {} : { headers: Object.fromEntries(named) }),
    content: {
      'application/json': { schema: errorSchema, example },
      'application/problem+json': { schema: problemSchema, example: { type: 'about:blank', title, ...example } },
    },
  }
}
/** Errors that the server itself may answer on any route: for an invalid or too long head or query, for another host, and while it starts or stops. */
const always: readonly ErrorCode[] = ['malformed_request', 'misdirected', 'headers_too_large', 'unavailable']

/**
 * Responses by status for the error codes of a route, plus those of every route. Errors are thrown and never sent, so the type does not list
 * them: a handler is checked against its success responses only. A route that takes credentials may also answer too_many_requests.
 */
export function errorAnswers(...given: ErrorCode[]): object {
  const limited: ErrorCode[] = given.includes('unauthenticated') ? ['too_many_requests'] : []
  return Object.fromEntries([...always, ...given, ...limited].map(code => [errors[code].status, errorAnswer(code)]))
}

/** Errors of the server itself for a method with a body. */
export const bodyCodes = ['too_large', 'unsupported_media_type'] as const
