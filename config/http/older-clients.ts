// What clients of the origin's release 0.13 send in other forms, turned into ours before anything looks at it: the option `compatibility`.

import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Logger } from '../logger.ts'

export const compatibilityOption = Type.Enum(['none', '0.13'], {
  default: 'none',
  description:
    "With `0.13` the devices, scripts, SDK and CLI of the origin's release 0.13 work unchanged: thing keys also as Basic, as Bearer or without a scheme, external keys as Bearer or without one, ids and keys that clients give, tokens without a scheme, private keys that a device never acknowledges, `/http` before paths and `/configs`, `/state` and `/bootstrap` without `/things`, records with `update_time`, `string_value`, `bool_value` and `data_value` beside the capitals, and the older names of the layout file and its variables.",
})
export type Compatibility = 'none' | '0.13'

/** One line at the start, for whoever reads the log of a process that takes more than it says elsewhere. */
export function warnOfCompatibility(compatibility: Compatibility, logger: Pick<Logger, 'warn'>): void {
  if (compatibility === 'none') return
  logger.warn(
    { compatibility },
    'compatibility is 0.13: thing keys are also taken as Basic, Bearer and without a scheme, external keys as Bearer and without a scheme, clients may give the ids and keys of what they create, private keys that a device does not acknowledge are kept, /http stands before paths, /configs, /state and /bootstrap go without /things, and the layout file and its variables may have their older names; set SVC_COMPATIBILITY to none once no older client is left',
  )
}

const prefix = '/http/'

const ofThings = /^\/(?:configs|state|bootstrap)(?=[/?]|$)/

/** `/http/channels/…` is `/channels/…`, and `/configs/…` is `/things/configs/…`. */
export function plainUrl(url: string): string {
  const plain = url.startsWith(prefix) ? url.slice(prefix.length - 1) : url
  return ofThings.test(plain) ? `/things${plain}` : plain
}

/** A JWT, or an API key of ours; everything else that comes without its scheme, or under another's, is the key of a thing. */
const token = /^(?:[\w-]+\.[\w-]+\.[\w-]+|sluice_.*)$/

/** The header `Authorization` as we take it; what is none of their forms stays as it is. */
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

/** Whether a request brought its token without a scheme, which `plainAuthorization` has put before it. */
export function hasBareAuthorization({ raw: { rawHeaders } }: FastifyRequest): boolean {
  const name = rawHeaders.findIndex((header, at) => at % 2 === 0 && header.toLowerCase() === 'authorization')
  return name !== -1 && token.test(rawHeaders[name + 1]!.trim())
}

/** RFC 7617 §2: what stands behind the first colon. */
function passwordOf(credentials: string): string {
  const pair = Buffer.from(credentials, 'base64').toString()
  return pair.slice(pair.indexOf(':') + 1)
}
