// Faults of an OpenAPI 3.1 document that affect people and code generators.

import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

export interface Schema {
  readonly examples?: readonly unknown[]
  readonly default?: unknown
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}

export interface Shown {
  readonly name?: string
  readonly in?: string
  readonly schema: Schema
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

export interface Operation {
  readonly operationId?: string
  readonly summary?: string
  readonly tags?: readonly string[]
  readonly deprecated?: boolean
  readonly security?: readonly Readonly<Record<string, unknown>>[]
  readonly parameters?: readonly (Shown & { readonly content?: Readonly<Record<string, Shown>> })[]
  readonly requestBody?: { readonly required?: boolean; readonly content: Readonly<Record<string, Shown>> }
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string
        readonly headers?: Readonly<Record<string, object>>
        readonly content?: Readonly<Record<string, Shown>>
      }
    >
  >
}

export interface Document {
  readonly tags?: readonly { readonly name: string; readonly description?: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas?: Readonly<Record<string, Schema>>; readonly securitySchemes?: Readonly<Record<string, object>> }
}

/** The document with its references resolved. */
export function resolved(document: Document): Document {
  const resolve = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map(resolve)
    const { $ref, ...beside } = value as { $ref?: unknown }
    if (typeof $ref !== 'string') return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolve(one)]))
    const target = $ref.split('/').slice(1)
    return { ...(resolve(target.reduce((at, key) => (at as Record<string, unknown>)[key], document as unknown)) as object), ...beside }
  }
  return resolve(document) as Document
}

export async function documentFaults(document: Document): Promise<string[]> {
  const { valid, errors } = await validator.validate(structuredClone(document) as unknown as Record<string, unknown>)
  if (!valid) return [`this is not OpenAPI 3.1: ${JSON.stringify(errors)}`]
  const { paths, tags = [], components } = resolved(document)
  const declared = tags.map(({ name }) => name)
  const ids = new Set<string>()
  const faults: string[] = []
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const fault = (what: string): void => void faults.push(`${method.toUpperCase()} ${path}: ${what}`)
      const { operationId = '', summary, tags: own = [], security = [], parameters = [], requestBody, responses } = operation
      if (!/^[a-z][A-Za-z]+$/.test(operationId)) fault('has no operationId')
      if (ids.has(operationId)) fault(`the operationId ${operationId} is another's`)
      ids.add(operationId)
      if (summary === undefined) fault('has no summary')
      if (own.length === 0) fault('has no tag')
      for (const tag of own) if (!declared.includes(tag)) fault(`the tag ${tag} is not declared`)
      for (const one of security.flatMap(one => Object.keys(one)))
        if (!Object.hasOwn(components.securitySchemes ?? {}, one)) fault(`the security scheme ${one} is not declared`)
      const named = parameters.filter(one => one.in === 'path').map(({ name }) => `{${name}}`)
      if (named.sort().join() !== (path.match(/\{[^}]*\}/g) ?? []).sort().join()) fault('the path has other parameters than are described')
      for (const one of parameters)
        exampleFaults(one.content?.['application/json'] ?? one).forEach(what => fault(`parameter ${one.name}: ${what}`))
      for (const [type, one] of Object.entries(requestBody?.content ?? {}))
        exampleFaults(one).forEach(what => fault(`body ${type}: ${what}`))
      for (const [status, { description, content = {} }] of Object.entries(responses)) {
        if (description === 'Default Response') fault(`${status} has no description`)
        for (const [type, one] of Object.entries(content)) exampleFaults(one).forEach(what => fault(`${status} ${type}: ${what}`))
      }
    }
  }
  for (const [name, schema] of Object.entries(components.schemas ?? {}))
    faults.push(...schemaFaults(schema).map(what => `schema ${name}: ${what}`))
  for (const { name, description } of tags) if (description === undefined) faults.push(`the tag ${name} has no description`)
  return [...faults, ...unnamedSchemas(document)]
}

const validator = new Validator()
const ajv = new Ajv2020({ strict: false, allErrors: true })
addFormats.default(ajv)

function exampleFaults({ schema, example, examples = {} }: Shown): string[] {
  const all = [
    ...(example === undefined ? [] : [example]),
    ...Object.values(examples).map(({ value }) => value),
    ...(schema.examples ?? []),
  ]
  return all.length === 0 ? ['has no example'] : all.flatMap(one => valueFaults(one, schema))
}

/** Faults of the examples within a schema. A required property without one would be shown as "string", unless the whole has an example. */
function schemaFaults(schema: Schema, isShown = false): string[] {
  const { examples = [], properties = {}, required = [], items } = schema
  const shown = isShown || examples.length > 0
  return [
    ...examples.flatMap(one => valueFaults(one, schema)),
    ...(shown ? [] : required.filter(name => !hasExample(properties[name]!)).map(name => `${name} has no example`)),
    ...Object.entries(properties).flatMap(([name, one]) => schemaFaults(one, shown).map(what => `${name}: ${what}`)),
    ...(items === undefined ? [] : schemaFaults(items, shown)),
  ]
}

function hasExample({ examples, default: preset, const: fixed, enum: choices, anyOf, items, properties }: Schema): boolean {
  return [examples, preset, fixed, choices, anyOf, items, properties].some(one => one !== undefined)
}

function valueFaults(example: unknown, schema: Schema): string[] {
  if (JSON.stringify(example).includes('"string"')) return ['an example says "string"']
  return ajv.validate(schema, example) ? [] : [`${JSON.stringify(example)} is not an example: ${ajv.errorsText()}`]
}

/** Objects with the same properties in several places. */
function unnamedSchemas(document: Document): string[] {
  const places = new Map<string, number>()
  const look = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    const { properties, required } = value as { properties?: object; required?: object }
    if (properties !== undefined && Object.keys(properties).length > 0) {
      const text = JSON.stringify({ properties, required })
      places.set(text, (places.get(text) ?? 0) + 1)
    }
    Object.values(value).forEach(look)
  }
  look(document)
  return [...places].filter(([, count]) => count > 1).map(([text]) => `a schema that is used more than once has no name: ${text}`)
}
