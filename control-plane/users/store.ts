// Users in the database: registration with its policies, and recognition by email and password.

import { type Database, DatabaseError, type SqlRow, uniqueViolation } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { parseJsonText } from '../../http/requests/json-body.ts'
import type { AuditAction } from '../audit/store.ts'
import type { Metadata } from '../entity.ts'
import { newUserId, type UserId } from '../ids.ts'
import { revokeAllKeys } from '../keys/store.ts'
import { demandOtherAdministrator } from '../policies/administrators.ts'
import { isDelivered, type PolicyStore } from '../policies/policy-store.ts'
import { boundedRows, type Page, type PageRequest, pageSql, type Searcher, toPage } from '../requests/page.ts'
import type { Actor, Caller, Write, Writes } from '../writes.ts'
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
   * @param role `bounded`: a user whose things, channels, API keys and messages have bounds
   * @throws HttpError `conflict` when the email is taken
   */
  register(by: Actor, user: Credentials & { readonly metadata?: Metadata }, role: 'bounded' | 'user' | 'administrator'): Promise<UserId>
  /** The user with this email and password. An unknown email takes as long as a wrong password. */
  recognise(credentials: Credentials): Promise<RecognisedUser | undefined>
  /** The user with this email, unless it is disabled. */
  enabled(email: string): Promise<RecognisedUser | undefined>
  /**
   * Also ends every token of the user, and notifies caches of grants.
   *
   * @returns false if there is no such user, or its version has changed
   */
  changePassword(by: Actor, user: UserId, password: string, options?: PasswordChangeOptions): Promise<boolean>
  tokenVersion(user: UserId): Promise<number | undefined>
  find(user: UserId): Promise<User | undefined>
  /** By email. */
  list(filter: UserFilter, page: PageRequest, by: Searcher): Promise<Page<User>>
  setMetadata(by: Caller, metadata: Metadata): Promise<void>
  /**
   * Disables or enables a user. When this resolves, a disabled user cannot sign in, their tokens and API keys are refused, and their things can
   * neither publish nor read.
   *
   * @returns false if there is no such user, or if `by` was disabled meanwhile
   * @throws HttpError `conflict` if no administrator who can sign in would remain
   */
  setDisabled(by: Actor, user: UserId, isDisabled: boolean): Promise<boolean>
  /** Gives a user bounds, or lifts them; what they own beyond these stays. @returns false if there is no such user */
  setBounded(by: Actor, user: UserId, isBounded: boolean): Promise<boolean>
}

export interface PasswordChangeOptions {
  /** Changes it only while the user's tokens have this version, which means that the password checked before is still current. */
  readonly ifVersion?: number
  /** Also revokes every API key of the user. */
  readonly revokesKeys?: boolean | undefined
}

export interface User {
  readonly id: UserId
  readonly email: string
  /** Absent if none was given. */
  readonly metadata?: Metadata
  /** Absent for a user without bounds. */
  readonly bounded?: boolean
}

export interface UserFilter {
  /** A part of the email, case ignored. */
  readonly email?: string | undefined
  /** A part of the stored metadata. */
  readonly metadata?: Metadata | undefined
}

interface Parts {
  readonly database: Database
  readonly policies: Pick<PolicyStore, 'list'>
  readonly writes: Writes
  readonly passwords: Passwords
  readonly versions: TokenVersions
}

/** Keeps users from being deleted until the rows that name them are committed. */
export const lockUsersSql = `
  SELECT id FROM control_plane.users WHERE id = ANY($1::uuid[]) AND ${isDelivered('users.id')} ORDER BY id FOR KEY SHARE`

const insertSql = 'INSERT INTO control_plane.users (id, email, password_hash, metadata, bounded) VALUES ($1, $2, $3, $4::jsonb, $5)'

const listSql = `
  SELECT email COLLATE "C" AS ordinal, id, email, email AS name, metadata, bounded FROM control_plane.users
  WHERE ($1::text IS NULL OR strpos(email, $1) > 0) AND ($2::jsonb IS NULL OR metadata @> $2)
    AND ${isDelivered('users.id')}`

type UserRow = SqlRow & { id: UserId; email: string; metadata: string | null; bounded: boolean }

type ChangedRow = SqlRow & { changed: boolean }

type NamedRow = SqlRow & { id: UserId; password_hash: string; token_version: number; disabled: boolean }

