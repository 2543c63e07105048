// The query string as it came, before anybody decodes it: whether it can be decoded, and the same question further on.

import type { FastifyRequest } from 'fastify'
import { type Fault, HttpError } from '../config/http/errors.ts'
import { pointerPart } from '../config/http/json-body.ts'

/** The router takes either sign for the end of the path. */
const pathEnd = /[?#]/

function parted(url: string): [path: string, query: string] {
  const at = url.search(pathEnd)
  return at < 0 ? [url, ''] : [url.slice(0, at), url.slice(at + 1)]
}

/**
 * Parameters whose escapes are no UTF-8 (RFC 3986 §2.5): the router leaves them as they are, so that they would be compared as texts which
 * nobody has sent. Characters beyond ASCII that are not escaped never come so far: the parser of HTTP refuses them.
 */
export function escapeFaults(url: string): Fault[] {
  const [, query] = parted(url)
  if (!query.includes('%')) return []
  return query.split('&').flatMap((parameter): Fault[] => {
    const name = parameter.split('=', 1)[0]!
    const pointer = `/query/${pointerPart(name)}`
    return isDecodable(parameter) ? [] : [{ pointer, detail: 'has a % that begins no character in UTF-8: escape the % itself as %25' }]
  })
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/**
 * A hook for `preValidation`: once it is known who asks, and before anybody reads the parameters.
 *
 * @throws HttpError `malformed_request` that names each parameter whose escapes are no UTF-8
 */
export async function checkEscapes({ url }: Pick<FastifyRequest, 'url'>): Promise<void> {
  const faults = escapeFaults(url)
  if (faults.length > 0) throw new HttpError('malformed_request', undefined, { faults })
}

/** The URL with the subtopic dotted: whoever writes it with slashes asks the same. */
export function dottedSubtopic(url: string): string {
  if (!url.includes('subtopic=')) return url
  const [path, query] = parted(url)
  const dotted = (parameter: string): string => (parameter.startsWith('subtopic=') ? parameter.replaceAll(/\/|%2f/gi, '.') : parameter)
  return `${path}?${query.split('&').map(dotted).join('&')}`
}

/**
 * The URL with these parameters in place of `offset` and `cursor`: its query alone, which is resolved against the URL as the client knows
 * it (RFC 3986 §5.2), whatever a proxy in between has put before the path.
 */
export function furtherOn(url: string, next: { readonly cursor: string } | { readonly offset: number }): string {
  const [, query] = parted(url)
  const parameters = new URLSearchParams(query)
  parameters.delete('offset')
  parameters.delete('cursor')
  for (const [name, value] of Object.entries(next)) parameters.set(name, String(value))
  return `?${parameters.toString()}`
}
