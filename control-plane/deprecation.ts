// Endpoints that still work and have a successor (SPEC §9).

import type { onRequestHookHandler } from 'fastify'

/** RFC 9745 wants the date; any in the past says that it is so. 2026-01-01. */
const deprecatedSince = '@1767225600'

/** An onRequest hook, so that refusals carry the headers too. */
export function deprecatedBy(successor: string): onRequestHookHandler {
  return (_request, reply, done) => {
    reply.headers({ deprecation: deprecatedSince, link: `<${successor}>; rel="successor-version"` })
    done()
  }
}

export const deprecationHeaders = { Deprecation: 'Since when (RFC 9745).', Link: 'The endpoint that replaces this one.' }
