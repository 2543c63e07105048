// Works on the raw query string: checks its escapes, and builds the link to the next page.

import type { FastifyRequest } from 'fastify'
import { type Fault, HttpError } from '../../http/errors.ts'
import { pointerPart } from '../../http/requests/json-body.ts'

/** The router treats either character as the end of the path. */
const pathEnd = /[?#]/

function parted(url: string): [path: string, query: string] {
  const at = url.search(pathEnd)
  return at < 0 ? [url, ''] : [url.slice(0, at), url.slice(at + 1)]
}

/**
 * Faults for parameters whose escapes are not UTF-8 (RFC 3986 §2.5): the router leaves them undecoded, so they would be compared as text that
 * was never sent. The HTTP parser rejects unescaped non-ASCII characters.
 */
export function escapeFaults(url: string): Fault[] {
  const [, query] = parted(url)
  if (!query.includes('%')) return []
  return query.split('&').flatMap((parameter): Fault[] => {
    const name = parameter.split('=', 1)[0]!
    const pointer = `/query/${pointerPart(name)}`
    return isDecodable(parameter) ? [] : [{ pointer, detail: 'has a % that does not start a UTF-8 character: escape the % itself as %25' }]
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
 * A `preValidation` hook: runs after authentication and before the parameters are used.
 *
 * @throws HttpError `malformed_request` that names each parameter whose escapes are not UTF-8
 */
export async function checkEscapes({ url }: Pick<FastifyRequest, 'url'>): Promise<void> {
  const faults = escapeFaults(url)
  if (faults.length > 0) throw new HttpError('malformed_request', undefined, { faults })
}

/** Normalizes the subtopic in the URL to dots: with slashes it is the same request. */
export function dottedSubtopic(url: string): string {
  if (!url.includes('subtopic=')) return url
  const [path, query] = parted(url)
  const dotted = (parameter: string): string => (parameter.startsWith('subtopic=') ? parameter.replaceAll(/\/|%2f/gi, '.') : parameter)
  return `${path}?${query.split('&').map(dotted).join('&')}`
}

/**
 * The URL with `offset` and `cursor` replaced. Returns only the query, which the client resolves against the URL that it knows
 * (RFC 3986 §5.2), even if a proxy has added a path prefix.
 */
export function furtherOn(url: string, next: { readonly cursor: string } | { readonly offset: number }): string {
  const [, query] = parted(url)
  const further = new URLSearchParams(query)
  further.delete('offset')
  further.delete('cursor')
  for (const [name, value] of Object.entries(next)) further.set(name, String(value))
  return `?${further.toString()}`
}
