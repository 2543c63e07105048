// API keys in the database: only their SHA-256, by which a value is looked up.

import { hash, randomBytes } from 'node:crypto'
import type { Database, SqlRow } from '../../database/database.ts'
import { apiKeyPrefix } from '../client.ts'
import { lockOwnedChannels } from '../connections/store.ts'
import { type ApiKeyId, type ChannelId, newApiKeyId, type UserId } from '../ids.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../requests/page.ts'
import { demandCapacity } from '../users/bounds.ts'
import type { Caller, Write, Writes } from '../writes.ts'

export const keyAccesses = ['all', 'read', 'publish'] as const

/** What a key may do, of what its user may. */
export interface KeyScope {
  /** `all` with channels is to read and to publish, as there is nothing else that a key of some channels may do. */
  readonly access: (typeof keyAccesses)[number]
  /** The only ones that it is for; undefined for all of its user. */
  readonly channels: readonly ChannelId[] | undefined
}

/** Whether a key may do less than its user. */
export const isScoped = ({ access, channels }: KeyScope): boolean => access !== 'all' || channels !== undefined

export interface ApiKey extends KeyScope {
  readonly id: ApiKeyId
  readonly owner: UserId
  readonly name: string
  /** RFC 3339. */
  readonly issuedAt: string
  /** RFC 3339; undefined for a key that does not expire. */
  readonly expiresAt: string | undefined
}

export interface NewApiKey extends KeyScope {
  readonly name: string
  /** Milliseconds since 1970; undefined for a key that does not expire. */
  readonly endsMs: number | undefined
}

export interface ApiKeys {
  /**
   * @returns the key, and its value, which is returned only this once and not stored; undefined unless `by` owns all of its channels
   * @throws HttpError `conflict` for more keys than the user may own
   */
  issue(by: Caller, key: NewApiKey): Promise<{ readonly key: ApiKey; readonly value: string } | undefined>
  /** The owner of the key, and its scope; undefined for one that is unknown, expired, or of a disabled user. */
  verify(value: string): Promise<{ readonly owner: UserId; readonly scope: KeyScope } | undefined>
  /** What a value is stored as. */
  lookup(value: string): Buffer
  find(owner: UserId, key: ApiKeyId): Promise<ApiKey | undefined>
  /** For any owner. */
  exists(key: ApiKeyId): Promise<boolean>
  /** In the order of creation. */
  list(owner: UserId, page: PageRequest): Promise<Page<ApiKey>>
  /** Its grants end before this resolves. Succeeds if the owner does not have the key. */
  revoke(by: Caller, owner: UserId, key: ApiKeyId): Promise<void>
}

const secretBytes = 32

const timestamp = (column: string): string => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS ${column}`
const columns = `id, owner, name, access, channels, ${timestamp('issued_at')}, ${timestamp('expires_at')}`

/** Joins the key with the look-up `$1` and its user, if it is valid. */
export const validKeySql = `
  control_plane.api_keys JOIN control_plane.users ON users.id = api_keys.owner
  WHERE lookup = $1 AND (expires_at IS NULL OR expires_at > now()) AND disabled_at IS NULL`

const insertSql = `
  INSERT INTO control_plane.api_keys (id, owner, name, lookup, access, channels, expires_at)
  VALUES ($1, $2, $3, $4, $5, $6::uuid[], to_timestamp($7::float8 / 1000))
  RETURNING ${columns}`

type ScopeRow = SqlRow & { access: KeyScope['access']; channels: ChannelId[] | null }
type KeyRow = ScopeRow & { id: ApiKeyId; owner: UserId; name: string; issued_at: string; expires_at: string | null }

/**
 * Without salt and key: 256 random bits cannot be guessed, so a plain hash protects them (NIST SP 800-63B §5.1.2.2), and they stay valid when the
 * master key is replaced.
 */
const lookup = (value: string): Buffer => hash('sha256', value, 'buffer')

export function openApiKeys(database: Database, writes: Writes): ApiKeys {
  return {
    async issue(by, { name, access, channels, endsMs }) {
      const value = apiKeyPrefix + randomBytes(secretBytes).toString('base64url')
      const id = newApiKeyId()
      const key = await writes(by, async write => {
        if (channels !== undefined && (await lockOwnedChannels(write, channels)).length < channels.length) return undefined
        await demandCapacity(write, by.user, 'api_keys', 1)
        const values = [id, by.user, name, lookup(value), access, channels ?? null, endsMs ?? null]
        const [row] = await write.query<KeyRow>(insertSql, values)
        write.note('key.issue', [id, ...(channels ?? [])])
        return toApiKey(row!)
      })
      return key && { key, value }
    },

    async verify(value) {
      const sql = `SELECT api_keys.owner, access, channels FROM ${validKeySql}`
      const [row] = await database.query<ScopeRow & { owner: UserId }>(sql, [lookup(value)])
      return row && { owner: row.owner, scope: toScope(row) }
    },

    lookup,

    async find(owner, key) {
      const [row] = await database.query<KeyRow>(`SELECT ${columns} FROM control_plane.api_keys WHERE id = $1 AND owner = $2`, [key, owner])
      return row === undefined ? undefined : toApiKey(row)
    },

    async exists(key) {
      return (await database.query('SELECT 1 FROM control_plane.api_keys WHERE id = $1', [key])).length > 0
    },

    async list(owner, { offset, limit }) {
      const sql = pageSql(`SELECT ordinal, ${columns} FROM control_plane.api_keys WHERE owner = $1`, 3, { offset, limit })
      return toPage(await database.query<KeyRow & { total: bigint }>(sql, [owner, offset, limit]), toApiKey)
    },

    async revoke(by, owner, key) {
      await writes(by, async write => {
        const rows = await write.query('DELETE FROM control_plane.api_keys WHERE id = $1 AND owner = $2 RETURNING id', [key, owner])
        if (rows.length === 0) return
        write.note('key.revoke', by.user === owner ? [key] : [key, owner])
        // Grants are cached by user, so those of the user's other keys and tokens are dropped too and looked up again.
        write.ends({ kind: 'user', user: owner })
      })
    },
  }
}

/** Revokes all keys of the owner in a write that also ends their grants. */
export async function revokeAllKeys(write: Write, owner: UserId): Promise<void> {
  const rows = await write.query<{ id: ApiKeyId }>('DELETE FROM control_plane.api_keys WHERE owner = $1 RETURNING id', [owner])
  const keys = rows.map(({ id }) => id)
  if (keys.length > 0) write.note('key.revoke', write.user === owner ? keys : [...keys, owner])
}

function toApiKey({ id, owner, name, issued_at: issuedAt, expires_at: expiresAt, ...scope }: KeyRow): ApiKey {
  return { id, owner, name, ...toScope(scope), issuedAt, expiresAt: expiresAt ?? undefined }
}

function toScope({ access, channels }: ScopeRow): KeyScope {
  return { access, channels: channels ?? undefined }
}
