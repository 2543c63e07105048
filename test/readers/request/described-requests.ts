// Requests made from the description of an interface (OpenAPI 3.1), right ones and wrong ones, and what answers must be by it.

import * as fc from 'fast-check'
import { Compile } from 'typebox/schema'
import { boundaryTexts } from './boundary-texts.ts'
import { hostileTexts } from './hostile-texts.ts'

interface Schema {
  readonly type?: string
  readonly enum?: readonly string[]
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
}

interface Parameter {
  readonly name: string
  readonly in: 'query' | 'path'
  readonly schema: Schema
}

export interface Operation {
  readonly parameters: readonly Parameter[]
  readonly responses: Readonly<Record<string, { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }>>
}

/** The text of a parameter as it stands in the URL, and whether its schema takes it. */
interface Given {
  readonly name: string
  readonly escaped: string
  readonly isRight: boolean
}

export interface Request {
  readonly query: readonly Given[]
  readonly accept: string
}

/** Most parameters are left out and most of the others are right: each wrong one ends the request, and two hide each other. */
export function requestsOf({ parameters, responses }: Operation): fc.Arbitrary<Request> {
  const given = parameters.filter(one => one.in === 'query').map(({ name, schema }) => valueOf(name, schema))
  const unknown = fc.constantFrom(...hostileTexts).map(text => ({ name: text, escaped: encodeURIComponent(text), isRight: false }))
  const accepted = Object.keys(responses['200']!.content)
  return fc.record({
    query: fc
      .tuple(...given.map(one => seldom(one, 12)), seldom(unknown, 30))
      .map(some => some.flatMap(one => (one === undefined ? [] : [one]))),
    accept: fc.constantFrom(...accepted, '*/*', 'text/html', `${accepted[0]};q=0.1, ${accepted[1]}`, hostileTexts[0]!),
  })
}

/** Once in so many times. */
function seldom<Value>(arbitrary: fc.Arbitrary<Value>, times: number): fc.Arbitrary<Value | undefined> {
  return fc.oneof({ weight: times - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary })
}

function valueOf(name: string, schema: Schema): fc.Arbitrary<Given> {
  const boundary = boundaryTexts[name]
  const text = fc.oneof(
    { weight: 5, arbitrary: rightText(schema) },
    { weight: 1, arbitrary: fc.constantFrom(...hostileTexts) },
    ...(boundary === undefined ? [] : [{ weight: 3, arbitrary: fc.constantFrom(...boundary) }]),
  )
  const given = text.map(one => ({ name, escaped: encodeURIComponent(one), isRight: takes(schema, one) }))
  const undecodable = fc.constantFrom('%', '%zz', '%E6%B8', '%ED%A0%80', '%00').map(escaped => ({ name, escaped, isRight: false }))
  return fc.oneof({ weight: 15, arbitrary: given }, { weight: 1, arbitrary: undecodable })
}

function rightText({ type, enum: choices, pattern, minimum, maximum, minLength = 0, maxLength = 60 }: Schema): fc.Arbitrary<string> {
  if (choices !== undefined) return fc.constantFrom(...choices)
  if (type === 'integer') return fc.integer({ min: minimum ?? -1000, max: maximum ?? 1000 }).map(String)
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern)).filter(one => one.length <= 100)
  return fc.string({ minLength, maxLength: Math.min(maxLength, 60), unit: 'binary' }).filter(one => !one.includes('\0'))
}

function takes(schema: Schema, text: string): boolean {
  const value = schema.type === 'integer' && /^-?\d{1,16}$/.test(text) ? Number(text) : text
  return !text.includes('\0') && Compile(schema as object).Check(value)
}

export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly body: string
}

/** What is wrong with an answer by the description; undefined for one that is as described. */
export function deviation({ responses }: Operation, request: Request, { status, contentType, body }: Answer): string | undefined {
  const described = responses[status]
  if (described === undefined) return `the status ${status} is not described`
  const [type = ''] = contentType.split(';')
  const content = described.content[type]
  if (content === undefined) return `the type ${type} is not described for ${status}`
  if (status === 200 && request.query.some(({ isRight }) => !isRight)) return 'a wrong parameter is taken'
  if (type === 'application/json') return schemaFault(content.schema, JSON.parse(body))
  const page = responses['200']!.content['application/json']!.schema
  if (type === 'application/x-ndjson') {
    const record = page.properties!['messages']!.items!
    const lines = body.split('\n').slice(0, -1)
    return lines.map(line => schemaFault(record, JSON.parse(line))).find(fault => fault !== undefined)
  }
  return /^[Cc]hannel,[A-Za-z_,]+\r\n/.test(body) ? undefined : 'there is no header line'
}

const compiled = new WeakMap<Schema, ReturnType<typeof Compile>>()

function schemaFault(schema: Schema, value: unknown): string | undefined {
  const validator = compiled.get(schema) ?? Compile(schema as object)
  compiled.set(schema, validator)
  if (validator.Check(value)) return undefined
  return JSON.stringify(validator.Errors(value)[1].slice(0, 5))
}