export function openUsers({ database, policies, writes, passwords, versions }: Parts): Users {
  /**
   * Runs a change that may end the user's tokens and grants.
   *
   * @param work its row says whether it changed anything; there is none if there is no such user
   */
  async function endAccess(by: Actor, user: UserId, action: AuditAction, work: (write: Write) => Promise<ChangedRow[]>): Promise<boolean> {
    const row = await writes(by, async write => {
      const [row] = await work(write)
      if (row?.changed !== true) return row
      write.note(action, [user])
      write.ends({ kind: 'user', user })
      return row
    })
    if (row?.changed === true) versions.forget(user)
    return row !== undefined
  }

  async function byEmail(email: string): Promise<NamedRow | undefined> {
    const [row] = await database.query<NamedRow>(
      `SELECT id, password_hash, token_version, disabled_at IS NOT NULL AS disabled
       FROM control_plane.users WHERE email = $1 AND ${isDelivered('users.id')}`,
      [normaliseEmail(email)],
    )
    return row
  }

  return {
    async register(by, { email, password, metadata }, role) {
      // Hashed before the transaction, during which the embedded database runs nothing else.
      const hash = await passwords.hash(password)
      const user = newUserId()
      try {
        await writes(by, async write => {
          const metadataText = metadata === undefined ? null : JSON.stringify(metadata)
          await write.query(insertSql, [user, normaliseEmail(email), hash, metadataText, role === 'bounded'])
          const objects = role === 'administrator' ? (['users', 'authorities'] as const) : (['users'] as const)
          const granted = objects.map(object => ({ subject: user, relation: 'member', object }) as const)
          await write.policies.add(granted, [user])
          write.note('user.register', [user])
        })
      } catch (error) {
        const taken = error instanceof DatabaseError && error.sqlState === uniqueViolation && error.constraint === 'users_email_unique'
        // The database's message contains the email, so it is not attached as a cause.
        if (taken)
          throw new HttpError('conflict', 'a user with this email exists: get a token with POST /tokens, or register another email')
        throw error
      }
      return user
    },

    async recognise({ email, password }) {
      const row = await byEmail(email)
      const matches = await passwords.matches(password, row?.password_hash)
      return matches ? recognised(row) : undefined
    },

    enabled: async email => recognised(await byEmail(email)),

    async changePassword(by, user, password, { ifVersion, revokesKeys = false } = {}) {
      const hash = await passwords.hash(password)
      const sql = `
        UPDATE control_plane.users SET password_hash = $2, token_version = token_version + 1
        WHERE id = $1 AND ($3::int4 IS NULL OR token_version = $3) RETURNING true AS changed`
      const action = by.user === user ? 'user.change-password' : 'user.reset-password'
      return endAccess(by, user, action, async write => {
        const changed = await write.query<ChangedRow>(sql, [user, hash, ifVersion ?? null])
        if (changed.length > 0 && revokesKeys) await revokeAllKeys(write, user)
        return changed
      })
    },

    tokenVersion: user => versions.of(user),

    async find(user) {
      const [row] = await database.query<UserRow>('SELECT id, email, metadata, bounded FROM control_plane.users WHERE id = $1', [user])
      return row === undefined ? undefined : toUser(row)
    },

    async list({ email, metadata }, page, by) {
      const filter = metadata === undefined ? null : JSON.stringify(metadata)
      const values = [email === undefined ? null : normaliseEmail(email), filter, page.offset, page.limit]
      const sql = pageSql(listSql, 4, page)
      return toPage(await boundedRows<UserRow & { total: bigint }>(database, by, 'narrow the list by email', sql, values), toUser)
    },

    async setMetadata(by, metadata) {
      await writes(by, async write => {
        await write.query('UPDATE control_plane.users SET metadata = $2::jsonb WHERE id = $1', [by.user, JSON.stringify(metadata)])
        write.note('user.update', [by.user])
      })
    },

    async setDisabled(by, user, isDisabled) {
      const meantSql = 'id = $1 AND NOT EXISTS (SELECT FROM control_plane.users WHERE id = $3 AND disabled_at IS NOT NULL)'
      const sql = `
        WITH done AS (
          UPDATE control_plane.users SET disabled_at = CASE WHEN $2::boolean THEN now() END, token_version = token_version + 1
          WHERE ${meantSql} AND (disabled_at IS NOT NULL) <> $2::boolean RETURNING id
        )
        SELECT EXISTS (SELECT FROM done) AS changed FROM control_plane.users WHERE ${meantSql}`
      const action = isDisabled ? 'user.disable' : 'user.enable'
      return endAccess(by, user, action, async write => {
        if (isDisabled) await demandOtherAdministrator(write, policies, [user])
        return write.query<ChangedRow>(sql, [user, isDisabled, by.user ?? null])
      })
    },

    setBounded(by, user, isBounded) {
      const sql = `
        WITH done AS (UPDATE control_plane.users SET bounded = $2::boolean WHERE id = $1 AND bounded <> $2::boolean RETURNING id)
        SELECT EXISTS (SELECT FROM done) AS changed FROM control_plane.users WHERE id = $1`
      // Grants say whether the owner of a thing has bounds.
      return endAccess(by, user, isBounded ? 'user.bound' : 'user.raise', write => write.query<ChangedRow>(sql, [user, isBounded]))
    },
  }
}

function recognised(row: NamedRow | undefined): RecognisedUser | undefined {
  return row === undefined || row.disabled ? undefined : { user: row.id, tokenVersion: row.token_version }
}

function toUser({ id, email, metadata, bounded }: UserRow): User {
  const metadataField = metadata === null ? {} : { metadata: parseJsonText(metadata) as Metadata }
  return { id, email, ...metadataField, ...(bounded ? { bounded } : {}) }
}
