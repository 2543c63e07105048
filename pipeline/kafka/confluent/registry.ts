// The schema registry: registers our schema; schema-lookup.ts finds schemas by id.
//
// Schemas are registered with @kafkajs/confluent-schema-registry, which is loaded on first use. Lookups do not use it
// (schema-lookup.ts): its errors are only a status, which is 400 if the registry is away, and 404 also if another server answers
// instead. Neither may turn messages into dead letters.

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
   * Registers our schema under the subject, unless it exists, and resolves with its id. A new subject gets the compatibility level
   * FULL (both directions) if the registry allows setting it; an existing level is kept.
   *
   * @throws LogUnavailableError while the registry is away; can be retried
   * @throws SystemicError if it rejects our credentials, or the subject has a schema that is incompatible with ours
   */
  register(subject: string): Promise<number>
}

const reasonCharactersMax = 300
/** A level changes once, from none to FULL, while several writers start at once; more often only by an operator. */
const levelRetriesMax = 3
/** The largest schema id: the frame has a signed 32-bit integer for it. */
const idMax = 2 ** 31 - 1

/** Connects on first use. `kafkaFaults` must have accepted the options. */
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
    let compatibility = library.COMPATIBILITY.FULL
    for (let retries = 0; ; retries++) {
      try {
        return (await client.register(envelopeSchema, { subject, compatibility })).id
      } catch (error) {
        // The subject already has a level, which the library requires as a parameter. Another start may change it between two requests.
        const standing = Object.values(library.COMPATIBILITY).find(level => namesStanding(error, level))
        if (standing !== undefined && retries < levelRetriesMax) {
          compatibility = standing
          continue
        }
        // The schema is already registered; only setting the level failed, which not every user may do.
        const id = await registeredId(client, subject)
        if (id === undefined) throw error
        logger.warn(
          { subject, reason: shortened(error) },
          'cannot set the compatibility level of the subject to FULL: set it in the registry',
        )
        return id
      }
    }
  }

  /** @returns undefined if the subject does not have our schema */
  async function registeredId(client: SchemaRegistry, subject: string): Promise<number | undefined> {
    try {
      return checkedId(await client.getRegistryIdBySchema(subject, envelopeSchema))
    } catch (error) {
      // For a 404, and only for that, the library throws an error without a status.
      if (statusOf(error) === undefined && error instanceof Error && error.name === 'ConfluentSchemaRegistryError') return undefined
      throw error
    }
  }

  /** Checks the id, which the library passes through. @throws LogUnavailableError if it is invalid, because no message may be framed with it */
  function checkedId(id: unknown): number {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > idMax) throw connection.away('it returned no id')
    return id
  }

  function failure(error: unknown, subject: string): Error {
    if (error instanceof LogUnavailableError || error instanceof SystemicError) return error
    const status = statusOf(error)
    if (status === 401 || status === 403) return connection.notLetIn(String(status))
    if (status === 409 || status === 422) {
      return new SystemicError(
        `${name} rejects the schema for the subject ${subject} (${shortened(error)}): remove the incompatible schemas of the subject, or use another log.topic`,
        { cause: error },
      )
    }
    return connection.away(shortened(error), error)
  }

  return { lookUp: openLookUp(connection, subjectOf(options.topic)), register }
}

/** Middleware of the library's HTTP client. */
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
