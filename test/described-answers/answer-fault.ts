// Compares an answer with the schema of its route: status, headers, content type, body, and properties that the serializer dropped.

import { gunzipSync } from 'node:zlib'
import { Ajv, type ValidateFunction } from 'ajv'
import addFormats from 'ajv-formats'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type ErrorCode, errors } from '../../http/errors.ts'
import { errorAnswers } from '../../http/openapi/error-schema.ts'

/** An answer in a route's schema: with a schema for each content type, or with one schema and `produces`. */
interface Described {
  readonly type?: string
  readonly headers?: Readonly<Record<string, { readonly optional?: true }>>
  readonly content?: Readonly<Record<string, { readonly schema: object }>>
}

interface RouteSchema {
  readonly hide?: boolean
  readonly produces?: readonly string[]
  readonly response?: Readonly<Record<string, Described>>
}

/** Paths without a route have no schema, and answer errors in the usual format. */
const noRoute: RouteSchema = { response: errorAnswers(...(Object.keys(errors) as ErrorCode[])) as Record<string, Described> }

/** A 500 in the format of all errors: no route describes one. */
export const defect = 'it is a defect, which the log tells'

// Not strict, because schemas contain keywords of descriptions.
const ajv = new Ajv({ strict: false })
addFormats.default(ajv)
const validators = new WeakMap<object, ValidateFunction>()

/**
 * @param payload as it is sent: text, bytes, a stream, or nothing
 * @param sent what the handler passed to the serializer; undefined if it wrote the text itself
 * @returns undefined if the answer matches its description, and for a hidden route or one that describes no answers
 */
export function answerFault(request: FastifyRequest, reply: FastifyReply, payload: unknown, sent: unknown): string | undefined {
  const route: RouteSchema = request.is404 ? noRoute : ((request.routeOptions.schema ?? {}) as RouteSchema)
  if (route.hide === true || route.response === undefined) return undefined
  const isDefect = reply.statusCode === 500
  const described = (isDefect ? noRoute : route).response![reply.statusCode]
  if (described === undefined) return `the status is not one of ${Object.keys(route.response).join(', ')}`
  const missing = Object.entries(described.headers ?? {}).find(([name, { optional }]) => optional !== true && !reply.hasHeader(name))
  if (missing !== undefined) return `the header ${missing[0]} is missing`
  const isEmpty = payload === undefined || payload === null || payload === ''
  if (described.type === 'null') return isEmpty ? undefined : 'there is a body, and none is described'

  const type = String(reply.getHeader('content-type')).split(';')[0]!
  const types = Object.keys(described.content ?? {})
  const listed = types.length > 0 ? types : (route.produces ?? ['application/json'])
  if (!listed.map(one => one.split(';')[0]).includes(type)) return `the content type ${type} is not one of ${listed.join(', ')}`
  if (typeof payload !== 'string' && !Buffer.isBuffer(payload)) return isEmpty ? 'there is no body' : undefined
  return bodyFault(reply, type, described.content?.[type]?.schema ?? described, payload, sent) ?? (isDefect ? defect : undefined)
}

function bodyFault(reply: FastifyReply, type: string, schema: object, payload: string | Buffer, sent: unknown): string | undefined {
  const text = (reply.getHeader('content-encoding') === 'gzip' ? gunzipSync(payload) : payload).toString()
  const isJson = /^application\/(.+\+)?json$/.test(type)
  const body = isJson ? parsed(text) : text
  if (body === undefined) return 'the body is not JSON'
  const validate = validators.get(schema) ?? ajv.compile(schema)
  validators.set(schema, validate)
  if (!validate(body)) return ajv.errorsText(validate.errors, { dataVar: 'the body' })
  if (!isJson) return undefined
  const whole = sent === undefined ? body : asJson(sent)
  const serialize = reply.compileSerializationSchema(schema as Record<string, unknown>)
  const unnamed = lostPlace(whole, JSON.parse(serialize(whole as Record<string, unknown>)))
  return unnamed === undefined ? undefined : `${unnamed} is sent, and the schema does not name it`
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What a serializer without a schema would return. */
function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_key, one: unknown) => (typeof one === 'bigint' ? Number(one) : one)))
}

/** The pointer to the first value of `whole` that is not the same in `kept`. */
function lostPlace(whole: unknown, kept: unknown, pointer = ''): string | undefined {
  if (typeof whole !== 'object' || whole === null) return Object.is(whole, kept) ? undefined : pointer || 'the whole'
  for (const [key, value] of Object.entries(whole)) {
    const inner = `${pointer}/${key}`
    if (typeof kept !== 'object' || kept === null || !Object.hasOwn(kept, key)) return inner
    const lost = lostPlace(value, (kept as Record<string, unknown>)[key], inner)
    if (lost !== undefined) return lost
  }
  return undefined
}
