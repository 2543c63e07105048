// What a request's check found, as faults that say what to do.

import type { FastifySchemaValidationError } from 'fastify'
import { allowedBy, type Keywords } from '../allowed.ts'
import { nearest } from '../nearest.ts'
import type { Fault } from './errors.ts'
import { pointerPart } from './json-body.ts'

/** More are of no use to a person, and an answer must not grow with what a hostile sender got wrong. */
const faultsMax = 20
const moreFaults: Fault = { pointer: '', detail: `only the first ${faultsMax} faults are listed` }

/** The check's own error; `parentSchema` is there because the validator is asked to be verbose. */
interface Found extends FastifySchemaValidationError {
  readonly schemaPath: string
  readonly parentSchema?: Keywords & { properties?: Record<string, unknown> }
}

const places: Readonly<Record<string, string>> = { body: '/body', querystring: '/query', params: '/path', headers: '/header' }

/** What is looked at of a body's schema before the check. */
interface BodySchema extends Keywords {
  properties?: Record<string, BodySchema>
  additionalProperties?: unknown
  items?: BodySchema
}

/**
 * Lists longer than the schema allows, and more unknown keys than are told: refused before the check, which makes an object of every fault
 * that a body has (100,000 wrong ids took it 60 ms). Empty for what the check may see.
 */
export function excessOf(body: unknown, schema: unknown): Fault[] {
  const unknownKeys: Fault[] = []
  const longList = gatherExcess(body, schema ?? {}, '/body', unknownKeys)
  if (longList !== undefined) return [longList]
  return unknownKeys.length > faultsMax ? [...unknownKeys.slice(0, faultsMax), moreFaults] : []
}

/** As deep as the schema. @returns a list that is too long */
function gatherExcess(value: unknown, schema: BodySchema, pointer: string, unknownKeys: Fault[]): Fault | undefined {
  if (typeof value !== 'object' || value === null || unknownKeys.length > faultsMax) return undefined
  if (Array.isArray(value)) {
    if (schema.maxItems !== undefined && value.length > schema.maxItems)
      return { pointer, detail: `has ${value.length} items: give ${allowedBy(schema)}` }
    if (schema.items?.properties === undefined) return undefined
    for (const [index, item] of value.entries()) {
      const found = gatherExcess(item, schema.items, `${pointer}/${index}`, unknownKeys)
      if (found !== undefined) return found
    }
    return undefined
  }
  const { properties } = schema
  if (properties === undefined) return undefined
  for (const key of Object.keys(value)) {
    const inner = Object.hasOwn(properties, key) ? properties[key] : undefined
    if (inner !== undefined) {
      const found = gatherExcess((value as Record<string, unknown>)[key], inner, `${pointer}/${pointerPart(key)}`, unknownKeys)
      if (found !== undefined) return found
    } else if (schema.additionalProperties === false) {
      unknownKeys.push(unknownKey(key, pointer, properties))
      if (unknownKeys.length > faultsMax) return undefined
    }
  }
  return undefined
}

/** @param context the part of the request, as Fastify names it: `body`, `querystring`, `params`, `headers` */
export function faultsOf(errors: readonly FastifySchemaValidationError[], context: string | undefined): Fault[] {
  const found = errors as readonly Found[]
  const unions = found.filter(({ keyword }) => keyword === 'anyOf').map(({ schemaPath }) => `${schemaPath}/`)
  const faults = new Map<string, Fault>()
  for (const error of found) {
    // Of a union only the whole is told: which of its parts was meant is not known.
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
  if (keyword === 'uniqueItems') return { pointer, detail: 'names something twice: name each once' }
  const allowed = allowedBy(parentSchema)
  return { pointer, detail: allowed === 'another value' ? `${message}: change it` : `is not allowed: give ${allowed}` }
}

function unknownKey(name: string, pointer: string, known: object): Fault {
  return { pointer: `${pointer}/${pointerPart(name)}`, detail: `is not known here: ${suggestion(name, Object.keys(known))}` }
}

function suggestion(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  if (near !== undefined) return `did you mean ${near}?`
  return known.length === 0 ? 'remove it' : `remove it; known are ${known.join(', ')}`
}
