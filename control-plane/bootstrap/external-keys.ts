// External keys: what a device shows before it is anybody's thing. Kept as an HMAC; wrong ones are counted by external id and network.

import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { clientAddressOf } from '../../config/http/client-address.ts'
import { type ErrorCode, type Fault, HttpError } from '../../config/http/errors.ts'
import type { Logger } from '../../config/logger.ts'
import { deriveKey } from '../../config/secrets.ts'
import { refuseFaults, textFault } from '../text.ts'
import type { UnknownKeys } from '../unknown-keys.ts'

const externalIdBytesMax = 254
const externalKeyBytesMax = 256
/** Shorter keys are taken, with a warning: what is printed on devices of today may be guessed. */
const externalKeyBytesSafe = 16

/** What a device shows. */
export interface ExternalCredential {
  readonly externalId: string
  readonly externalKey: string
}

export interface ExternalKeys {
  /** @throws HttpError `malformed_request` for what cannot be taken, with its place in the body */
  check(credential: ExternalCredential): void
  /** What a key is kept as, bound to its external id: without the master key, a copy of the table does not tell whether a key is in it. */
  keep(credential: ExternalCredential): Buffer
  /** All that it may be kept as, in hex: for `keptSql`. */
  lookups(credential: ExternalCredential): string[]
  isKept(kept: Uint8Array, credential: ExternalCredential): boolean
}

/** In SQL: whether a row's key is one of the look-ups in the parameter. */
export const keptSql = (parameter: string): string =>
  `key_lookup IN (SELECT decode(lookup, 'hex') FROM unnest(${parameter}::text[]) AS lookup)`

/** An external id and key that are another owner's. To tell of it is to tell that the key is right, so it counts as a failed fetch. */
export class ExternalKeyTakenError extends Error {
  override readonly name = 'ExternalKeyTakenError'
}

interface Settings {
  /** Bytes that a key has at least. */
  readonly bytesMin: number
  readonly logger: Pick<Logger, 'warn'>
}

export function openExternalKeys(masterKey: Uint8Array, { bytesMin, logger }: Settings): ExternalKeys {
  const secret = createSecretKey(deriveKey(masterKey, 'external-keys'))
  /** All forms that a key may be kept in; the first is that of new ones. */
  const formsOf = ({ externalId, externalKey }: ExternalCredential): [Buffer] => [
    createHmac('sha256', secret)
      .update(JSON.stringify([externalId, externalKey]))
      .digest(),
  ]
  let warned = false

  function keyFault(key: string): string | undefined {
    const bytes = Buffer.byteLength(key)
    if (bytes < bytesMin) return `has ${bytes} bytes in UTF-8: give at least ${bytesMin}`
    if (key !== key.trim()) return 'begins or ends with a blank, which no header can carry: give it without'
    return lineFault(key) ?? textFault(key, externalKeyBytesMax)
  }

  return {
    check({ externalId, externalKey }) {
      const ofId = externalIdFault(externalId)
      const ofKey = keyFault(externalKey)
      refuseFaults([
        ...(ofId === undefined ? [] : [{ pointer: '/body/external_id', detail: ofId }]),
        ...(ofKey === undefined ? [] : [{ pointer: '/body/external_key', detail: ofKey }]),
      ])
      if (warned || Buffer.byteLength(externalKey) >= externalKeyBytesSafe) return
      warned = true
      logger.warn(`an external key has fewer than ${externalKeyBytesSafe} bytes, which can be guessed in time: give devices longer ones`)
    },
    keep: credential => formsOf(credential)[0],
    lookups: credential => formsOf(credential).map(form => form.toString('hex')),
    isKept: (kept, credential) => formsOf(credential).some(form => timingSafeEqual(form, kept)),
  }
}

/** @throws HttpError `malformed_request` for what no external id is */
export function checkExternalId(externalId: string, pointer: string): void {
  const detail = externalIdFault(externalId)
  if (detail !== undefined) refuseFaults([{ pointer, detail }] satisfies Fault[])
}

function externalIdFault(externalId: string): string | undefined {
  if (externalId === '') return 'is empty: give the id that the device has'
  return lineFault(externalId) ?? textFault(externalId, externalIdBytesMax)
}

function lineFault(text: string): string | undefined {
  return /\p{Cc}/u.test(text) ? 'holds a control character: remove it' : undefined
}

export interface FailedFetches {
  /** Counts a failure at an external id. @returns how it is answered: with `code`, or with `too_many_requests` */
  refusal(request: FastifyRequest, externalId: string, code: ErrorCode, detail: string): Promise<HttpError>
  /** Counts a conflict that tells of another's key. @returns `error` or what it is answered with, to be thrown */
  conflict(request: FastifyRequest, externalId: string, error: unknown): Promise<unknown>
  /** Counts what may show whether a key is another's. @throws HttpError `too_many_requests` */
  noteTry(request: FastifyRequest, externalId: string): Promise<void>
}

export function openFailedFetches(unknownKeys: UnknownKeys): FailedFetches {
  /** @returns undefined while it is not limited */
  async function limited(request: FastifyRequest, externalId: string): Promise<HttpError | undefined> {
    const leftMs = await unknownKeys.note('external-id', Buffer.from(externalId), clientAddressOf(request))
    if (leftMs === 0) return undefined
    const detail =
      'wrong external keys were shown too often for this external id from this address: use the one that it was provisioned with'
    return new HttpError('too_many_requests', detail, { retryAfterSeconds: Math.ceil(leftMs / 1000) })
  }

  const refusal: FailedFetches['refusal'] = async (request, externalId, code, detail) =>
    (await limited(request, externalId)) ?? new HttpError(code, detail)

  return {
    refusal,
    async conflict(request, externalId, error) {
      if (!(error instanceof ExternalKeyTakenError)) return error
      return refusal(request, externalId, 'conflict', 'this external key cannot be given with this external id: give another one')
    },
    async noteTry(request, externalId) {
      const refused = await limited(request, externalId)
      if (refused !== undefined) throw refused
    },
  }
}
