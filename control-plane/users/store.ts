// Users: registered with the policies that come with it, recognised by email and password.

import { HttpError } from '../../config/http/errors.ts'
import { parseJsonText } from '../../config/http/json-body.ts'
import { type Database, DatabaseError, type SqlRow, type Transaction } from '../../config/postgres/database.ts'
import type { Changes } from '../changes.ts'
import type { Metadata } from '../entity.ts'
import { newUserId, type UserId } from '../ids.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../page.ts'
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
  register(user: Credentials & { readonly metadata?: Metadata }, role: 'user' | 'administrator'): Promise<UserId>
  /** The user whose email and password these are. An unknown email takes as long as a wrong password. */
  recognise(credentials: Credentials): Promise<RecognisedUser | undefined>
  /** Also ends every token of the user, and tells who remembers their grants. @returns false where there is no such user */
  changePassword(user: UserId, password: string): Promise<boolean>
  tokenVersion(user: UserId): Promise<number | undefined>
  find(user: UserId): Promise<User | undefined>
  /** By email. */
  list(filter: UserFilter, page: PageRequest): Promise<Page<User>>
  setMetadata(user: UserId, metadata: Metadata): Promise<void>
  /**
   * A user who is disabled cannot sign in, their tokens and API keys are refused, and their things publish and read nothing; all of that when
   * this resolves.
   *
   * @returns false where there is no such user
   */
  setDisabled(user: UserId, isDisabled: boolean): Promise<boolean>
}

export interface User {
  readonly id: UserId
  readonly email: string
  /** Absent where none was given. */
  readonly metadata?: Metadata
}

export interface UserFilter {
  /** A part of the email, case ignored. */
  readonly email?: string | undefined
  /** A part of the stored metadata. */
  readonly metadata?: Metadata | undefined
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

const listSql = `
  SELECT email COLLATE "C" AS ordinal, id, email, email AS name, metadata FROM control_plane.users
  WHERE ($1::text IS NULL OR strpos(email, $1) > 0) AND ($2::jsonb IS NULL OR metadata @> $2)`

type UserRow = SqlRow & { id: UserId; email: string; metadata: string | null }

export function openUsers({ database, policies, passwords, versions, changes }: Parts): Users {
  /** What ends the user's tokens and grants. */
  async function endAccess(user: UserId, work: (transaction: Transaction) => Promise<SqlRow[]>): Promise<boolean> {
    const change = { kind: 'user', user } as const
    const rows = await database.transaction(async transaction => {
      const done = await work(transaction)
      if (done.length > 0) await changes.announce(change, transaction)
      return done
    })
    if (rows.length === 0) return false
    versions.forget(user)
    changes.emit(change)
    return true
  }

  return {
    async register({ email, password, metadata }, role) {
      // Before the transaction: the embedded database runs nothing else meanwhile.
      const hash = await passwords.hash(password)
      const user = newUserId()
      try {
        await database.transaction(async transaction => {
          await transaction.query('INSERT INTO control_plane.users (id, email, password_hash, metadata) VALUES ($1, $2, $3, $4::jsonb)', [
            user,
            normaliseEmail(email),
            hash,
            metadata === undefined ? null : JSON.stringify(metadata),
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
      const [row] = await database.query<{ id: UserId; password_hash: string; token_version: number; disabled: boolean }>(
        'SELECT id, password_hash, token_version, disabled_at IS NOT NULL AS disabled FROM control_plane.users WHERE email = $1',
        [normaliseEmail(email)],
      )
      const matches = await passwords.matches(password, row?.password_hash)
      return matches && row !== undefined && !row.disabled ? { user: row.id, tokenVersion: row.token_version } : undefined
    },

    async changePassword(user, password) {
      const hash = await passwords.hash(password)
      const sql = 'UPDATE control_plane.users SET password_hash = $2, token_version = token_version + 1 WHERE id = $1 RETURNING id'
      return endAccess(user, transaction => transaction.query(sql, [user, hash]))
    },

    tokenVersion: user => versions.of(user),

    async find(user) {
      const [row] = await database.query<UserRow>('SELECT id, email, metadata FROM control_plane.users WHERE id = $1', [user])
      return row === undefined ? undefined : toUser(row)
    },

    async list({ email, metadata }, page) {
      const filter = metadata === undefined ? null : JSON.stringify(metadata)
      const values = [email === undefined ? null : normaliseEmail(email), filter, page.offset, page.limit]
      return toPage(await database.query<UserRow & { total: bigint }>(pageSql(listSql, 4, page), values), toUser)
    },

    async setMetadata(user, metadata) {
      await database.query('UPDATE control_plane.users SET metadata = $2::jsonb WHERE id = $1', [user, JSON.stringify(metadata)])
    },

    async setDisabled(user, isDisabled) {
      const sql = `
        UPDATE control_plane.users
        SET disabled_at = CASE WHEN $2::boolean THEN coalesce(disabled_at, now()) END, token_version = token_version + 1
        WHERE id = $1 RETURNING id`
      return endAccess(user, transaction => transaction.query(sql, [user, isDisabled]))
    },
  }
}

function toUser({ id, email, metadata }: UserRow): User {
  return metadata === null ? { id, email } : { id, email, metadata: parseJsonText(metadata) as Metadata }
}
