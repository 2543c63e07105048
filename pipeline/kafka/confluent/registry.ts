// The schema registry: finds the schema of an id, and registers ours.
//
// Schemas are registered, and made into types with all that they refer to, by @kafkajs/confluent-schema-registry, which is loaded when it is
// first needed. Whether an id has a schema at all is asked beside it: its errors are a status alone, which is 400 for a registry that is
// away and 404 also where something else answers in its place, and neither must make dead letters of messages.

import type { SchemaRegistry } from '@kafkajs/confluent-schema-registry'
import type { Logger } from '../../../config/logger.ts'
import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { reasonOf } from '../failure.ts'
import type { KafkaLogOptions } from '../options.ts'
import type { AvroType } from './avro-shape.ts'
import { envelopeSchema } from './envelope-schema.ts'
import { unusableSchema } from './faults.ts'
import type { Decoding } from './framed-cursor.ts'
import { planOf } from './record-plan.ts'
import type { LookUp } from './schemas.ts'

/** What of the section `log` says how the registry is reached. */
export type RegistryOptions = Pick<KafkaLogOptions, 'registry' | 'registryUsername' | 'registryPassword' | 'registryTimeoutMs'>

export interface Registry {
  readonly lookUp: LookUp
  /**
   * Registers our schema under the subject, unless it is there, and resolves with its id. A subject that is made thereby is compatible in
   * both directions (FULL) from then on, where the registry allows that to be set; one that has a level keeps it.
   *
   * @throws LogUnavailableError while the registry is away: it may be asked again
   * @throws SystemicError where it does not let us in, or the subject holds a schema that ours is not compatible with
   */
  register(subject: string): Promise<number>
}

/** As Confluent's registry numbers its errors; a status 404 without it is of something else than a registry. */
const schemaNotFound = 40403
const reasonCharactersMax = 300

