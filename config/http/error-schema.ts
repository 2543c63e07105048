// The errors that a route may answer, as response schemas for its description.

import { Type } from 'typebox'
import { type ErrorCode, errors, type Fault } from './errors.ts'

const codes = Object.keys(errors) as ErrorCode[]

const properties = {
  error: Type.String({ description: "The code's sentence." }),
  code: Type.Enum(codes, { description: 'For programs: it stays the same.' }),
  status: Type.Integer(),
  detail: Type.Optional(Type.String({ description: 'What is wrong with this request, and what to do.' })),
  errors: Type.Optional(
    Type.Array(
      Type.Object(
        { pointer: Type.String({ description: '`/body/0/name`, `/query/limit`, `/path/id`.' }), detail: Type.String() },
        { title: 'Fault' },
      ),
      { description: 'Each fault of the request with its place.' },
    ),
  ),
  request_id: Type.String({ description: 'As in the header X-Request-Id and in the log.' }),
}
/** The error body, as the server's error handler writes it: by itself, so that no schema changes what is in it. */
export const errorSchema = Type.Object(properties, { title: 'Error' })
const problemSchema = Type.Object(
  { type: Type.String({ description: 'Always about:blank.' }), title: Type.String(), ...properties },
  { title: 'Problem', description: 'The error in the form of RFC 9457, for clients that accept application/problem+json.' },
)

const headers: Readonly<Partial<Record<ErrorCode, Readonly<Record<string, string>>>>> = {
  unauthenticated: { 'WWW-Authenticate': 'What to authenticate by.' },
  method_not_allowed: { Allow: 'The methods that the path takes.' },
  too_many_requests: { 'Retry-After': 'In how many seconds to try again.' },
  unavailable: { 'Retry-After': 'In how many seconds to try again.' },
}

const malformed: Fault = { pointer: '/query/limit', detail: 'is not allowed: give a whole number from 1 to 100' }
/** The details of examples. */
const details: Readonly<Partial<Record<ErrorCode, string>>> = {
  malformed_request: `${malformed.pointer} ${malformed.detail}`,
  unauthenticated: 'this needs a token: get one with POST /tokens and send it as Authorization: Bearer <token>',
  not_found: 'no entity has this id: it was never made, or it is deleted',
  not_acceptable: 'give application/json, application/x-ndjson or text/csv in Accept',
  conflict: 'a user with this email exists: sign in with POST /tokens',
  precondition_failed: 'it has changed since it was read: read it again, and repeat the change with the new ETag',
  too_large: 'the body may have at most 1048576 bytes: send less at once',
  unsupported_media_type: 'send application/json and say so in the header content-type',
  headers_too_large: 'the path and the headers may have at most 16384 bytes together: send fewer or shorter ones',
  query_too_large: 'the store took longer than one query may: give a shorter time with from and to',
  too_many_requests: 'too many failed logins: wait as long as Retry-After says',
}

/** The answer of one code: as problem details for clients that accept those. */
export function errorAnswer(code: ErrorCode) {
  const { status, title } = errors[code]
  const detail = details[code] === undefined ? {} : { detail: details[code] }
  const faults = code === 'malformed_request' ? { errors: [malformed] } : {}
  const example = { error: title, code, status, ...detail, ...faults, request_id: '4d1f0a52-6c0e-4b5e-8f0a-3f1c2b7d9e60' }
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
/** Answers of the server itself on any route: to a wrong or too long head or query, and while it starts or stops. */
const always: readonly ErrorCode[] = ['malformed_request', 'headers_too_large', 'unavailable']

/**
 * Answers by status for the codes that a route may give, beside those that any may. They are thrown and never sent, so the type has none of
 * them: a handler is checked against the answers of its success. Where credentials are asked for, wrong ones may be limited.
 */
export function errorAnswers(...given: ErrorCode[]): object {
  const limited: ErrorCode[] = given.includes('unauthenticated') ? ['too_many_requests'] : []
  return Object.fromEntries([...always, ...given, ...limited].map(code => [errors[code].status, errorAnswer(code)]))
}

/** For a method with a body: refusals of the server itself. */
export const bodyCodes = ['too_large', 'unsupported_media_type'] as const
