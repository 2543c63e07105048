// Query strings before their check: a repeated parameter is refused, and texts become the numbers and booleans that the schema says.

import type { FastifyRequest } from 'fastify'
import { type Fault, HttpError } from './errors.ts'
import { pointerPart, unstorable } from './json-body.ts'

type Properties = Readonly<Record<string, { readonly type?: string } | undefined>>

/**
 * Coerces scalars only, and only what is written plainly: `10`, `-1`, `2.5`, `true`, `false`. Everything else stays a text, and the
 * check says what is allowed: `limit=abc` and `limit=` are faults and not 0.
 *
 * @throws HttpError `malformed_request` that names each parameter given more than once, or holding what no store keeps
 */
export function prepareQuery(request: FastifyRequest): void {
  const query = request.query as Record<string, unknown>
  const properties = propertiesOf(request)
  const faults: Fault[] = []
  for (const name of Object.keys(query)) {
    const value = query[name]
    if (typeof value !== 'string') {
      faults.push({ pointer: `/query/${pointerPart(name)}`, detail: 'is given more than once: give it once' })
      continue
    }
    const problem = unstorable(name) ?? unstorable(value)
    if (problem !== undefined) faults.push({ pointer: `/query/${pointerPart(name)}`, detail: problem })
    query[name] = coerce(value, Object.hasOwn(properties, name) ? properties[name]?.type : undefined)
  }
  if (faults.length > 0) throw new HttpError('malformed_request', undefined, { faults })
}

function propertiesOf(request: FastifyRequest): Properties {
  const schema = request.routeOptions.schema?.querystring as { properties?: Properties } | undefined
  return schema?.properties ?? {}
}

function coerce(text: string, type: string | undefined): unknown {
  if (type === 'integer' && /^-?\d{1,16}$/.test(text)) return Number(text)
  if (type === 'number' && /^-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?$/.test(text)) return Number(text)
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}
