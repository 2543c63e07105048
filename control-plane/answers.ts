// What routes share in their schemas: empty answers, headers, and the mark of a route that needs a token; and the header of bulk creations.

import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'

/** An answer without a body; `headers` are shown in the API's description. */
export function emptyAnswer(description: string, headers: Record<string, string> = {}) {
  return Type.Unsafe<undefined>(Type.Null({ description, ...headersOf(headers) }))
}

/** An answer with an empty object. */
export function emptyObject(description: string) {
  return Type.Object({}, { title: 'Empty', description })
}

export function headersOf(headers: Record<string, string>): { headers?: Record<string, { type: 'string'; description: string }> } {
  const entries = Object.entries(headers)
  if (entries.length === 0) return {}
  return { headers: Object.fromEntries(entries.map(([name, description]) => [name, { type: 'string', description }])) }
}

/** OpenAPI's security requirement of a route: the scheme is declared by the HTTP server. */
export const tokenRequired = [{ user: [] }]

const exposed = 'access-control-expose-headers'

/** Sets the header that SPEC §4 asks for on bulk creations. Where CORS is configured it is there, with Location among others. */
export function exposeLocation(reply: FastifyReply): void {
  if (!reply.hasHeader(exposed)) reply.header(exposed, 'Location')
}
