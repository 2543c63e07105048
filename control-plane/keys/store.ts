// API keys in the database: only their SHA-256, by which a value is looked up.

import { hash, randomBytes } from 'node:crypto'
import type { Database, SqlRow } from '../../database/database.ts'
import { type ApiKeyId, newApiKeyId, type UserId } from '../ids.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../requests/page.ts'
import { demandCapacity } from '../users/bounds.ts'
import type { Caller, Write, Writes } from '../writes.ts'

export interface ApiKey {
  readonly id: ApiKeyId
  readonly owner: UserId
  readonly name: string
  /** RFC 3339. */
  readonly issuedAt: string
  /** RFC 3339; undefined for a key that does not expire. */
  readonly expiresAt: string | undefined
}

export interface ApiKeys {
  /**
   * @returns the key, and its value, which is returned only this once and not stored
   * @throws HttpError `conflict` for more keys than the user may own
   */
  issue(by: Caller, name: string, endsMs: number | undefined): Promise<{ readonly key: ApiKey; readonly value: string }>
  /** The owner of the key; undefined for one that is unknown, expired, or of a disabled user. */
  verify(value: string): Promise<{ readonly owner: UserId } | undefined>
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

/** Makes a value recognisable where it must not be: in logs, files and repositories. */
const prefix = 'sluice_'
const secretBytes = 32

export const isApiKey = (credential: string): boolean => credential.startsWith(prefix)

const timestamp = (column: string): string => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS ${column}`
const columns = `id, owner, name, ${timestamp('issued_at')}, ${timestamp('expires_at')}`

/** Joins the key with the look-up `$1` and its user, if it is valid. */
export const validKeySql = `
  control_plane.api_keys JOIN control_plane.users ON users.id = api_keys.owner
  WHERE lookup = $1 AND (expires_at IS NULL OR expires_at > now()) AND disabled_at IS NULL`

const insertSql = `
  INSERT INTO control_plane.api_keys (id, owner, name, lookup, expires_at) VALUES ($1, $2, $3, $4, to_timestamp($5::float8 / 1000))
  RETURNING ${columns}`

type KeyRow = SqlRow & { id: ApiKeyId; owner: UserId; name: string; issued_at: string; expires_at: string | null }

/**
 * Without salt and key: 256 random bits cannot be guessed, so a plain hash protects them (NIST SP 800-63B §5.1.2.2), and they stay valid when the
 * master key is replaced.
 */
const lookup = (value: string): Buffer => hash('sha256', value, 'buffer')

export function openApiKeys(database: Database, writes: Writes): ApiKeys {
  return {
    async issue(by, name, endsMs) {
      const value = prefix + randomBytes(secretBytes).toString('base64url')
      const id = newApiKeyId()
      const key = await writes(by, async write => {
        await demandCapacity(write, by.user, 'api_keys', 1)
        const [row] = await write.query<KeyRow>(insertSql, [id, by.user, name, lookup(value), endsMs ?? null])
        write.note('key.issue', [id])
        return toApiKey(row!)
      })
      return { key, value }
    },

    async verify(value) {
      const [row] = await database.query<{ owner: UserId }>(`SELECT api_keys.owner FROM ${validKeySql}`, [lookup(value)])
      return row
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

function toApiKey({ id, owner, name, issued_at: issuedAt, expires_at: expiresAt }: KeyRow): ApiKey {
  return { id, owner, name, issuedAt, expiresAt: expiresAt ?? undefined }
}
