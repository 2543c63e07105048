// Converts validation errors of a request into faults that say what to do.

import type { FastifySchemaValidationError } from 'fastify'
import { allowedBy, type Keywords } from '../../config/options/allowed.ts'
import { nearest } from '../../config/options/nearest.ts'
import type { Fault } from '../errors.ts'
import { pointerPart } from './json-body.ts'

/** More would not help the user, and the answer must not grow with the faults of a hostile request. */
const faultsMax = 20
const moreFaults: Fault = { pointer: '', detail: `only the first ${faultsMax} faults are listed` }

/** The validator's error; `parentSchema` is set because the validator is verbose. */
interface Found extends FastifySchemaValidationError {
  readonly schemaPath: string
  readonly parentSchema?: Keywords & { properties?: Record<string, unknown> }
}

const places: Readonly<Record<string, string>> = { body: '/body', querystring: '/query', params: '/path', headers: '/header' }

/** The keywords of a body's schema that are used before validation. */
interface BodySchema extends Keywords {
  properties?: Record<string, BodySchema>
  items?: BodySchema
}

/**
 * A list longer than the schema allows. It is rejected before validation, which creates an object for every fault of the body (60 ms for
 * 100,000 wrong ids). Recurses as deep as the schema.
 */
export function longListIn(value: unknown, schema: BodySchema, pointer = '/body'): Fault | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { maxItems = Infinity, items, properties = {} } = schema
  if (Array.isArray(value)) {
    if (value.length > maxItems) return { pointer, detail: `has ${value.length} items: give ${allowedBy(schema)}` }
    if (items?.properties === undefined) return undefined
    for (const [index, item] of value.entries()) {
      const found = longListIn(item, items, `${pointer}/${index}`)
      if (found !== undefined) return found
    }
    return undefined
  }
  for (const [key, inner] of Object.entries(properties)) {
    const found = longListIn((value as Record<string, unknown>)[key], inner, `${pointer}/${key}`)
    if (found !== undefined) return found
  }
  return undefined
}

/** @param context the part of the request, as Fastify names it: `body`, `querystring`, `params`, `headers` */
export function faultsOf(errors: readonly FastifySchemaValidationError[], context: string | undefined): Fault[] {
  const found = errors as readonly Found[]
  const unions = found.filter(({ keyword }) => keyword === 'anyOf').map(({ schemaPath }) => `${schemaPath}/`)
  const faults = new Map<string, Fault>()
  for (const error of found) {
    // For a union only one fault is reported: which alternative was meant is unknown.
    if (unions.some(path => error.schemaPath.startsWith(path))) continue
    const { pointer, detail } = faultOf(error, places[context ?? 'body'] ?? '')
    if (faults.has(pointer)) continue
    if (faults.size === faultsMax) {
      faults.set('', moreFaults)
      break
    }
    faults.set(pointer, { pointer, detail })
  }
  return [...faults.values()]
}

function faultOf({ keyword, params, instancePath, parentSchema = {}, message }: Found, place: string): Fault {
  const pointer = place + instancePath
  if (keyword === 'required')
    return { pointer: `${pointer}/${pointerPart(String(params['missingProperty']))}`, detail: 'is missing: add it' }
  if (keyword === 'additionalProperties') return unknownKey(String(params['additionalProperty']), pointer, parentSchema.properties ?? {})
  if (keyword === 'uniqueItems') return { pointer, detail: 'contains duplicates: list each item once' }
  const allowed = allowedBy(parentSchema)
  return { pointer, detail: allowed === 'another value' ? `${message}: change it` : `is not allowed: give ${allowed}` }
}

function unknownKey(name: string, pointer: string, known: object): Fault {
  return { pointer: `${pointer}/${pointerPart(name)}`, detail: `is unknown: ${suggestion(name, Object.keys(known))}` }
}

function suggestion(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  if (near !== undefined) return `did you mean ${near}?`
  return known.length === 0 ? 'remove it' : `remove it; allowed are ${known.join(', ')}`
}
