// What a request's check found, as faults that say what to do.

import type { FastifySchemaValidationError } from 'fastify'
import { allowedBy, type Keywords } from '../allowed.ts'
import { nearest } from '../nearest.ts'
import type { Fault } from './errors.ts'
import { pointerPart } from './json-body.ts'

/** More are of no use to a person, and an answer must not grow with what a hostile sender got wrong. */
const faultsMax = 20

/** The check's own error; `parentSchema` is there because the validator is asked to be verbose. */
interface Found extends FastifySchemaValidationError {
  readonly schemaPath: string
  readonly parentSchema?: Keywords & { properties?: Record<string, unknown> }
}

const places: Readonly<Record<string, string>> = { body: '/body', querystring: '/query', params: '/path', headers: '/header' }

/**
 * A list longer than its schema allows is refused before its items are looked at: the check collects every fault, and half a
 * million of them in one body of 1 MiB took 235 ms.
 */
export function listTooLong(body: unknown, schema: unknown): Fault | undefined {
  const keywords = (schema ?? {}) as Keywords
  if (!Array.isArray(body) || keywords.maxItems === undefined || body.length <= keywords.maxItems) return undefined
  return { pointer: '/body', detail: `has ${body.length} items: give ${allowedBy(keywords)}` }
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
      faults.set('', { pointer: '', detail: `only the first ${faultsMax} faults are listed` })
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
  if (keyword === 'additionalProperties') {
    const name = String(params['additionalProperty'])
    return {
      pointer: `${pointer}/${pointerPart(name)}`,
      detail: `is not known here: ${suggestion(name, Object.keys(parentSchema.properties ?? {}))}`,
    }
  }
  if (keyword === 'uniqueItems') return { pointer, detail: 'names something twice: name each once' }
  const allowed = allowedBy(parentSchema)
  return { pointer, detail: allowed === 'another value' ? `${message}: change it` : `is not allowed: give ${allowed}` }
}

function suggestion(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  if (near !== undefined) return `did you mean ${near}?`
  return known.length === 0 ? 'remove it' : `remove it; known are ${known.join(', ')}`
}
