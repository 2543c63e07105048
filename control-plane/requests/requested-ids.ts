// Ids and keys that older clients choose for what they create (`compatibility`): devices have keys in their firmware.

import type { FastifyRequest } from 'fastify'
import { DatabaseError, uniqueViolation } from '../../database/database.ts'
import { type Fault, HttpError } from '../../http/errors.ts'
import { networkOf } from '../../http/requests/client-address.ts'
import { changerOf } from '../access/authentication.ts'
import { type FailedAttempts, failuresMax } from '../access/failed-attempts.ts'
import { isApiKey } from '../client.ts'
import { isId } from '../ids.ts'
import { refuseFaults } from './text.ts'

/** Fields that are left out are generated here. */
export interface RequestedId {
  /** A UUID. */
  readonly id?: string | undefined
  /** A secret. */
  readonly key?: string | undefined
}

export interface RequestedIds {
  /**
   * The ids and keys in each of the bodies; an empty list if older clients are not served.
   *
   * @param pointer the place of a body
   * @param options emptyIsAbsent: false refuses an empty text as an invalid id or key; by default it counts as left out, because clients send structures with empty members
   * @throws HttpError `malformed_request` for an invalid id or key; `too_many_requests` for a caller who gave too many that are in use
   */
  read(
    request: FastifyRequest,
    bodies: readonly object[],
    pointer: (index: number) => string,
    options?: { readonly emptyIsAbsent: boolean },
  ): Promise<RequestedId[]>
  /** Counts a conflict, which reveals that an id or a key is in use. @returns `error`, to be thrown */
  conflict(request: FastifyRequest, error: unknown): Promise<unknown>
}

/** A credential after its scheme contains no blanks and commas (RFC 9110 §11.4, §5.6.1). */
const keyForm = /^[!-+\--~]{16,256}$/
const keyRule = 'is not a key: give 16 to 256 visible ASCII characters without a comma, or omit it'

export function openRequestedIds(failedAttempts: FailedAttempts, isServed: boolean): RequestedIds {
  function attemptOf(request: FastifyRequest): string {
    const { user, address = '' } = changerOf(request)
    return failedAttempts.keyOf('given', user, networkOf(address))
  }

  return {
    async read(request, bodies, pointer, { emptyIsAbsent } = { emptyIsAbsent: true }) {
      if (!isServed) return []
      const faults: Fault[] = []
      const requested = bodies.map((body, index) => requestedIn(body, pointer(index), emptyIsAbsent, faults))
      refuseFaults(faults)
      if (requested.every(({ id, key }) => id === undefined && key === undefined)) return []
      const attempt = attemptOf(request)
      const [failures] = await failedAttempts.count([attempt])
      if (failures! < failuresMax) return requested
      const detail = 'too many given ids or keys were in use: omit them to have them generated'
      throw new HttpError('too_many_requests', detail, { retryAfterSeconds: Math.ceil(failedAttempts.limitedMs(attempt) / 1000) })
    },

    async conflict(request, error) {
      if (error instanceof HttpError && error.code === 'conflict') await failedAttempts.note([attemptOf(request)])
      return error
    },
  }
}

function requestedIn(body: object, pointer: string, emptyIsAbsent: boolean, faults: Fault[]): RequestedId {
  const isAbsent = (value: unknown): boolean => value === undefined || value === null || (emptyIsAbsent && value === '')
  const { id, key } = body as { readonly id?: unknown; readonly key?: unknown }
  const requested = { id: isAbsent(id) ? undefined : String(id), key: isAbsent(key) ? undefined : String(key) }
  if (requested.id !== undefined && !isId(requested.id))
    faults.push({ pointer: `${pointer}/id`, detail: 'is not a UUID: give one, or omit it' })
  // A key in the form of an API key would be taken for one when it is used, so it is refused.
  if (requested.key !== undefined && (!keyForm.test(requested.key) || isApiKey(requested.key)))
    faults.push({ pointer: `${pointer}/key`, detail: keyRule })
  return requested
}

export const inUse = (): HttpError => new HttpError('conflict', 'a given id or key is in use: omit it to have one generated')

/** @throws HttpError `conflict` if a given id or key belongs to another entity */
export function refuseUsed(error: unknown): never {
  // The database's message contains the given key, so it is not attached as a cause.
  if (error instanceof DatabaseError && error.sqlState === uniqueViolation) throw inUse()
  throw error
}