/** Connects when it is first asked. The options have passed `kafkaFaults`. */
export function openRegistry(options: RegistryOptions, logger: Logger): Registry {
  const { registry = '', registryUsername: username, registryPassword: password, registryTimeoutMs: timeoutMs } = options
  const host = registry.replace(/\/+$/, '')
  const name = `the schema registry at ${new URL(registry).origin}`
  const login = username === undefined || password === undefined ? undefined : { username, password }
  const headers = {
    accept: 'application/vnd.schemaregistry.v1+json, application/json',
    ...(login === undefined ? {} : { authorization: `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}` }),
  }

  /** The library's client, new for each question: it keeps every schema that it has seen. */
  async function openClient(): Promise<SchemaRegistry> {
    const library = await import('@kafkajs/confluent-schema-registry')
    const inTime: Middleware = () => ({ prepareRequest: async next => (await next()).enhance({ timeout: timeoutMs }) })
    const auth = login === undefined ? {} : { auth: login }
    return new library.SchemaRegistry({ host, ...auth, retry: { retries: 0 }, middlewares: [inTime] })
  }

  function away(reason: string, cause?: unknown): LogUnavailableError {
    return new LogUnavailableError(`${name} cannot be asked (${reason}): look at it, and at log.registry`, { cause })
  }

  function notLetIn(status: number): SystemicError {
    return new SystemicError(`${name} does not let this process in (${status}): look at log.registry_username and log.registry_password`)
  }

  async function lookUp(id: number, signal: AbortSignal): Promise<Decoding | undefined> {
    const found = await schemaOf(id, signal)
    if (found === undefined) return undefined
    if (found.schemaType !== 'AVRO') return unusableSchema(id, `it is of the type ${found.schemaType}, and only AVRO is read`)
    try {
      const type = (await (await openClient()).getSchema(id)) as unknown as AvroType
      const plan = planOf(type, JSON.parse(found.schema))
      return typeof plan === 'string' ? unusableSchema(id, plan) : plan
    } catch (error) {
      // Of a request that failed, for what the schema refers to say; all else is about the schema itself.
      if (statusOf(error) !== undefined) throw failure(error)
      return unusableSchema(id, shortened(error))
    }
  }

  /** @returns undefined where the registry says itself that it has none */
  async function schemaOf(id: number, signal: AbortSignal): Promise<{ schema: string; schemaType: string } | undefined> {
    let status: number
    let text: string
    try {
      const { request } = await import('undici')
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
      const answer = await request(`${host}/schemas/ids/${id}`, { headers, signal: inTime })
      status = answer.statusCode
      text = await answer.body.text()
    } catch (error) {
      signal.throwIfAborted()
      throw away(error instanceof Error && error.name === 'TimeoutError' ? `no answer within ${timeoutMs} ms` : reasonOf(error), error)
    }
    const answer = objectOf(text)
    if (status === 404 && answer?.['error_code'] === schemaNotFound) return undefined
    if (status === 401 || status === 403) throw notLetIn(status)
    const { schema, schemaType = 'AVRO' } = answer ?? {}
    if (status !== 200 || typeof schema !== 'string') throw away(`it answered ${status} when it was asked for schema ${id}`)
    return { schema, schemaType: String(schemaType) }
  }

  async function register(subject: string): Promise<number> {
    try {
      const client = await openClient()
      const known = await registeredId(client, subject)
      if (known !== undefined) return known
      return await registerNew(client, subject)
    } catch (error) {
      throw failure(error, subject)
    }
  }

  async function registerNew(client: SchemaRegistry, subject: string): Promise<number> {
    const library = await import('@kafkajs/confluent-schema-registry')
    const compatibility = library.COMPATIBILITY.FULL
    try {
      return (await client.register(envelopeSchema, { subject, compatibility })).id
    } catch (error) {
      // The subject has a level already, which the library insists to be told.
      const standing = Object.values(library.COMPATIBILITY).find(level => namesStanding(error, level))
      if (standing !== undefined) return (await client.register(envelopeSchema, { subject, compatibility: standing })).id
      // The schema is registered first, and its level set after that: not every user may.
      const id = await registeredId(client, subject)
      if (id === undefined) throw error
      logger.warn(
        { subject, reason: shortened(error) },
        'the compatibility of the subject could not be set to FULL: set it in the registry',
      )
      return id
    }
  }

  /** @returns undefined where the subject does not hold our schema */
  async function registeredId(client: SchemaRegistry, subject: string): Promise<number | undefined> {
    try {
      return await client.getRegistryIdBySchema(subject, envelopeSchema)
    } catch (error) {
      // The library makes an error without a status of 404, and only of that.
      if (statusOf(error) === undefined && error instanceof Error && error.name === 'ConfluentSchemaRegistryError') return undefined
      throw error
    }
  }

  function failure(error: unknown, subject?: string): Error {
    if (error instanceof LogUnavailableError || error instanceof SystemicError) return error
    const status = statusOf(error)
    if (status === 401 || status === 403) return notLetIn(status)
    if (subject !== undefined && (status === 409 || status === 422)) {
      return new SystemicError(
        `${name} does not take our schema for the subject ${subject} (${shortened(error)}): remove what else the subject holds, or give log.topic another name`,
        { cause: error },
      )
    }
    return away(shortened(error), error)
  }

  return { lookUp, register }
}

/** Of the library's requests. */
type Middleware = NonNullable<ConstructorParameters<typeof SchemaRegistry>[0]['middlewares']>[number]

function statusOf(error: unknown): number | undefined {
  const status = (error as { status?: unknown } | undefined)?.status
  return typeof status === 'number' ? status : undefined
}

/** `Compatibility does not match the configuration (FULL != BACKWARD)`. */
function namesStanding(error: unknown, level: string): boolean {
  return error instanceof Error && error.name === 'ConfluentSchemaRegistryCompatibilityError' && error.message.endsWith(` != ${level})`)
}

function shortened(error: unknown): string {
  return reasonOf(error).slice(0, reasonCharactersMax)
}

function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
