// Completes the OpenAPI document: names the schemas, adds an example to each body and parameter, and marks what is optional.

import { isDeepStrictEqual } from 'node:util'

/** A schema as routes write it. One with a `title` becomes a named schema of the document. */
interface Schema {
  readonly title?: string
  readonly description?: string
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly additionalProperties?: Schema | boolean
  /** Schema of the content, for a body that the route takes as raw bytes and for a parameter that is JSON. */
  readonly contentSchema?: Schema
  /** Text for errors. */
  readonly allowed?: string
  /** The body is optional. */
  readonly optionalBody?: true
  /** The header is not always sent. */
  readonly optional?: true
}

type Named = Schema | { readonly $ref: string; readonly description?: string }

interface Shown {
  schema?: Named
  example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
  required?: boolean
}

interface Parameter extends Shown {
  /** Replaces the schema for text that is JSON. */
  content?: Record<string, Shown>
}

interface Response {
  readonly description?: string
  readonly headers?: Readonly<Record<string, Shown>>
  readonly content?: Readonly<Record<string, Shown>>
}

interface Operation {
  readonly tags?: readonly string[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { required?: boolean; readonly content: Readonly<Record<string, Shown>> }
  readonly responses: Record<string, Response | { readonly $ref: string }>
}

export interface Document {
  tags?: readonly { readonly name: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { schemas?: Record<string, Named>; responses?: Record<string, Response> }
}

/**
 * Changes the document in place, and returns it.
 *
 * @throws Error if two schemas share a name
 */
export function completeDocument(document: Document): Document {
  const schemas: Record<string, Named> = {}
  const shared: Record<string, Response> = {}
  const operations = Object.values(document.paths).flatMap(methods => Object.values(methods))
  for (const { parameters = [], requestBody, responses } of operations) {
    for (const parameter of parameters) completeParameter(parameter, schemas)
    for (const body of Object.values(requestBody?.content ?? {})) {
      if ((body.schema as Schema).optionalBody === true) requestBody!.required = false
      show(body, schemas)
    }
    for (const [status, response] of Object.entries(responses as Record<string, Response>)) {
      completeResponse(response, schemas)
      const code = errorCodeOf(response)
      if (code === undefined) continue
      shared[code] = response
      responses[status] = { $ref: `#/components/responses/${code}` }
    }
  }
  const sorted = Object.entries(schemas).sort(([one], [other]) => (one < other ? -1 : 1))
  Object.assign(document.components, { schemas: Object.fromEntries(sorted), responses: shared })
  const used = new Set(operations.flatMap(({ tags = [] }) => tags))
  document.tags = (document.tags ?? []).filter(({ name }) => used.has(name))
  return document
}

function completeParameter(parameter: Parameter, schemas: Record<string, Named>): void {
  const { default: preset, contentSchema } = parameter.schema as Schema
  if (preset !== undefined) parameter.required = false
  const shown: Shown = contentSchema === undefined ? parameter : { schema: contentSchema }
  show(shown, schemas)
  // The page prefills the example of a parameter, but not one inside its schema.
  if (parameter.required !== true && shown.example !== undefined) {
    shown.schema = { ...shown.schema, examples: [shown.example] }
    delete shown.example
  }
  if (contentSchema === undefined) return
  parameter.content = { 'application/json': shown }
  delete parameter.schema
}

function completeResponse({ headers = {}, content = {} }: Response, schemas: Record<string, Named>): void {
  for (const header of Object.values(headers)) {
    header.required = (header.schema as Schema).optional !== true
    header.schema = named(header.schema as Schema, schemas)
  }
  for (const body of Object.values(content)) show(body, schemas)
}

/** Adds an example if there is none, and converts the schema for the document. */
function show(one: Shown, schemas: Record<string, Named>): void {
  const schema = one.schema as Schema
  const example = one.examples === undefined ? (one.example ?? exampleOf(schema)) : undefined
  if (example !== undefined) one.example = example
  one.schema = named(schema, schemas)
}

/** The error code of a response that all routes share and that is defined once in the document. */
function errorCodeOf({ description, content }: Response): string | undefined {
  const example = content?.['application/problem+json']?.example as { readonly code: string; readonly title: string } | undefined
  return example?.title === description ? example?.code : undefined
}

/** Converts a schema for the document. One with a title is added to `schemas` and replaced by a reference. */
function named(schema: Schema, schemas: Record<string, Named>): Named {
  const { contentSchema, allowed: _allowed, optionalBody: _optionalBody, optional: _optional, ...written } = schema
  if (contentSchema !== undefined) return named(contentSchema, schemas)
  const inner = (one: Schema): Named => named(one, schemas)
  const { title, properties, items, anyOf, additionalProperties } = written
  // A property with a default is optional: it is filled in before validation.
  const required = written.required?.filter(name => properties?.[name]?.default === undefined)
  const whole = {
    ...(written.enum?.every(one => typeof one === 'string') === true ? { type: 'string' } : {}),
    ...written,
    ...(required && { required }),
    ...(properties && { properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, inner(one)])) }),
    ...(items && { items: inner(items) }),
    ...(anyOf && { anyOf: anyOf.map(inner) }),
    ...(typeof additionalProperties === 'object' && { additionalProperties: inner(additionalProperties) }),
  } as Schema
  if (title === undefined) return whole
  const known = (schemas[title] ??= whole) as Schema
  const { description } = whole
  if (!isDeepStrictEqual({ ...known, description }, { ...whole, description })) throw new Error(`two different schemas are called ${title}`)
  return {
    $ref: `#/components/schemas/${title}`,
    ...(description === known.description || description === undefined ? {} : { description }),
  }
}

/** Builds an example from those of the properties: the required ones, and those with their own example. */
export function exampleOf({ examples, default: preset, enum: choices, anyOf, type, properties, required = [], items }: Schema): unknown {
  const own = examples?.[0] ?? preset ?? choices?.[0]
  if (own !== undefined) return own
  if (anyOf !== undefined) return exampleOf(anyOf[0]!)
  if (type === 'array' && items !== undefined) return [exampleOf(items)]
  if (type !== 'object') return undefined
  const shown = Object.entries(properties ?? {}).filter(([name, one]) => required.includes(name) || one.examples !== undefined)
  return Object.fromEntries(shown.map(([name, one]) => [name, exampleOf(one)]))
}
