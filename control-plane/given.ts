// Ids and keys that older clients give to what they create (`compatibility`): devices carry keys that were burnt in.

import type { FastifyRequest } from 'fastify'
import { networkOf } from '../config/http/client-address.ts'
import { type Fault, HttpError } from '../config/http/errors.ts'
import { DatabaseError, uniqueViolation } from '../config/postgres/database.ts'
import { changerOf } from './authentication.ts'
import { type FailedAttempts, failuresMax } from './failed-attempts.ts'
import { isId } from './ids.ts'
import { isApiKey } from './keys/store.ts'
import { refuseFaults } from './text.ts'

/** What is left out is made here. */
export interface Given {
  /** A UUID. */
  readonly id?: string | undefined
  /** A secret. */
  readonly key?: string | undefined
}

export interface GivenIds {
  /**
   * What each of the bodies gives; an empty list where older clients are not served.
   *
   * @param pointer where a body stands
   * @param options emptyIsAbsent: false refuses an empty text as no id or no key; clients create with structures whose members may be empty
   * @throws HttpError `malformed_request` for what is no id or no key; `too_many_requests` for who gave too many that are in use
   */
  read(
    request: FastifyRequest,
    bodies: readonly object[],
    pointer: (index: number) => string,
    options?: { readonly emptyIsAbsent: boolean },
  ): Promise<Given[]>
  /** Counts a conflict, which tells that an id or a key is in use. @returns `error`, to be thrown */
  conflict(request: FastifyRequest, error: unknown): Promise<unknown>
}

/** What stands behind a scheme has no blanks and commas (RFC 9110 §11.4, §5.6.1). */
const keyForm = /^[!-+\--~]{16,256}$/
const keyRule = 'is no key: give 16 to 256 visible ASCII characters without a comma, or leave it out'

export function openGivenIds(failedAttempts: FailedAttempts, isServed: boolean): GivenIds {
  function attemptOf(request: FastifyRequest): string {
    const { user, address = '' } = changerOf(request)
    return failedAttempts.keyOf('given', user, networkOf(address))
  }

  return {
    async read(request, bodies, pointer, { emptyIsAbsent } = { emptyIsAbsent: true }) {
      if (!isServed) return []
      const faults: Fault[] = []
      const given = bodies.map((body, index) => givenOf(body, pointer(index), emptyIsAbsent, faults))
      refuseFaults(faults)
      if (given.every(({ id, key }) => id === undefined && key === undefined)) return []
      const attempt = attemptOf(request)
      const [failures] = await failedAttempts.count([attempt])
      if (failures! < failuresMax) return given
      const detail = 'too many ids or keys that are in use were given: leave them out, and they are made'
      throw new HttpError('too_many_requests', detail, { retryAfterSeconds: Math.ceil(failedAttempts.limitedMs(attempt) / 1000) })
    },

    async conflict(request, error) {
      if (error instanceof HttpError && error.code === 'conflict') await failedAttempts.note([attemptOf(request)])
      return error
    },
  }
}

function givenOf(body: object, pointer: string, emptyIsAbsent: boolean, faults: Fault[]): Given {
  const isAbsent = (value: unknown): boolean => value === undefined || value === null || (emptyIsAbsent && value === '')
  const { id, key } = body as { readonly id?: unknown; readonly key?: unknown }
  const given = { id: isAbsent(id) ? undefined : String(id), key: isAbsent(key) ? undefined : String(key) }
  if (given.id !== undefined && !isId(given.id)) faults.push({ pointer: `${pointer}/id`, detail: 'is no UUID: give one, or leave it out' })
  // An API key is not taken for a thing's where it is shown.
  if (given.key !== undefined && (!keyForm.test(given.key) || isApiKey(given.key)))
    faults.push({ pointer: `${pointer}/key`, detail: keyRule })
  return given
}

export const inUse = (): HttpError => new HttpError('conflict', 'a given id or key is in use: leave it out, and one is made')

/** @throws HttpError `conflict` where what was given is another's */
export function refuseUsed(error: unknown): never {
  // The database's own message holds what was given, so it is no cause here.
  if (error instanceof DatabaseError && error.sqlState === uniqueViolation) throw inUse()
  throw error
}
