// Access control in process: what a thing's key or a user's token opens, one query for each question.

import { networkOf } from '../config/http/client-address.ts'
import { type Database, DatabaseError, type SqlRow } from '../config/postgres/database.ts'
import type { Changes } from './changes.ts'
import { type Access, type AccessControl, AccessUnavailableError } from './client.ts'
import { type FailedAttempts, failuresMax } from './failed-attempts.ts'
import { isId } from './ids.ts'
import type { ThingKeys } from './things/keys.ts'
import type { Tokens } from './tokens/store.ts'

// A key that was replaced has an end.
const thingSql = `
  SELECT things.id, things.owner,
         EXISTS (SELECT FROM control_plane.connections WHERE thing = things.id AND channel = $2::uuid) AS allowed,
         CASE WHEN key_lookup <> $1 THEN extract(epoch FROM previous_key_ends_at - now())::float8 * 1000 END AS left_ms
  FROM control_plane.things WHERE key_lookup = $1 OR (previous_key_lookup = $1 AND previous_key_ends_at > now())`

const userSql = `
  SELECT users.id, users.id AS owner, NULL::float8 AS left_ms,
         EXISTS (SELECT FROM control_plane.channels WHERE channels.id = $2::uuid AND channels.owner = users.id) AS allowed
  FROM control_plane.users WHERE users.id = $1 AND users.token_version = $3`

type AccessRow = SqlRow & { id: string; owner: string; allowed: boolean; left_ms: number | null }

interface Parts {
  readonly database: Database
  readonly keys: ThingKeys
  readonly tokens: Tokens
  readonly changes: Changes
  readonly failedAttempts: FailedAttempts
}

const unauthenticated: Access = { allowed: false, reason: 'unauthenticated' }
const forbidden: Access = { allowed: false, reason: 'forbidden' }

/** Unknown keys that one instance counts: who tries a new one each time makes no more rows than this. */
const countedPerSecondMax = 100

export function openAccess({ database, keys, tokens, changes, failedAttempts }: Parts): AccessControl {
  let secondStartMs = -Infinity
  let counted = 0

  async function ask(sql: string, values: readonly (string | number | Uint8Array | null)[]): Promise<AccessRow | undefined> {
    return orUnavailable(async () => (await database.query<AccessRow>(sql, values))[0])
  }

  /** Only for a key that the database was asked for and does not have, so no valid key is ever counted or limited. */
  async function refuseUnknown(lookup: Buffer, address: string | undefined): Promise<Access> {
    if (address === undefined) return unauthenticated
    const attempt = failedAttempts.keyOf('thing-key', lookup.toString('base64url'), networkOf(address))
    if (failedAttempts.limitedMs(attempt) === 0) {
      if (performance.now() - secondStartMs >= 1000) {
        secondStartMs = performance.now()
        counted = 0
      }
      if (counted++ >= countedPerSecondMax) return unauthenticated
      const [failures] = await orUnavailable(() => failedAttempts.note([attempt]))
      if (failures! <= failuresMax) return unauthenticated
    }
    return { allowed: false, reason: 'limited', leftMs: failedAttempts.limitedMs(attempt) }
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
        const lookup = keys.lookup(credential.secret)
        const row = await ask(thingSql, [lookup, channelId])
        if (row === undefined) return refuseUnknown(lookup, address)
        if (!row.allowed) return forbidden
        const endsMs = row.left_ms === null ? {} : { endsMs: Date.now() + row.left_ms }
        return { allowed: true, publisher: row.id, owner: row.owner, ...endsMs }
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
