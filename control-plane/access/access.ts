// Access control in process: what a thing's key or a user's token gives access to, one query for each request.

import { type Database, DatabaseError, type SqlRow } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import type { AccessChanges } from '../access-changes.ts'
import type { Certificates } from '../certificates/store.ts'
import { type Access, type AccessControl, AccessUnavailableError, isApiKey, parseStoredChannel } from '../client.ts'
import { isId, type UserId } from '../ids.ts'
import { type ApiKeys, type KeyScope, validKeySql } from '../keys/store.ts'
import type { UnknownKeys, UnknownKind } from '../requests/unknown-keys.ts'
import type { ThingKeys } from '../things/keys.ts'
import type { Tokens } from '../tokens/store.ts'
import type { Authorization } from './authorization.ts'

/** In SQL: whether a thing, joined with its owner, is connected to the channel $1, and the owner is not disabled. */
const allowedSql = `
  (disabled_at IS NULL AND EXISTS (SELECT FROM control_plane.connections WHERE thing = things.id AND channel = $1::uuid))`

/** @param lookups of the key under each master key, as parameters: PostgreSQL treats a list of one as `=`. A replaced key has an expiry. */
const thingSql = (lookups: string) => `
  SELECT things.id, things.owner, bounded, ${allowedSql} AS allowed,
         CASE WHEN key_lookup NOT IN (${lookups}) THEN extract(epoch FROM previous_key_ends_at - now())::float8 * 1000 END AS left_ms
  FROM control_plane.things JOIN control_plane.users ON users.id = things.owner
  WHERE key_lookup IN (${lookups}) OR (previous_key_lookup IN (${lookups}) AND previous_key_ends_at > now())`

const thingIdSql = `
  SELECT things.id, things.owner, bounded, ${allowedSql} AS allowed, NULL::float8 AS left_ms
  FROM control_plane.things JOIN control_plane.users ON users.id = things.owner WHERE things.id = $2::uuid`

/** Compares the stored certificate's bytes, so that another certificate with the same serial does not match. */
const certificateSql = `
  SELECT things.id, things.owner, bounded, extract(epoch FROM expires_at - now())::float8 * 1000 AS left_ms, ${allowedSql} AS allowed
  FROM control_plane.certificates JOIN control_plane.things ON things.id = certificates.thing JOIN control_plane.users ON users.id = things.owner
  WHERE serial = $2 AND authority = $3 AND revoked_at IS NULL AND expires_at > now()
    AND encode(sha256(decode(regexp_replace(certificate, '-----[A-Z ]+-----|\\s', '', 'g'), 'base64')), 'hex') = $4`

/**
 * In SQL: whether the user owns the channel $2, null for an id that is not a UUID; and whether the control plane knows no owner of it, as of keys that
 * another producer chose. A deleted channel has had one, whose messages may still be stored.
 */
const ownedSql = `
  EXISTS (SELECT FROM control_plane.channels WHERE channels.id = $2::uuid AND channels.owner = users.id) AS allowed,
  NOT EXISTS (SELECT FROM control_plane.channels WHERE channels.id = $2::uuid)
    AND NOT EXISTS (SELECT FROM control_plane.deleted_channels WHERE deleted_channels.id = $2::uuid) AS ownerless`

const userSql = `
  SELECT users.id, users.id AS owner, NULL::float8 AS left_ms, ${ownedSql}
  FROM control_plane.users WHERE users.id = $1 AND users.token_version = $3`

const apiKeySql = `
  SELECT api_keys.id, users.id AS owner, bounded, access, coalesce($2::uuid = ANY (api_keys.channels), api_keys.channels IS NULL) AS sees,
         extract(epoch FROM expires_at - now())::float8 * 1000 AS left_ms, ${ownedSql}
  FROM ${validKeySql}`

/** Their owner may have been given the id of a deleted channel again. */
const deletedSql = `
  SELECT id FROM control_plane.deleted_channels
  WHERE id = ANY($1::uuid[]) AND NOT EXISTS (SELECT FROM control_plane.channels WHERE channels.id = deleted_channels.id)`

type AccessRow = SqlRow & { id: string; owner: string; allowed: boolean; left_ms: number | null }
type ThingRow = AccessRow & { bounded: boolean }
type UserRow = AccessRow & { ownerless: boolean }
/** `sees`: whether the channel is one of those of the key. */
type KeyRow = UserRow & { bounded: boolean; access: KeyScope['access']; sees: boolean }

interface Parts {
  readonly database: Database
  readonly thingKeys: ThingKeys
  readonly apiKeys: ApiKeys
  readonly certificates: Pick<Certificates, 'authority'>
  readonly tokens: Tokens
  readonly accessChanges: AccessChanges
  readonly unknownKeys: UnknownKeys
  readonly authorization: Pick<Authorization, 'isAdministrator'>
}

