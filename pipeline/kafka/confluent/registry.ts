// The schema registry: finds the schema of an id, and registers ours.
//
// Schemas are registered by @kafkajs/confluent-schema-registry, which is loaded when it is first needed. They are looked up without it
// (schema-lookup.ts): its errors are a status alone, which is 400 for a registry that is away and 404 also where something else answers in
// its place, and neither must make dead letters of messages.

import type { SchemaRegistry } from '@kafkajs/confluent-schema-registry'
import type { Logger } from '../../../config/logger.ts'
import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { reasonOf } from '../failure.ts'
import { envelopeSchema, subjectOf } from './envelope-schema.ts'
import { openConnection, type RegistryOptions } from './registry-connection.ts'
import { openLookUp } from './schema-lookup.ts'
import type { LookUp } from './schemas.ts'

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

const reasonCharactersMax = 300
/** The frame has 31 bits for it, and a sign. */
const idMax = 2 ** 31 - 1

/** Connects when it is first asked. The options have passed `kafkaFaults`. */
export function openRegistry(options: RegistryOptions, logger: Logger): Registry {
  const connection = openConnection(options)
  const { name, host, login, timeoutMs } = connection

  /** The library's client. */
  async function openClient(): Promise<SchemaRegistry> {
    const library = await import('@kafkajs/confluent-schema-registry')
    const inTime: Middleware = () => ({ prepareRequest: async next => (await next()).enhance({ timeout: timeoutMs }) })
    const auth = login === undefined ? {} : { auth: login }
    return new library.SchemaRegistry({ host, ...auth, retry: { retries: 0 }, middlewares: [inTime] })
  }

  async function register(subject: string): Promise<number> {
    try {
      const client = await openClient()
      return (await registeredId(client, subject)) ?? checkedId(await registerNew(client, subject))
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
      return checkedId(await client.getRegistryIdBySchema(subject, envelopeSchema))
    } catch (error) {
      // The library makes an error without a status of 404, and only of that.
      if (statusOf(error) === undefined && error instanceof Error && error.name === 'ConfluentSchemaRegistryError') return undefined
      throw error
    }
  }

  /** The library hands on what it was given. @throws LogUnavailableError for what is no id: no message may be framed under it */
  function checkedId(id: unknown): number {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > idMax) throw connection.away('it gave no id')
    return id
  }

  function failure(error: unknown, subject: string): Error {
    if (error instanceof LogUnavailableError || error instanceof SystemicError) return error
    const status = statusOf(error)
    if (status === 401 || status === 403) return connection.notLetIn(String(status))
    if (status === 409 || status === 422) {
      return new SystemicError(
        `${name} does not take our schema for the subject ${subject} (${shortened(error)}): remove what else the subject holds, or give log.topic another name`,
        { cause: error },
      )
    }
    return connection.away(shortened(error), error)
  }

  return { lookUp: openLookUp(connection, subjectOf(options.topic)), register }
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
