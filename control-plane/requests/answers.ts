// What the schemas of routes share: empty answers, headers, and the security requirement; the headers of answers with keys and of bulk creations;
// and those of endpoints that still work and have a successor (SPEC §9).

import type { FastifyReply, onRequestHookHandler } from 'fastify'
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

/** Answers with keys must not be cached, not even by the client (RFC 9111 §5.2.2.5). */
export const unstored = { 'cache-control': 'no-store' }

const exposed = 'access-control-expose-headers'

/** Sets the header that SPEC §4 asks for on bulk creations. With CORS configured it is already set, and includes Location. */
export function exposeLocation(reply: FastifyReply): void {
  if (!reply.hasHeader(exposed)) reply.header(exposed, 'Location')
}

/** RFC 9745 requires a date; any date in the past means deprecated already. This is 2026-01-01. */
const deprecatedSince = '@1767225600'

/** An onRequest hook, so that refusals carry the headers too. */
export function deprecatedBy(successor: string): onRequestHookHandler {
  return (_request, reply, done) => {
    reply.headers({ deprecation: deprecatedSince, link: `<${successor}>; rel="successor-version"` })
    done()
  }
}

export const deprecationHeaders = { Deprecation: 'Since when (RFC 9745).', Link: 'The endpoint that replaces this one.' }
