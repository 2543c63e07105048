// A request's body as JSON: what cannot be parsed, and what no store could keep, is refused with its place.

import { isUtf8 } from 'node:buffer'
import { parseExactKeys } from '../../transformers/json/exact-json.ts'
import { type Fault, HttpError } from './errors.ts'
import { jsonFaultOffset } from './json-fault.ts'

/** Deeper than anything the interfaces take; what walks a value recursively behind this is safe. */
const depthMax = 64

/**
 * @throws HttpError `malformed_request` for bytes that are not UTF-8 or not JSON (with line and column), for nesting deeper than 64, for
 * a key `__proto__`, and for text with NUL or lone surrogates, which no store keeps
 */
export function parseJsonBody(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new HttpError('malformed_request', 'the body is not UTF-8: send JSON in UTF-8')
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
  if (text.trim() === '') throw new HttpError('malformed_request', 'the body is empty: send JSON')
  let value: unknown
  try {
    value = parseJsonText(text)
  } catch (cause) {
    throw new HttpError('malformed_request', `the body is not JSON: ${faultOf(text)}`, { cause })
  }
  if (mayHoldFault(text)) refuseFaults(value)
  return value
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
  const before = text.slice(0, offset)
  const line = before.split('\n').length
  const column = offset - before.lastIndexOf('\n')
  const character = text.codePointAt(offset)
  const what = character === undefined ? 'it ends too early' : `${JSON.stringify(String.fromCodePoint(character))} is not expected`
  return `${what} at line ${line}, column ${column}`
}

/** Cheap, and true for few bodies: escapes, raw NUL is no JSON, and more brackets than the depth allows. */
function mayHoldFault(text: string): boolean {
  if (text.includes('\\u') || text.includes('__proto__')) return true
  let brackets = 0
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if ((code === 0x5b || code === 0x7b) && ++brackets > depthMax) return true
  }
  return false
}

/** Walks with its own stack: a recursion would end where a hostile sender chooses. */
function refuseFaults(root: unknown): void {
  const rest: { value: unknown; pointer: string; depth: number }[] = [{ value: root, pointer: '/body', depth: 0 }]
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    const { value, pointer, depth } = next
    if (typeof value === 'string') {
      refuseText(value, pointer)
    } else if (typeof value === 'object' && value !== null) {
      if (depth === depthMax) throw fault(`${pointer.slice(0, 60)}…`, `is nested deeper than ${depthMax} levels: send something flatter`)
      for (const [key, inner] of Object.entries(value)) {
        const place = `${pointer}/${pointerPart(key)}`
        if (key === '__proto__') throw fault(place, 'is no name that can be taken: choose another')
        refuseText(key, place)
        if (typeof inner === 'string' || typeof inner === 'object') rest.push({ value: inner, pointer: place, depth: depth + 1 })
      }
    }
  }
}

/** A fault in a text that no store keeps; also for query strings. */
export function unstorable(text: string): string | undefined {
  if (text.includes('\0')) return 'holds a NUL character: remove it'
  return text.isWellFormed() ? undefined : 'holds half of a surrogate pair: send whole characters'
}

function refuseText(text: string, pointer: string): void {
  const problem = unstorable(text)
  if (problem !== undefined) throw fault(pointer, problem)
}

function fault(pointer: string, detail: string): HttpError {
  const faults: Fault[] = [{ pointer, detail }]
  return new HttpError('malformed_request', undefined, { faults })
}

/** A key as a part of a JSON pointer (RFC 6901 §3), short enough to be answered. */
export function pointerPart(key: string): string {
  const short = key.length > 100 ? `${key.slice(0, 100)}…` : key
  return short.toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1')
}
