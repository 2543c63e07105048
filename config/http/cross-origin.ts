// Browsers on pages of other origins (CORS): which may ask, if the operator names origins (https://fetch.spec.whatwg.org/#http-cors-protocol).
//
// Credentials come in the header Authorization and never as cookies, so the mode with credentials is off. `Cross-Origin-Resource-Policy` stays
// same-origin: it is looked at for requests without CORS alone, such as those of an <img>.

import fastifyPlugin from 'fastify-plugin'
import type { HttpServer } from './server.ts'

/** Methods and headers that routes accept. */
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']
const requestHeaders = ['Accept', 'Authorization', 'Content-Type', 'If-Match', 'If-None-Match', 'Last-Event-ID', 'Prefer']
/** Answer headers that a page may read, beside those open to every page (Content-Type, Cache-Control). */
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
/** How long a browser may send without another preflight; an origin removed from the list can send for as long, but reads no answer. */
const preflightSeconds = 600

/** Lets pages of these origins read every answer; `*` is every origin. What hooks refuse is such an answer where they are added behind this. */
export function allowOrigins(app: HttpServer, origins: readonly string[]): void {
  app.register(
    fastifyPlugin(async app => {
      const { default: cors } = await import('@fastify/cors')
      await app.register(cors, {
        origin: origins.includes('*') ? '*' : [...origins],
        methods,
        allowedHeaders: requestHeaders,
        exposedHeaders: answerHeaders,
        maxAge: preflightSeconds,
        // Any OPTIONS is answered alike, with or without a token and whatever its path.
        strictPreflight: false,
      })
    }),
  )
}

/** @throws RangeError that names the entry which is not an origin */
export function checkOrigins(origins: readonly string[]): void {
  if (origins.length > 1 && origins.includes('*'))
    throw new RangeError('"*" allows every origin: give it alone, or name the origins without it')
  for (const text of origins) {
    const origin = originOf(text)
    if (text === '*' || text === origin) continue
    const example = origin ?? 'https://app.example.com'
    throw new RangeError(`"${text}" is not an origin: give scheme, host and port alone, as browsers send it, such as ${example}`)
  }
}

/** As a browser sends it (RFC 6454 §6.2): in lower case, without a path and without the scheme's own port; no patterns. */
function originOf(text: string): string | undefined {
  return /^https?:\/\/[^*]+$/i.test(text) && URL.canParse(text) ? new URL(text).origin : undefined
}
