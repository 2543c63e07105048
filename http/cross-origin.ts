// CORS: which origins' pages may call the API, if the operator allows any (https://fetch.spec.whatwg.org/#http-cors-protocol).
//
// Credentials are sent in the header Authorization and never as cookies, so credentials mode is off. `Cross-Origin-Resource-Policy` stays
// same-origin: browsers check it only for requests without CORS, such as those of an <img>.

import type { FastifyInstance } from 'fastify'
import fastifyPlugin from 'fastify-plugin'

/** Methods and headers that routes accept. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']
const requestHeaders = ['Accept', 'Authorization', 'Content-Type', 'If-Match', 'If-None-Match', 'Last-Event-ID', 'Prefer']
/** Response headers that a page may read, in addition to the always readable ones (Content-Type, Cache-Control). */
const answerHeaders = [
  'Allow',
  'Deprecation',
  'ETag',
  'Link',
  'Location',
  'Preference-Applied',
  'Retry-After',
  'WWW-Authenticate',
  'X-Request-Id',
]
/** How long a browser caches a preflight. An origin removed from the list can still send requests for that long, but cannot read the responses. */
const preflightSeconds = 600

/**
 * Lets pages of these origins read every response; `*` means any origin. Preflights are answered here: only hooks that were added before see them. Errors
 * of the hooks that are added after this are readable too.
 */
export function allowOrigins(app: Pick<FastifyInstance, 'register'>, origins: readonly string[]): void {
  app.register(
    fastifyPlugin(async app => {
      const { default: cors } = await import('@fastify/cors')
      await app.register(cors, {
        origin: origins.includes('*') ? '*' : [...origins],
        methods,
        allowedHeaders: requestHeaders,
        exposedHeaders: answerHeaders,
        maxAge: preflightSeconds,
        // Every OPTIONS request gets the same answer, with or without a token and for any path.
        strictPreflight: false,
      })
    }),
  )
}

/** @throws RangeError that names the invalid entry */
export function checkOrigins(origins: readonly string[]): void {
  if (origins.length > 1 && origins.includes('*'))
    throw new RangeError('"*" allows every origin: give it alone, or list origins without it')
  for (const text of origins) {
    const origin = originOf(text)
    if (text === '*' || text === origin) continue
    const example = origin ?? 'https://app.example.com'
    throw new RangeError(`"${text}" is not an origin: give only scheme, host and port, as browsers send it, such as ${example}`)
  }
}

/** As a browser sends it (RFC 6454 §6.2): in lower case, without a path and without the scheme's default port; no patterns. */
function originOf(text: string): string | undefined {
  return /^https?:\/\/[^*]+$/i.test(text) && URL.canParse(text) ? new URL(text).origin : undefined
}
