// A request's body as JSON: what cannot be parsed, and what no store could keep, is refused with its place.

import { isUtf8 } from 'node:buffer'
import type { FastifyRequest } from 'fastify'
import { parseExactKeys } from '../../transformers/json/exact-json.ts'
import { type Fault, HttpError } from './errors.ts'
import { jsonFaultOffset } from './json-fault.ts'

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** Deeper than anything the interfaces take; what walks a value recursively behind this is safe. */
const depthMax = 64
/**
 * More keys and values than this in one body are refused before it is parsed. JSON.parse alone takes up to 50 ms for those that 1 MiB can hold,
 * and what looks at each of them afterwards several times that. A thousand things may have twenty keys of metadata each.
 */
const partsMax = 50_000
/** A key with an escape takes three times as long to read as one without. */
const escapedParts = 2

/**
 * @throws HttpError `malformed_request` for bytes that are not UTF-8 or not JSON (with line and column), for nesting deeper than 64, for
 * a key `__proto__`, and for text with NUL or lone surrogates, which no store keeps; `too_large` for more than 50,000 keys and values,
 * of which a text with an escape counts three times
 */
export function parseJsonBody(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new HttpError('malformed_request', 'the body is not UTF-8: send JSON in UTF-8')
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
  if (text.trim() === '') throw new HttpError('malformed_request', 'the body is empty: send JSON')
  const { parts, depth } = extentOf(text)
  if (parts > partsMax)
    throw new HttpError(
      'too_large',
      `the body holds more than ${partsMax} keys and values (a text with an escape in it counts three times): send less at once`,
    )
  let value: unknown
  try {
    value = parseJsonText(text)
  } catch (cause) {
    throw new HttpError('malformed_request', `the body is not JSON: ${faultOf(text)}`, { cause })
  }
  // A raw NUL is not JSON, so only escapes can hide what no store keeps.
  if (depth > depthMax || text.includes('\\u') || text.includes('__proto__')) refuseFaults(value)
  return value
}

/** Whether the request must have a body: its route takes one, and does not say `optionalBody` in its schema. */
export function needsBody(request: FastifyRequest): boolean {
  const schema = request.routeOptions.schema?.body as { readonly optionalBody?: true } | undefined
  return schema !== undefined && schema.optionalBody !== true
}

/** Fastify's parser of a body. An empty one is none where the route can do without: some clients send its headers all the same. */
export function jsonParser(request: FastifyRequest, body: Buffer | string, done: (error: Error | null, body?: unknown) => void): void {
  try {
    const isNone = body.length === 0 && !needsBody(request)
    done(null, isNone ? undefined : parseJsonBody(body as Buffer))
  } catch (error) {
    done(error as Error)
  }
}

/**
 * JSON that comes in a query or from a column: as JSON.parse, which however may read a key with an escape as another one.
 *
 * @throws SyntaxError for what is not JSON
 */
export function parseJsonText(text: string): unknown {
  return parseExactKeys(text)
}

function faultOf(text: string): string {
  const offset = jsonFaultOffset(text) ?? text.length
  let line = 1
  let lineStart = 0
  for (let next = text.indexOf('\n'); next >= 0 && next < offset; next = text.indexOf('\n', lineStart)) {
    line++
    lineStart = next + 1
  }
  const column = offset - lineStart + 1
  const character = text.codePointAt(offset)
  const what = character === undefined ? 'it ends too early' : `${JSON.stringify(String.fromCodePoint(character))} is not expected`
  return `${what} at line ${line}, column ${column}`
}

/**
 * How much a text holds, before it is known whether it is JSON. `parts` counts the brackets that open, the commas and the colons outside of
 * strings: never more than there are keys and values; and for each string with an escape `escapedParts` more. Stops beyond `partsMax`.
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

const tooDeep = `is nested deeper than ${depthMax} levels: send something flatter`

/** The first fault in a value, with its place below the value. Calls itself down to `depthMax` only. */
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
    const ofKey = key === '__proto__' ? 'is no name that can be taken: choose another' : unstorable(key)
    const found = faultHere(ofKey) ?? faultIn((value as Record<string, unknown>)[key], depth + 1)
    if (found !== undefined) return { pointer: `/${pointerPart(key)}${found.pointer}`, detail: found.detail }
  }
  return undefined
}

function faultHere(detail: string | undefined): Fault | undefined {
  return detail === undefined ? undefined : { pointer: '', detail }
}

/** A fault in a text that no store keeps; also for query strings. */
export function unstorable(text: string): string | undefined {
  if (text.includes('\0')) return 'holds a NUL character: remove it'
  return text.isWellFormed() ? undefined : 'holds half of a surrogate pair: send whole characters'
}

/** A key as a part of a JSON pointer (RFC 6901 §3), short enough to be answered. */
export function pointerPart(key: string): string {
  const short = key.length > 100 ? `${key.slice(0, 100)}…` : key
  return short.toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1')
}
