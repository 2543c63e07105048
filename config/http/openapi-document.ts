// What a description needs beside the schemas of routes: names of schemas, an example of each body and parameter, what may be left out.

import { isDeepStrictEqual } from 'node:util'

/** A schema as routes write it. One with a `title` becomes a schema of the document, of that name. */
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
  /** Of bytes that a route takes as they are, and of a parameter that is JSON: what is in them. */
  readonly contentSchema?: Schema
  /** Words for errors. */
  readonly allowed?: string
  /** A body that may be left out. */
  readonly optionalBody?: true
  /** A header that is not always there. */
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
  /** In place of a schema, of a text that is JSON. */
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
 * @throws Error where two schemas have one name
 */
export function completeDocument(document: Document): Document {
  const schemas: Record<string, Named> = {}
  const responses: Record<string, Response> = {}
  const used = new Set<string>()
  const show = (one: Shown): void => {
    const schema = one.schema as Schema
    const example = one.examples === undefined ? (one.example ?? exampleOf(schema)) : undefined
    if (example !== undefined) one.example = example
    one.schema = named(schema, schemas)
  }
  const showParameter = (one: Parameter): void => {
    const { default: preset, contentSchema } = one.schema as Schema
    if (preset !== undefined) one.required = false
    if (contentSchema !== undefined) {
      one.content = { 'application/json': { schema: contentSchema } }
      show(one.content['application/json']!)
      delete one.schema
      return
    }
    show(one)
    // The page fills in the example of a parameter, but not one that its schema has.
    if (one.required === true || one.example === undefined) return
    one.schema = { ...one.schema, examples: [one.example] }
    delete one.example
  }
  for (const operation of Object.values(document.paths).flatMap(methods => Object.values(methods))) {
    for (const tag of operation.tags ?? []) used.add(tag)
    operation.parameters?.forEach(showParameter)
    const { requestBody } = operation
    for (const body of Object.values(requestBody?.content ?? {})) {
      if ((body.schema as Schema).optionalBody === true) requestBody!.required = false
      show(body)
    }
    for (const [status, response] of Object.entries(operation.responses as Record<string, Response>)) {
      const { headers = {}, content = {} } = response
      for (const header of Object.values(headers)) {
        header.required = (header.schema as Schema).optional !== true
        header.schema = named(header.schema as Schema, schemas)
      }
      Object.values(content).forEach(show)
      const code = errorCodeOf(response)
      if (code === undefined) continue
      responses[code] = response
      operation.responses[status] = { $ref: `#/components/responses/${code}` }
    }
  }
  document.components.schemas = Object.fromEntries(Object.entries(schemas).sort(([one], [other]) => (one < other ? -1 : 1)))
  document.components.responses = responses
  document.tags = (document.tags ?? []).filter(({ name }) => used.has(name))
  return document
}

/** Of the answer that every route gives in such a case, and which stands once in the document. */
function errorCodeOf({ description, content }: Response): string | undefined {
  const example = content?.['application/problem+json']?.example as { readonly code: string; readonly title: string } | undefined
  return example?.title === description ? example?.code : undefined
}

/** The schema for the document; one with a title goes to `schemas`, and a reference to it comes back. */
function named(schema: Schema, schemas: Record<string, Named>): Named {
  const { contentSchema, allowed: _allowed, optionalBody: _optionalBody, optional: _optional, ...written } = schema
  if (contentSchema !== undefined) return named(contentSchema, schemas)
  const inner = (one: Schema): Named => named(one, schemas)
  const { title, properties, items, anyOf, additionalProperties } = written
  // What has a default may be left out: it is filled in before the check.
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
  if (!isDeepStrictEqual({ ...known, description }, { ...whole, description })) throw new Error(`two schemas are called ${title}`)
  return {
    $ref: `#/components/schemas/${title}`,
    ...(description === known.description || description === undefined ? {} : { description }),
  }
}

/** Made from the examples of the parts: what must be there, and what has an example of its own. */
function exampleOf({ examples, default: preset, enum: choices, anyOf, type, properties, required = [], items }: Schema): unknown {
  const own = examples?.[0] ?? preset ?? choices?.[0]
  if (own !== undefined) return own
  if (anyOf !== undefined) return exampleOf(anyOf[0]!)
  if (type === 'array' && items !== undefined) return [exampleOf(items)]
  if (type !== 'object') return undefined
  const shown = Object.entries(properties ?? {}).filter(([name, one]) => required.includes(name) || one.examples !== undefined)
  return Object.fromEntries(shown.map(([name, one]) => [name, exampleOf(one)]))
}
