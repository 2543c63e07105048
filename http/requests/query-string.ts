// Prepares query strings for validation: rejects repeated parameters, except those that are lists, and converts text to the numbers and booleans of the schema.

import type { FastifyRequest } from 'fastify'
import { type Fault, HttpError } from '../errors.ts'
import { pointerPart, unstorable } from './json-body.ts'

interface QuerySchema {
  readonly properties?: Readonly<Record<string, { readonly type?: string; readonly format?: string } | undefined>>
  readonly additionalProperties?: unknown
}

/**
 * Converts scalars only, and only in plain notation: `10`, `-1`, `2.5`, and the twelve spellings of true and false that clients send.
 * Anything else stays text, and validation reports what is allowed: `limit=abc` and `limit=` are faults, not 0. On routes that ignore unknown
 * parameters, an empty text (`name=`) counts as not given.
 *
 * @throws HttpError `malformed_request` that names each parameter that is repeated, or contains text that no store can keep
 */
export function prepareQuery(request: FastifyRequest): void {
  const query = request.query as Record<string, unknown>
  const { properties = {}, additionalProperties } = schemaOf(request)
  const isLenient = additionalProperties !== false
  const faults: Fault[] = []
  for (const name of Object.keys(query)) {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined
    const isList = property?.type === 'array'
    const given = query[name]
    const texts = Array.isArray(given) ? (given as string[]) : [given as string]
    if (texts.length > 1 && !isList) {
      faults.push({ pointer: `/query/${pointerPart(name)}`, detail: 'is repeated: give it once' })
      continue
    }
    const problem = [name, ...texts].map(unstorable).find(one => one !== undefined)
    if (problem !== undefined) faults.push({ pointer: `/query/${pointerPart(name)}`, detail: problem })
    if (isList) {
      query[name] = texts
      continue
    }
    const [value = ''] = texts
    if (value === '' && isLenient && property !== undefined && !isScalar(property.type)) delete query[name]
    else query[name] = property?.format === 'date-time' ? withSign(value) : coerce(value, property?.type)
  }
  if (faults.length > 0) throw new HttpError('malformed_request', undefined, { faults })
}

function schemaOf(request: FastifyRequest): QuerySchema {
  return (request.routeOptions.schema?.querystring as QuerySchema | undefined) ?? {}
}

/** A time of a query, in which the + of its offset was decoded as a space (URL Standard §5.1). */
export function withSign(text: string): string {
  return text.replace(/ (?=..:..$)/, '+')
}

const spellings = new Map([
  ...['1', 't', 'T', 'true', 'True', 'TRUE'].map(text => [text, true] as const),
  ...['0', 'f', 'F', 'false', 'False', 'FALSE'].map(text => [text, false] as const),
])

function isScalar(type: string | undefined): boolean {
  return type === 'integer' || type === 'number' || type === 'boolean'
}

function coerce(text: string, type: string | undefined): unknown {
  if (type === 'integer' && /^-?\d{1,16}$/.test(text)) return Number(text)
  if (type === 'number' && /^-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?$/.test(text)) return Number(text)
  return type === 'boolean' ? (spellings.get(text) ?? text) : text
}
