// `npm test -- --write`, or `node test/tidy/write-readme.ts`: updates the tables and excerpts of all documents.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { withExcerpts } from './excerpts.ts'
import { readProject, root } from './files.ts'
import { routeTables } from './routes.ts'
import { type Roles, type TableSources, withTables } from './tables.ts'

/** Every role with its options. */
export async function loadRoles(): Promise<Roles> {
  const { roles } = await import('../../roles/roles.ts')
  const loaded = Object.entries(roles).map(async ([name, load]) => [name, (await load()).schema] as const)
  return Object.fromEntries(await Promise.all(loaded))
}

export async function loadTableSources(): Promise<TableSources> {
  const [roles, routes] = await Promise.all([loadRoles(), routeTables()])
  return { roles, routes }
}

/** @returns a sentence about what was done */
export async function writeReadmes(): Promise<string> {
  const sources = await loadTableSources()
  const changed: string[] = []
  const files = await readProject()
  for (const { path, text } of files) {
    if (!path.endsWith('.md')) continue
    const written = withExcerpts(withTables(text, sources), files)
    if (written === text) continue
    await writeFile(join(root, path), written)
    changed.push(path)
  }
  return changed.length === 0 ? 'the tables and excerpts are those of the code already' : `written: ${changed.join(', ')}`
}

if (import.meta.main) console.log(await writeReadmes())
