// Users: registered with the policies that come with it, recognised by email and password.

import { HttpError } from '../../config/http/errors.ts'
import { type Database, DatabaseError } from '../../config/postgres/database.ts'
import type { Changes } from '../changes.ts'
import { newUserId, type UserId } from '../ids.ts'
import type { PolicyStore } from '../policies/policy-store.ts'
import { type Credentials, normaliseEmail } from './credentials.ts'
import type { Passwords } from './passwords.ts'
import type { TokenVersions } from './token-versions.ts'

export interface RecognisedUser {
  readonly user: UserId
  readonly tokenVersion: number
}

export interface Users {
  /**
   * Adds a user, a member of `users` (SPEC §5, predefined policy 2) and, as administrator, of `authorities`. The credentials
   * have passed `checkNewCredentials`.
   *
   * @throws HttpError `conflict` when the email is taken
   */
  register(credentials: Credentials, role: 'user' | 'administrator'): Promise<UserId>
  /** The user whose email and password these are. An unknown email takes as long as a wrong password. */
  recognise(credentials: Credentials): Promise<RecognisedUser | undefined>
  /** Also ends every token of the user, and tells who remembers their grants. */
  changePassword(user: UserId, password: string): Promise<void>
  tokenVersion(user: UserId): Promise<number | undefined>
}

interface Parts {
  readonly database: Database
  readonly policies: PolicyStore
  readonly passwords: Passwords
  readonly versions: TokenVersions
  readonly changes: Changes
}

const uniqueViolation = '23505'

/** Keeps users from being deleted until what names them is committed. */
export const lockUsersSql = 'SELECT id FROM control_plane.users WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE'

export function openUsers({ database, policies, passwords, versions, changes }: Parts): Users {
  return {
    async register({ email, password }, role) {
      // Before the transaction: the embedded database runs nothing else meanwhile.
      const hash = await passwords.hash(password)
      const user = newUserId()
      try {
        await database.transaction(async transaction => {
          await transaction.query('INSERT INTO control_plane.users (id, email, password_hash) VALUES ($1, $2, $3)', [
            user,
            normaliseEmail(email),
            hash,
          ])
          const objects = role === 'administrator' ? (['users', 'authorities'] as const) : (['users'] as const)
          await policies.add(
            objects.map(object => ({ subject: user, relation: 'member', object })),
            transaction,
          )
        })
      } catch (error) {
        const taken = error instanceof DatabaseError && error.sqlState === uniqueViolation && error.constraint === 'users_email_unique'
        // The database's own message holds the email, so it is no cause here.
        if (taken)
          throw new HttpError('conflict', 'a user with this email exists: get a token with POST /tokens, or register another email')
        throw error
      }
      return user
    },

    async recognise({ email, password }) {
      const [row] = await database.query<{ id: UserId; password_hash: string; token_version: number }>(
        'SELECT id, password_hash, token_version FROM control_plane.users WHERE email = $1',
        [normaliseEmail(email)],
      )
      const matches = await passwords.matches(password, row?.password_hash)
      return matches && row !== undefined ? { user: row.id, tokenVersion: row.token_version } : undefined
    },

    async changePassword(user, password) {
      const hash = await passwords.hash(password)
      const change = { kind: 'user', user } as const
      await database.transaction(async transaction => {
        await transaction.query('UPDATE control_plane.users SET password_hash = $2, token_version = token_version + 1 WHERE id = $1', [
          user,
          hash,
        ])
        await changes.announce(change, transaction)
      })
      versions.forget(user)
      changes.emit(change)
    },

    tokenVersion: user => versions.of(user),
  }
}
