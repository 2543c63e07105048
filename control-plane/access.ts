// Access control in process: what a thing's key or a user's token opens, one query for each question.

import { type Database, DatabaseError, type SqlRow } from '../config/postgres/database.ts'
import type { Certificates } from './certificates/store.ts'
import type { Changes } from './changes.ts'
import { type Access, type AccessControl, AccessUnavailableError } from './client.ts'
import { isId } from './ids.ts'
import { type ApiKeys, isApiKey, validKeySql } from './keys/store.ts'
import type { ThingKeys } from './things/keys.ts'
import type { Tokens } from './tokens/store.ts'
import type { UnknownKeys, UnknownKind } from './unknown-keys.ts'

/** @param lookups of the key under each master key, as parameters: to PostgreSQL one in a list is `=`. A key that was replaced has an end. */
const thingSql = (lookups: string) => `
  SELECT things.id, things.owner,
         EXISTS (SELECT FROM control_plane.connections WHERE thing = things.id AND channel = $1::uuid)
           AND NOT EXISTS (SELECT FROM control_plane.users WHERE id = things.owner AND disabled_at IS NOT NULL) AS allowed,
         CASE WHEN key_lookup NOT IN (${lookups}) THEN extract(epoch FROM previous_key_ends_at - now())::float8 * 1000 END AS left_ms
  FROM control_plane.things WHERE key_lookup IN (${lookups}) OR (previous_key_lookup IN (${lookups}) AND previous_key_ends_at > now())`

/** As an authority signs it, its bytes as they are kept: not another one with the same serial. */
const certificateSql = `
  SELECT things.id, things.owner, extract(epoch FROM expires_at - now())::float8 * 1000 AS left_ms,
         EXISTS (SELECT FROM control_plane.connections WHERE thing = things.id AND channel = $1::uuid)
           AND NOT EXISTS (SELECT FROM control_plane.users WHERE id = things.owner AND disabled_at IS NOT NULL) AS allowed
  FROM control_plane.certificates JOIN control_plane.things ON things.id = certificates.thing
  WHERE serial = $2 AND authority = $3 AND revoked_at IS NULL AND expires_at > now()
    AND encode(sha256(decode(regexp_replace(certificate, '-----[A-Z ]+-----|\\s', '', 'g'), 'base64')), 'hex') = $4`

const userSql = `
  SELECT users.id, users.id AS owner, NULL::float8 AS left_ms,
         EXISTS (SELECT FROM control_plane.channels WHERE channels.id = $2::uuid AND channels.owner = users.id) AS allowed
  FROM control_plane.users WHERE users.id = $1 AND users.token_version = $3`

const apiKeySql = `
  SELECT users.id, users.id AS owner, extract(epoch FROM expires_at - now())::float8 * 1000 AS left_ms,
         EXISTS (SELECT FROM control_plane.channels WHERE channels.id = $2::uuid AND channels.owner = users.id) AS allowed
  FROM ${validKeySql}`

type AccessRow = SqlRow & { id: string; owner: string; allowed: boolean; left_ms: number | null }

interface Parts {
  readonly database: Database
  readonly keys: ThingKeys
  readonly apiKeys: ApiKeys
  readonly certificates: Pick<Certificates, 'authority'>
  readonly tokens: Tokens
  readonly changes: Changes
  readonly unknownKeys: UnknownKeys
}

const unauthenticated: Access = { allowed: false, reason: 'unauthenticated' }
const forbidden: Access = { allowed: false, reason: 'forbidden' }

export function openAccess({ database, keys, apiKeys, certificates, tokens, changes, unknownKeys }: Parts): AccessControl {
  const ofThing = thingSql(keys.masterKeyIds.map((_, at) => `$${at + 2}`).join(', '))

  async function ask(sql: string, values: readonly (string | number | Uint8Array | null)[]): Promise<AccessRow | undefined> {
    return orUnavailable(async () => (await database.query<AccessRow>(sql, values))[0])
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
        throw new AccessUnavailableError('the control plane cannot ask its database: try again', { cause: error })
      throw error
    }
  }

  return {
    async authorize({ credential, channel, action, address }) {
      // A channel id of another form is a channel that does not exist; the credential is checked all the same.
      const channelId = isId(channel) ? channel : null
      if (credential.scheme === 'Thing') {
        const lookups = keys.lookups(credential.secret)
        const row = await ask(ofThing, [channelId, ...lookups])
        if (row === undefined) return refuseUnknown('thing-key', lookups[0], address)
        if (!row.allowed) return forbidden
        return { allowed: true, publisher: row.id, owner: row.owner, ...endOf(row) }
      }
      if (credential.scheme === 'Certificate') {
        const [serial = '', fingerprint = ''] = credential.secret.split(':')
        const row = await ask(certificateSql, [channelId, serial, certificates.authority, fingerprint])
        if (row === undefined) return refuseUnknown('certificate', Buffer.from(fingerprint), address)
        return row.allowed ? { allowed: true, publisher: row.id, owner: row.owner, ...endOf(row) } : forbidden
      }
      if (isApiKey(credential.secret)) {
        const lookup = apiKeys.lookup(credential.secret)
        const row = await ask(apiKeySql, [lookup, channelId])
        if (row === undefined) return refuseUnknown('api-key', lookup, address)
        return row.allowed && action === 'read' ? { allowed: true, publisher: null, owner: row.owner, ...endOf(row) } : forbidden
      }
      const claims = await tokens.verify(credential.secret)
      if (claims === undefined) return unauthenticated
      const row = await ask(userSql, [claims.user, channelId, claims.version])
      if (row === undefined) return unauthenticated
      return row.allowed && action === 'read' ? { allowed: true, publisher: null, owner: row.owner, endsMs: claims.endsMs } : forbidden
    },
    onChange: listener => changes.onChange(listener),
  }
}

function endOf({ left_ms: leftMs }: AccessRow): { endsMs?: number } {
  return leftMs === null ? {} : { endsMs: Date.now() + leftMs }
}
