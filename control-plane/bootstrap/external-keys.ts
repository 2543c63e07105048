// External keys: the credential of a device that does not know its thing yet. Stored as an HMAC; wrong ones are counted by external id and network.

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { deriveKey, type MasterKeys } from '../../config/secrets.ts'
import type { Queries } from '../../database/database.ts'
import { type ErrorCode, type Fault, HttpError } from '../../http/errors.ts'
import { clientAddressOf, networkOf } from '../../http/requests/client-address.ts'
import { delayMsOf } from '../access/failed-attempts.ts'
import { openFairQueue } from '../outside/fair-queue.ts'
import { refuseFaults, textFault } from '../requests/text.ts'
import type { UnknownKeys } from '../requests/unknown-keys.ts'

const externalIdBytesMax = 254
const externalKeyBytesMax = 256
const masterKeyIdBytes = 4

/** What a device sends. */
export interface ExternalCredential {
  readonly externalId: string
  readonly externalKey: string
}

export interface ExternalKeys {
  /** @throws HttpError `malformed_request` for an id or key that is not allowed, with its place in the body */
  check(credential: ExternalCredential): void
  /** Ids of the master keys that look-ups are made under, 4 bytes each, in the order of the keys. */
  readonly masterKeyIds: readonly [Buffer, ...Buffer[]]
  /** What a key is stored as, bound to its external id: without the master key, a copy of the table does not reveal whether a key is in it. */
  keep(credential: ExternalCredential): KeptKey
  /** All forms that it may be stored in, one for each master key, in hex: for `keptSql`. */
  lookups(credential: ExternalCredential): string[]
  isKept(kept: Uint8Array, credential: ExternalCredential): boolean
  /** Stores the key under the first master key if it is stored under another. Possible only now, because the device has sent the key. */
  renew(queries: Queries, credential: ExternalCredential, kept: Pick<KeptKey, 'masterKeyId'>): Promise<void>
  /** How many are stored under a master key that is not among these. */
  countUnderOtherMasterKeys(queries: Queries, masterKeyIds: readonly Buffer[]): Promise<number>
}

export interface KeptKey {
  /** HMAC-SHA-256 of external id and key, under the first master key. */
  readonly lookup: Buffer
  readonly masterKeyId: Uint8Array
}

/** In SQL: whether a row's key is one of the look-ups in the parameter. */
export const keptSql = (parameter: string): string =>
  `key_lookup IN (SELECT decode(lookup, 'hex') FROM unnest(${parameter}::text[]) AS lookup)`

/** Another owner has this external id and key. This refusal reveals that the key is right, so it counts as a failed fetch. */
export class ExternalKeyTakenError extends Error {
  override readonly name = 'ExternalKeyTakenError'
}

// At most two rows have it: the mapping's and its configuration's.
const renewSql = `
  WITH renewed AS (UPDATE control_plane.mappings SET key_lookup = $2, key_id = $3 WHERE ${keptSql('$1')})
  UPDATE control_plane.bootstrap_configs SET key_lookup = $2, key_id = $3 WHERE ${keptSql('$1')}`

const underOtherMasterKeysSql = `
  SELECT count(*) AS keys FROM (
    SELECT owner, external_id FROM control_plane.bootstrap_configs WHERE key_id NOT IN (SELECT decode(id, 'hex') FROM unnest($1::text[]) AS id)
    UNION SELECT owner, external_id FROM control_plane.mappings WHERE key_id NOT IN (SELECT decode(id, 'hex') FROM unnest($1::text[]) AS id)
  ) AS under_other_master_keys`

/** @param bytesMin least number of bytes in a key */
export function openExternalKeys(masterKeys: MasterKeys, bytesMin: number): ExternalKeys {
  const secrets = masterKeys.map(masterKey => createSecretKey(deriveKey(masterKey, 'external-keys'))) as [KeyObject, ...KeyObject[]]
  const masterKeyIds = masterKeys.map(masterKey => deriveKey(masterKey, 'external-keys-id').subarray(0, masterKeyIdBytes)) as [
    Buffer,
    ...Buffer[],
  ]
  const formOf = ({ externalId, externalKey }: ExternalCredential, secret: KeyObject): Buffer =>
    createHmac('sha256', secret)
      .update(JSON.stringify([externalId, externalKey]))
      .digest()
  const formsOf = (credential: ExternalCredential): Buffer[] => secrets.map(secret => formOf(credential, secret))
  const keep = (credential: ExternalCredential): KeptKey => ({ lookup: formOf(credential, secrets[0]), masterKeyId: masterKeyIds[0] })
  const lookups = (credential: ExternalCredential): string[] => formsOf(credential).map(form => form.toString('hex'))

  function keyFault(key: string): string | undefined {
    const bytes = Buffer.byteLength(key)
    if (bytes < bytesMin) return `has ${bytes} bytes in UTF-8: give at least ${bytesMin}`
    if (key !== key.trim()) return 'begins or ends with a space, which a header cannot contain: remove it'
    return lineFault(key) ?? textFault(key, externalKeyBytesMax)
  }

  return {
    check({ externalId, externalKey }) {
      const faultInId = externalIdFault(externalId)
      const faultInKey = keyFault(externalKey)
      refuseFaults([
        ...(faultInId === undefined ? [] : [{ pointer: '/body/external_id', detail: faultInId }]),
        ...(faultInKey === undefined ? [] : [{ pointer: '/body/external_key', detail: faultInKey }]),
      ])
    },
    masterKeyIds,
    keep,
    lookups,
    isKept: (kept, credential) => formsOf(credential).some(form => timingSafeEqual(form, kept)),
    async renew(queries, credential, { masterKeyId }) {
      const kept = keep(credential)
      if (!kept.masterKeyId.every((byte, at) => byte === masterKeyId[at]))
        await queries.query(renewSql, [lookups(credential), kept.lookup, kept.masterKeyId])
    },
    async countUnderOtherMasterKeys(queries, ids) {
      const [row] = await queries.query<{ keys: bigint }>(underOtherMasterKeysSql, [ids.map(id => id.toString('hex'))])
      return Number(row!.keys)
    },
  }
}