const unauthenticated: Access = { allowed: false, reason: 'unauthenticated' }
const forbidden = { allowed: false, reason: 'forbidden' } as const

export function openAccess({
  database,
  thingKeys,
  apiKeys,
  certificates,
  tokens,
  accessChanges,
  unknownKeys,
  authorization,
}: Parts): AccessControl {
  const thingAccessSql = thingSql(thingKeys.masterKeyIds.map((_, at) => `$${at + 2}`).join(', '))

  async function ask<Row extends AccessRow>(
    sql: string,
    values: readonly (string | number | Uint8Array | null)[],
  ): Promise<Row | undefined> {
    return orUnavailable(async () => (await database.query<Row>(sql, values))[0])
  }

  async function refuseUnknown(kind: UnknownKind, lookup: Buffer, address: string | undefined): Promise<Access> {
    if (address === undefined) return unauthenticated
    const leftMs = await orUnavailable(() => unknownKeys.note(kind, lookup, address))
    return leftMs === 0 ? unauthenticated : { allowed: false, reason: 'limited', leftMs }
  }

  async function orUnavailable<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof DatabaseError)
        throw new AccessUnavailableError('the database of the control plane is unavailable: retry', { cause: error })
      if (error instanceof HttpError && error.code === 'unavailable')
        throw new AccessUnavailableError('the policy store of the control plane is unavailable: retry', { cause: error })
      throw error
    }
  }

  async function mayRead({ owner, allowed, ownerless }: UserRow, channel: string): Promise<boolean> {
    const isOwnerless = ownerless && parseStoredChannel(channel) !== undefined
    return allowed || (isOwnerless && (await orUnavailable(() => authorization.isAdministrator(owner as UserId))))
  }

  return {
    async authorize({ credential, channel, action, address }) {
      // A channel id of any other form has no owner and no connections; the credential is checked all the same.
      const channelId = isId(channel) ? channel : null
      if (credential.scheme === 'Thing') {
        const lookups = thingKeys.lookups(credential.secret)
        const row = await ask<ThingRow>(thingAccessSql, [channelId, ...lookups])
        if (row === undefined) return refuseUnknown('thing-key', lookups[0], address)
        return answerOf(row)
      }
      if (credential.scheme === 'Certificate') {
        const [serial = '', fingerprint = ''] = credential.secret.split(':')
        const row = await ask<ThingRow>(certificateSql, [channelId, serial, certificates.authority, fingerprint])
        if (row === undefined) return refuseUnknown('certificate', Buffer.from(fingerprint), address)
        return answerOf(row)
      }
      if (credential.scheme === 'ThingId') {
        const row = isId(credential.secret) ? await ask<ThingRow>(thingIdSql, [channelId, credential.secret]) : undefined
        return row === undefined ? unauthenticated : answerOf(row)
      }
      if (isApiKey(credential.secret)) {
        const lookup = apiKeys.lookup(credential.secret)
        const row = await ask<KeyRow>(apiKeySql, [lookup, channelId])
        if (row === undefined) return refuseUnknown('api-key', lookup, address)
        if (!row.sees || (row.access !== 'all' && row.access !== action)) return forbidden
        if (action === 'publish') return row.allowed ? answerOf(row) : forbidden
        return (await mayRead(row, channel)) ? { allowed: true, publisher: null, owner: row.owner, ...endOf(row) } : forbidden
      }
      const claims = await tokens.verify(credential.secret)
      if (claims === undefined) return unauthenticated
      const row = await ask<UserRow>(userSql, [claims.user, channelId, claims.version])
      if (row === undefined) return unauthenticated
      if (action !== 'read' || !(await mayRead(row, channel))) return forbidden
      return { allowed: true, publisher: null, owner: row.owner, endsMs: claims.endsMs }
    },
    async deletedChannels(channels) {
      const rows = await orUnavailable(() => database.query<SqlRow & { id: string }>(deletedSql, [channels.filter(isId)]))
      return rows.map(({ id }) => id)
    },
    onChange: listener => accessChanges.onChange(listener),
  }
}

function answerOf(row: ThingRow): Access {
  const whose = { publisher: row.id, owner: row.owner, ...(row.bounded ? { isBounded: true } : {}), ...endOf(row) }
  return row.allowed ? { allowed: true, ...whose } : { ...forbidden, ...whose }
}

function endOf({ left_ms: leftMs }: AccessRow): { endsMs?: number } {
  return leftMs === null ? {} : { endsMs: Date.now() + leftMs }
}
