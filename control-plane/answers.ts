// What routes share in their schemas: the errors they may answer, empty answers, and the mark of a route that needs a token.

import { Type } from 'typebox'
import { type ErrorCode, errors } from '../config/http/errors.ts'

/** The error body, as the server's error handler writes it. */
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
 * handler is checked against the answers of its success.
 */
export function errorAnswers(...codes: ErrorCode[]): object {
  return Object.fromEntries(codes.map(code => [errors[code].status, errorSchema(errors[code].title)]))
}

/** For a route with a body: what the server itself may refuse. */
export const bodyCodes = ['malformed_request', 'too_large', 'unsupported_media_type'] as const

/** An answer without a body; `headers` are shown in the API's description. */
export function emptyAnswer(description: string, headers: Record<string, string> = {}) {
  return Type.Unsafe<undefined>(Type.Null({ description, ...headersOf(headers) }))
}

export function headersOf(headers: Record<string, string>): { headers?: Record<string, { type: 'string'; description: string }> } {
  const entries = Object.entries(headers)
  if (entries.length === 0) return {}
  return { headers: Object.fromEntries(entries.map(([name, description]) => [name, { type: 'string', description }])) }
}

/** OpenAPI's security requirement of a route: the scheme is declared by the HTTP server. */
export const tokenRequired = [{ user: [] }]
