// Parses a request body as JSON, and rejects malformed JSON and text that no store can keep, with the place of the fault.

import { isUtf8 } from 'node:buffer'
import type { FastifyRequest } from 'fastify'
import { syntaxReason } from '../../transformers/excerpt.ts'
import { parseExactKeys } from '../../transformers/json/exact-json.ts'
import { type Fault, HttpError } from '../errors.ts'

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** Deeper than any schema of the API. Later code may walk a value recursively. */
const depthMax = 64
/**
 * Most keys and values in a body; one with more is rejected before it is parsed. JSON.parse alone takes up to 50 ms for as many as fit in 1 MiB,
 * and the checks afterwards take several times that. This allows a thousand things with twenty metadata keys each.
 */
const partsMax = 50_000
/** Extra weight of an escaped string: a key with an escape takes three times as long to parse. */
const escapedParts = 2

/**
 * @throws HttpError `malformed_request` for bytes that are not UTF-8 or not JSON, for nesting deeper than 64, for
 * a key `__proto__`, and for text with NUL or lone surrogates, which no store can keep; `too_large` for more than 50,000 keys and values,
 * where a text with an escape counts three times
 */
export function parseJsonBody(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new HttpError('malformed_request', 'the body is not UTF-8: send JSON in UTF-8')
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
  if (text.trim() === '') throw new HttpError('malformed_request', 'the body is empty: send JSON')
  const { parts, depth } = extentOf(text)
  if (parts > partsMax)
    throw new HttpError(
      'too_large',
      `the body has more than ${partsMax} keys and values (a text with an escape counts three times): split the request`,
    )
  let value: unknown
  try {
    value = parseJsonText(text)
  } catch (cause) {
    throw new HttpError('malformed_request', `the body is not JSON: ${syntaxReason(cause)}`, { cause })
  }
  // A raw NUL is not valid JSON, so only an escape can contain text that no store can keep.
  if (depth > depthMax || text.includes('\\u') || text.includes('__proto__')) refuseFaults(value)
  return value
}

/** Whether the request must have a body: its route takes one, and its schema does not set `optionalBody`. */
export function needsBody(request: FastifyRequest): boolean {
  const schema = request.routeOptions.schema?.body as { readonly optionalBody?: true } | undefined
  return schema !== undefined && schema.optionalBody !== true
}

/** Body parser for Fastify. An empty body counts as none if it is optional: some clients send the headers of a body anyway. */
export function jsonParser(request: FastifyRequest, body: Buffer | string, done: (error: Error | null, body?: unknown) => void): void {
  try {
    const isNone = body.length === 0 && !needsBody(request)
    done(null, isNone ? undefined : parseJsonBody(body as Buffer))
  } catch (error) {
    done(error as Error)
  }
}

/**
 * Parses JSON from a query or a column, without the bug of JSON.parse that may read an escaped key as another one.
 *
 * @throws SyntaxError if it is not JSON
 */
export function parseJsonText(text: string): unknown {
  return parseExactKeys(text)
}

/**
 * Estimates the size of a text before it is parsed. `parts` counts opening brackets, commas and colons outside
 * strings, which are never more than the keys and values, plus `escapedParts` for each string with an escape. Stops beyond `partsMax`.
 */
function extentOf(text: string): { parts: number; depth: number } {
  let parts = 0
  let open = 0
  let depth = 0
  for (let index = 0; index < text.length && parts <= partsMax; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) {
      let isEscaped = false
      for (index++; index < text.length; index++) {
        const inner = text.charCodeAt(index)
        if (inner === quote) break
        if (inner !== backslash) continue
        isEscaped = true
        index++
      }
      if (isEscaped) parts += escapedParts
    } else if (code === openBracket || code === openBrace) {
      parts++
      if (++open > depth) depth = open
    } else if (code === comma || code === colon) parts++
    else if (code === closeBracket || code === closeBrace) open--
  }
  return { parts, depth }
}

function refuseFaults(body: unknown): void {
  const found = faultIn(body, 0)
  if (found === undefined) return
  const pointer = `/body${found.pointer}`
  const faults = [{ pointer: found.detail === tooDeep ? `${pointer.slice(0, 60)}…` : pointer, detail: found.detail }]
  throw new HttpError('malformed_request', undefined, { faults })
}

const tooDeep = `is nested deeper than ${depthMax} levels: flatten it`

/** The first fault in a value, with its place relative to the value. Recurses to at most `depthMax`. */
function faultIn(value: unknown, depth: number): Fault | undefined {
  if (typeof value === 'string') return faultHere(unstorable(value))
  if (typeof value !== 'object' || value === null) return undefined
  if (depth === depthMax) return { pointer: '', detail: tooDeep }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const found = faultIn(value[index], depth + 1)
      if (found !== undefined) return { pointer: `/${index}${found.pointer}`, detail: found.detail }
    }
    return undefined
  }
  for (const key of Object.keys(value)) {
    const faultInKey = key === '__proto__' ? 'is not allowed as a name: choose another' : unstorable(key)
    const found = faultHere(faultInKey) ?? faultIn((value as Record<string, unknown>)[key], depth + 1)
    if (found !== undefined) return { pointer: `/${pointerPart(key)}${found.pointer}`, detail: found.detail }
  }
  return undefined
}

function faultHere(detail: string | undefined): Fault | undefined {
  return detail === undefined ? undefined : { pointer: '', detail }
}

/** The fault of a text that no store can keep; also used for query strings. */
export function unstorable(text: string): string | undefined {
  if (text.includes('\0')) return 'contains a NUL character: remove it'
  return text.isWellFormed() ? undefined : 'contains half of a surrogate pair: send complete characters'
}

/** A key as part of a JSON pointer (RFC 6901 §3), shortened for the answer. */
export function pointerPart(key: string): string {
  const short = key.length > 100 ? `${key.slice(0, 100)}…` : key
  return short.toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1')
}
