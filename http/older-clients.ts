// The option `compatibility`: rewrites requests of clients for the origin's release 0.13 into our form, before any other code sees them.

import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Logger } from '../config/logger.ts'

export const compatibilityOption = Type.Enum(['none', '0.13'], {
  default: 'none',
  description:
    "With `0.13` devices, scripts, SDK and CLI of the origin's release 0.13 work unchanged, and clients may choose ids and keys.",
})
export type Compatibility = 'none' | '0.13'

/** Logs at start-up which older forms are accepted. */
export function warnOfCompatibility(compatibility: Compatibility, logger: Pick<Logger, 'warn'>): void {
  if (compatibility === 'none') return
  logger.warn(
    { compatibility },
    'compatibility is 0.13: thing keys are also accepted as Basic, as Bearer and without a scheme, external keys as Bearer and without a scheme; clients may choose ids and keys; private keys that a device does not acknowledge are kept; paths may start with /http; /configs, /state and /bootstrap may omit /things, and DELETE /certs/<thing> may omit /certs; the layout file and its variables may have their older names; set SVC_COMPATIBILITY to none once no older client is left',
  )
}

const prefix = '/http/'

const pathWithoutThings = /^\/(?:configs|state|bootstrap)(?=[/?]|$)/
/** A UUID alone. */
const pathWithoutCerts = /^\/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}(?=\?|$)/i

/** `/http/channels/…` is `/channels/…`, `/configs/…` is `/things/configs/…`, and DELETE `/<thing id>` is DELETE `/certs/<thing id>`. */
export function plainUrl(method: string, url: string): string {
  if (method === 'DELETE' && pathWithoutCerts.test(url)) return `/certs${url}`
  const plain = url.startsWith(prefix) ? url.slice(prefix.length - 1) : url
  return pathWithoutThings.test(plain) ? `/things${plain}` : plain
}

/** Whether a request omitted `/certs`, like `RemoveCert` of the SDK, which accepts only 204. */
export const omitsCertificates = ({ originalUrl }: FastifyRequest): boolean => pathWithoutCerts.test(originalUrl)

/** A JWT or an API key. Any other credential without a scheme, or with the wrong one, is a thing key. */
const token = /^(?:[\w-]+\.[\w-]+\.[\w-]+|sluice_.*)$/

/** Rewrites the header `Authorization` into our form; an unknown form is left unchanged. */
export function plainAuthorization(header: string): string {
  const [, scheme = '', secret = ''] = /^(?:(\w+) +)?([^\s,]+) *$/.exec(header) ?? []
  switch (scheme.toLowerCase()) {
    case '':
      return secret === '' ? header : token.test(secret) ? `Bearer ${secret}` : `Thing ${secret}`
    case 'bearer':
      return token.test(secret) ? header : `Thing ${secret}`
    case 'basic':
      return `Thing ${passwordOf(secret)}`
    default:
      return header
  }
}

/** Whether a request sent its token without a scheme, which `plainAuthorization` has added. */
export function hasBareAuthorization({ raw: { rawHeaders } }: FastifyRequest): boolean {
  const name = rawHeaders.findIndex((header, at) => at % 2 === 0 && header.toLowerCase() === 'authorization')
  return name !== -1 && token.test(rawHeaders[name + 1]!.trim())
}

/** RFC 7617 §2: the text after the first colon. */
function passwordOf(credentials: string): string {
  const pair = Buffer.from(credentials, 'base64').toString()
  return pair.slice(pair.indexOf(':') + 1)
}
