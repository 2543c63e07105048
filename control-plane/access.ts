// Access control in process: what a thing's key or a user's token opens, one query for each question.

import { type Database, DatabaseError, type SqlRow } from '../config/postgres/database.ts'
import type { Changes } from './changes.ts'
import { type Access, type AccessControl, AccessUnavailableError } from './client.ts'
import { isId } from './ids.ts'
import type { ThingKeys } from './things/keys.ts'
import type { Tokens } from './tokens/store.ts'

const thingSql = `
  SELECT things.id, things.owner,
         EXISTS (SELECT FROM control_plane.connections WHERE thing = things.id AND channel = $2::uuid) AS allowed
  FROM control_plane.things WHERE key_lookup = $1`

const userSql = `
  SELECT users.id, users.id AS owner,
         EXISTS (SELECT FROM control_plane.channels WHERE channels.id = $2::uuid AND channels.owner = users.id) AS allowed
  FROM control_plane.users WHERE users.id = $1 AND users.token_version = $3`

type AccessRow = SqlRow & { id: string; owner: string; allowed: boolean }

interface Parts {
  readonly database: Database
  readonly keys: ThingKeys
  readonly tokens: Tokens
  readonly changes: Changes
}

const unauthenticated: Access = { allowed: false, reason: 'unauthenticated' }
const forbidden: Access = { allowed: false, reason: 'forbidden' }

export function openAccess({ database, keys, tokens, changes }: Parts): AccessControl {
  async function ask(sql: string, values: readonly (string | number | Uint8Array | null)[]): Promise<AccessRow | undefined> {
    try {
      return (await database.query<AccessRow>(sql, values))[0]
    } catch (error) {
      if (error instanceof DatabaseError)
        throw new AccessUnavailableError('the control plane cannot ask its database: try again', { cause: error })
      throw error
    }
  }

  return {
    async authorize({ credential, channel, action }) {
      // A channel id of another form is a channel that does not exist; the credential is checked all the same.
      const channelId = isId(channel) ? channel : null
      if (credential.scheme === 'Thing') {
        const row = await ask(thingSql, [keys.lookup(credential.secret), channelId])
        if (row === undefined) return unauthenticated
        return row.allowed ? { allowed: true, publisher: row.id, owner: row.owner } : forbidden
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
