// The errors that a route may answer, as response schemas for its description.

import { Type } from 'typebox'
import { type ErrorCode, errors } from './errors.ts'

/** The error body, as the server's error handler writes it: by itself, so that no schema changes what is in it. */
function errorSchema(description: string) {
  return Type.Object(
    {
      error: Type.String(),
      code: Type.String(),
      status: Type.Integer(),
      detail: Type.Optional(Type.String()),
      errors: Type.Optional(Type.Array(Type.Object({ pointer: Type.String(), detail: Type.String() }))),
      request_id: Type.Optional(Type.String()),
    },
    { description },
  )
}

/**
 * Answers by status for the codes that a route may give. They are thrown and never sent, so the type has none of them: a
 * handler is checked against the answers of its success. Where credentials are asked for, wrong ones may be limited.
 */
export function errorAnswers(...codes: ErrorCode[]): object {
  const all: ErrorCode[] = codes.includes('unauthenticated') ? [...codes, 'too_many_requests'] : codes
  return Object.fromEntries(all.map(code => [errors[code].status, errorSchema(errors[code].title)]))
}

/** For a route with a body: what the server itself may refuse. */
export const bodyCodes = ['malformed_request', 'too_large', 'unsupported_media_type'] as const
