// External keys: what a device shows before it is anybody's thing. Kept as an HMAC; wrong ones are counted by external id and network.

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { clientAddressOf, networkOf } from '../../config/http/client-address.ts'
import { type ErrorCode, type Fault, HttpError } from '../../config/http/errors.ts'
import type { Queries } from '../../config/postgres/database.ts'
import { deriveKey, type MasterKeys } from '../../config/secrets.ts'
import { delayMsOf } from '../failed-attempts.ts'
import { openFairQueue } from '../fair-queue.ts'
import { refuseFaults, textFault } from '../text.ts'
import type { UnknownKeys } from '../unknown-keys.ts'

const externalIdBytesMax = 254
const externalKeyBytesMax = 256
const masterKeyIdBytes = 4

/** What a device shows. */
export interface ExternalCredential {
  readonly externalId: string
  readonly externalKey: string
}

export interface ExternalKeys {
  /** @throws HttpError `malformed_request` for what cannot be taken, with its place in the body */
  check(credential: ExternalCredential): void
  /** Which master key a look-up is made under, 4 bytes for each of ours: the first one's first. */
  readonly masterKeyIds: readonly [Buffer, ...Buffer[]]
  /** What a key is kept as, bound to its external id: without the master key, a copy of the table does not tell whether a key is in it. */
  keep(credential: ExternalCredential): KeptKey
  /** All that it may be kept as, one for each master key, in hex: for `keptSql`. */
  lookups(credential: ExternalCredential): string[]
  isKept(kept: Uint8Array, credential: ExternalCredential): boolean
  /** Keeps a key that is shown under the first master key from now on, where it is kept under another: without being shown it cannot be. */
  renew(queries: Queries, credential: ExternalCredential, kept: Pick<KeptKey, 'masterKeyId'>): Promise<void>
  /** How many are kept under other master keys than these. */
  countBeside(queries: Queries, masterKeyIds: readonly Buffer[]): Promise<number>
}

export interface KeptKey {
  /** HMAC-SHA-256 of external id and key, under the first master key. */
  readonly lookup: Buffer
  readonly masterKeyId: Uint8Array
}

/** In SQL: whether a row's key is one of the look-ups in the parameter. */
export const keptSql = (parameter: string): string =>
  `key_lookup IN (SELECT decode(lookup, 'hex') FROM unnest(${parameter}::text[]) AS lookup)`

/** An external id and key that are another owner's. To tell of it is to tell that the key is right, so it counts as a failed fetch. */
export class ExternalKeyTakenError extends Error {
  override readonly name = 'ExternalKeyTakenError'
}

// Two rows at most have it: that of a mapping, and that of its configuration.
const renewSql = `
  WITH renewed AS (UPDATE control_plane.mappings SET key_lookup = $2, key_id = $3 WHERE ${keptSql('$1')})
  UPDATE control_plane.bootstrap_configs SET key_lookup = $2, key_id = $3 WHERE ${keptSql('$1')}`

const besideSql = `
  SELECT count(*) AS keys FROM (
    SELECT owner, external_id FROM control_plane.bootstrap_configs WHERE key_id NOT IN (SELECT decode(id, 'hex') FROM unnest($1::text[]) AS id)
    UNION SELECT owner, external_id FROM control_plane.mappings WHERE key_id NOT IN (SELECT decode(id, 'hex') FROM unnest($1::text[]) AS id)
  ) AS beside`

/** @param bytesMin bytes that a key has at least */
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
    async countBeside(queries, ids) {
      const [row] = await queries.query<{ keys: bigint }>(besideSql, [ids.map(id => id.toString('hex'))])
      return Number(row!.keys)
    },
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
  /** Counts what was made with a key: that it could be made tells that the key is no other's. Refuses nothing: `refuseLimited` does, before the next. */
  noteMade(request: FastifyRequest, externalId: string): Promise<void>
  /** @throws HttpError `too_many_requests` for an external id that is limited at this address already */
  refuseLimited(request: FastifyRequest, externalId: string): void
  /**
   * Looks up a key that is shown: at once, or after failures at the external id, from wherever, later and one at a time. So a key cannot be found by
   * trying, and the right one still opens.
   *
   * @throws HttpError `too_many_requests` or `unavailable` where too many wait
   */
  slowed<Result>(request: FastifyRequest, externalId: string, look: () => Promise<Result>): Promise<Result>
}

/** In place of an address: failures from all of them. */
const anywhere = ''
const keyWork = { what: ['external keys', 'checked'], concurrentMax: 4, jobsMax: 400, addressJobsMax: 100, accountJobsMax: 20 } as const

export function openFailedFetches(unknownKeys: UnknownKeys): FailedFetches {
  const queue = openFairQueue(keyWork)
  const lookupOf = (externalId: string): Buffer => Buffer.from(externalId)
  const tooMany = (leftMs: number): HttpError => {
    const detail =
      'external keys were shown too often for this external id from this address: wait, and use the one that it was provisioned with'
    return new HttpError('too_many_requests', detail, { retryAfterSeconds: Math.ceil(leftMs / 1000) })
  }

  /** @returns undefined while it is not limited */
  async function limited(request: FastifyRequest, externalId: string): Promise<HttpError | undefined> {
    const leftMs = await unknownKeys.note('external-id', lookupOf(externalId), clientAddressOf(request), anywhere)
    return leftMs === 0 ? undefined : tooMany(leftMs)
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
    noteMade: async (request, externalId) => void (await unknownKeys.note('external-id', lookupOf(externalId), clientAddressOf(request))),
    refuseLimited(request, externalId) {
      const leftMs = unknownKeys.limitedMs('external-id', lookupOf(externalId), clientAddressOf(request))
      if (leftMs > 0) throw tooMany(leftMs)
    },
    async slowed(request, externalId, look) {
      const address = clientAddressOf(request)
      const [failures, ofAll] = await unknownKeys.count('external-id', lookupOf(externalId), [address, anywhere])
      const delayMs = delayMsOf(ofAll!)
      if (delayMs === 0) return look()
      return queue.run({ account: externalId, address: networkOf(address), failures: failures! }, look, delayMs)
    },
  }
}
