// `npm test -- --write`, or `node test/tidy/write-readme.ts`: writes the tables of all READMEs anew.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readProject, root } from './files.ts'
import { type Roles, withTables } from './tables.ts'

/** Every role with its options. */
export async function loadRoles(): Promise<Roles> {
  const { roles } = await import('../../roles/roles.ts')
  const loaded = Object.entries(roles).map(async ([name, load]) => [name, (await load()).schema] as const)
  return Object.fromEntries(await Promise.all(loaded))
}

/** @returns a sentence of what was done */
export async function writeReadmes(): Promise<string> {
  const roles = await loadRoles()
  const changed: string[] = []
  for (const { path, text } of await readProject()) {
    if (!path.endsWith('README.md')) continue
    const written = withTables(text, roles)
    if (written === text) continue
    await writeFile(join(root, path), written)
    changed.push(path)
  }
  return changed.length === 0 ? 'the tables are those of the code already' : `tables written: ${changed.join(', ')}`
}

if (import.meta.main) console.log(await writeReadmes())
