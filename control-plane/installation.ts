// The first start on a database, and the check on every later start that the database is written under one of the master keys.

import { timingSafeEqual } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { deriveKey, type MasterKeys } from '../config/secrets.ts'
import type { Database, Queries } from '../database/database.ts'
import { type MigrateOptions, pendingMigrations } from '../database/migrate.ts'
import { checkMayCreate, checkTableRights } from '../database/rights.ts'
import type { PolicyStore } from './policies/policy-store.ts'

export const migrations: MigrateOptions = {
  folder: fileURLToPath(new URL('./migrations', import.meta.url)),
  schema: 'control_plane',
  table: 'migrations',
}

/** The control plane cannot start. The message tells the operator why and what to do, and is shown without a stack trace. */
export class ControlPlaneStartError extends Error {
  override readonly name = 'ControlPlaneStartError'
}

/**
 * Whether the database was installed under a master key, so that only that key can open it. Writes nothing, so it can be called
 * before a missing key is generated.
 */
export async function isInstalled(database: Database): Promise<boolean> {
  const [table] = await database.query<{ exists: boolean }>(`SELECT to_regclass('control_plane.installation') IS NOT NULL AS exists`)
  if (table?.exists !== true) return false
  const rows = await database.query('SELECT 1 FROM control_plane.installation')
  return rows.length > 0
}

/**
 * On the first start, stores the first master key's check value and opens self-registration: `create` on `users` for `*`
 * (SPEC §5). Never again, so that an administrator's removal of that policy lasts. Several instances may start at once.
 *
 * @throws ControlPlaneStartError when the database is written under a master key that is not given
 */
export async function install(database: Database, policies: PolicyStore, masterKeys: MasterKeys): Promise<'installed' | 'exists'> {
  const first = await policies.transaction(async (transaction, changes) => {
    const rows = await transaction.query(
      'INSERT INTO control_plane.installation (key_check) VALUES ($1) ON CONFLICT DO NOTHING RETURNING 1',
      [checkOf(masterKeys[0])],
    )
    if (rows.length > 0) await changes.add([{ subject: '*', relation: 'create', object: 'users' }])
    return rows.length > 0
  })
  if (first) return 'installed'
  await checkedKey(database, masterKeys)
  return 'exists'
}

/**
 * What a start needs of the database, and changes nothing.
 *
 * @returns the names of the migrations that it would apply
 * @throws ControlPlaneStartError, NewerSchemaError, DatabaseError as the start
 */
export async function checkInstallation(database: Database, masterKeys: MasterKeys): Promise<string[]> {
  const pending = await pendingMigrations(database, migrations)
  await checkMayCreate(database, migrations.schema)
  if (await isInstalled(database)) await checkedKey(database, masterKeys)
  if (pending.length === 0) await checkTableRights(database, migrations.schema, ['SELECT', 'INSERT', 'UPDATE', 'DELETE'])
  return pending
}

/** A key derived only for this check, so that it reveals neither the master key nor any other derived key. */
const checkOf = (masterKey: Uint8Array): Buffer => deriveKey(masterKey, 'control-plane-check')

/**
 * The one of these keys that the database is written under.
 *
 * @throws ControlPlaneStartError when it is written under another one
 */
export async function checkedKey(queries: Queries, masterKeys: MasterKeys): Promise<Buffer> {
  const [row] = await queries.query<{ key_check: Uint8Array }>('SELECT key_check FROM control_plane.installation')
  const key = masterKeys.find(masterKey => {
    const check = checkOf(masterKey)
    return row?.key_check.length === check.length && timingSafeEqual(row.key_check, check)
  })
  if (key !== undefined) return key
  throw new ControlPlaneStartError(
    "the control plane's database is encrypted with another master key: restore the key it was created with, from the file master-key of its data folder or the former SVC_MASTER_KEY; without it no thing key can be read",
  )
}

/** From now on the database is written under this key. */
export async function setCheckedKey(queries: Queries, masterKey: Uint8Array): Promise<void> {
  await queries.query('UPDATE control_plane.installation SET key_check = $1', [checkOf(masterKey)])
}

/**
 * For a command that works on the database beside running instances, and neither installs nor migrates.
 *
 * @throws ControlPlaneStartError if there is no control plane, or one of an older version
 * @throws NewerSchemaError
 */
export async function assertUpToDate(database: Database): Promise<void> {
  if (!(await isInstalled(database)))
    throw new ControlPlaneStartError('the database contains no control plane: start the platform on it first, then run this command again')
  const [pending] = await pendingMigrations(database, migrations)
  if (pending === undefined) return
  throw new ControlPlaneStartError(
    `the control plane's database has an older version (${pending} is missing): start this version once to migrate it, then run this command again`,
  )
}
