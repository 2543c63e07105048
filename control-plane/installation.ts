// The first start on a database, and the check on every later one that the master key is still the one it is written under.

import { timingSafeEqual } from 'node:crypto'
import type { Database } from '../config/postgres/database.ts'
import { deriveKey } from '../config/secrets.ts'
import type { PolicyStore } from './policies/policy-store.ts'

/** The control plane cannot start, and a sentence that says why and what to do: for the operator, not for a stack trace. */
export class ControlPlaneStartError extends Error {
  override readonly name = 'ControlPlaneStartError'
}

/**
 * Whether the database was installed under a master key, and so can be opened with that one alone. Writes nothing, so that it may
 * be asked before a key that is missing is made.
 */
export async function isInstalled(database: Database): Promise<boolean> {
  const [table] = await database.query<{ exists: boolean }>(`SELECT to_regclass('control_plane.installation') IS NOT NULL AS exists`)
  if (table?.exists !== true) return false
  const rows = await database.query('SELECT 1 FROM control_plane.installation')
  return rows.length > 0
}

/**
 * On the first start, remembers the master key's check value and lets everybody register: `create` on `users` for `*`
 * (SPEC §5). Never again, so that an administrator's removal of that policy lasts. Several instances may start at once.
 *
 * @throws ControlPlaneStartError when the database is written under another master key
 */
export async function install(database: Database, policies: PolicyStore, masterKey: Uint8Array): Promise<'installed' | 'exists'> {
  // Derived like every other key, and for nothing else, so it tells nothing of the master key or of those.
  const check = deriveKey(masterKey, 'control-plane-check')
  const first = await policies.transaction(async (transaction, changes) => {
    const rows = await transaction.query(
      'INSERT INTO control_plane.installation (key_check) VALUES ($1) ON CONFLICT DO NOTHING RETURNING 1',
      [check],
    )
    if (rows.length > 0) await changes.add([{ subject: '*', relation: 'create', object: 'users' }])
    return rows.length > 0
  })
  if (first) return 'installed'
  const [row] = await database.query<{ key_check: Uint8Array }>('SELECT key_check FROM control_plane.installation')
  if (row === undefined || row.key_check.length !== check.length || !timingSafeEqual(row.key_check, check)) {
    throw new ControlPlaneStartError(
      "the control plane's database is written under another master key: put back the key it was made with, the file master-key in the data folder of that time or what SVC_MASTER_KEY was then; without it no thing key can be read",
    )
  }
  return 'exists'
}