/** @throws HttpError `malformed_request` for text that cannot be an external id */
export function checkExternalId(externalId: string, pointer: string): void {
  const detail = externalIdFault(externalId)
  if (detail !== undefined) refuseFaults([{ pointer, detail }] satisfies Fault[])
}

function externalIdFault(externalId: string): string | undefined {
  if (externalId === '') return 'is empty: give the id of the device'
  return lineFault(externalId) ?? textFault(externalId, externalIdBytesMax)
}

function lineFault(text: string): string | undefined {
  return /\p{Cc}/u.test(text) ? 'contains a control character: remove it' : undefined
}

export interface FailedFetches {
  /** Counts a failure at an external id. @returns how it is answered: with `code`, or with `too_many_requests` */
  refusal(request: FastifyRequest, externalId: string, code: ErrorCode, detail: string): Promise<HttpError>
  /** Counts a conflict that reveals another owner's key. @returns the error to throw: `error`, or the refusal in its place */
  conflict(request: FastifyRequest, externalId: string, error: unknown): Promise<unknown>
  /** Counts a request that may reveal whether a key belongs to another owner. @throws HttpError `too_many_requests` */
  noteTry(request: FastifyRequest, externalId: string): Promise<void>
  /** Counts a creation with a key, since its success reveals that no other owner has the key. Refuses nothing: `refuseLimited` does, before the next one. */
  noteMade(request: FastifyRequest, externalId: string): Promise<void>
  /** @throws HttpError `too_many_requests` for an external id that is already limited at this address */
  refuseLimited(request: FastifyRequest, externalId: string): void
  /**
   * Looks up a key: immediately or, after failures at the external id from any address, delayed and one at a time. So a key cannot be found by trying,
   * and the right one still works.
   *
   * @throws HttpError `too_many_requests` or `unavailable` if too many wait
   */
  slowed<Result>(request: FastifyRequest, externalId: string, look: () => Promise<Result>): Promise<Result>
}

/** In place of an address: counts failures from all addresses. */
const allAddresses = ''
const keyWork = { what: ['external keys', 'checked'], concurrentMax: 4, jobsMax: 400, addressJobsMax: 100, accountJobsMax: 20 } as const

export function openFailedFetches(unknownKeys: UnknownKeys): FailedFetches {
  const queue = openFairQueue(keyWork)
  const lookupOf = (externalId: string): Buffer => Buffer.from(externalId)
  const tooManyKeys = 'too many attempts with this external id from this address: wait, and use the key that it was provisioned with'
  const tooMany = (leftMs: number): HttpError =>
    new HttpError('too_many_requests', tooManyKeys, { retryAfterSeconds: Math.ceil(leftMs / 1000) })

  /** @returns undefined while it is not limited */
  async function limited(request: FastifyRequest, externalId: string): Promise<HttpError | undefined> {
    const leftMs = await unknownKeys.note('external-id', lookupOf(externalId), clientAddressOf(request), allAddresses)
    return leftMs === 0 ? undefined : tooMany(leftMs)
  }

  const refusal: FailedFetches['refusal'] = async (request, externalId, code, detail) =>
    (await limited(request, externalId)) ?? new HttpError(code, detail)

  return {
    refusal,
    async conflict(request, externalId, error) {
      if (!(error instanceof ExternalKeyTakenError)) return error
      return refusal(request, externalId, 'conflict', 'this external key cannot be used with this external id: use another one')
    },
    async noteTry(request, externalId) {
      const refused = await limited(request, externalId)
      if (refused !== undefined) throw refused
    },
    noteMade: async (request, externalId) => void (await unknownKeys.note('external-id', lookupOf(externalId), clientAddressOf(request))),
    refuseLimited(request, externalId) {
      const leftMs = unknownKeys.limitedMs('external-id', lookupOf(externalId), clientAddressOf(request))
      if (leftMs > 0) throw tooMany(leftMs)
    },
    async slowed(request, externalId, look) {
      const address = clientAddressOf(request)
      const [failures, failuresAnywhere] = await unknownKeys.count('external-id', lookupOf(externalId), [address, allAddresses])
      const delayMs = delayMsOf(failuresAnywhere!)
      if (delayMs === 0) return look()
      return queue.run({ account: externalId, address: networkOf(address), failures: failures! }, look, delayMs)
    },
  }
}
