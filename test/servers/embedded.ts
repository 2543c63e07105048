// A folder with a new embedded database for each caller, copied from one that was created once, which takes seconds of a core.

import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Database } from '../../database/database.ts'
import { openEmbedded } from '../../database/embedded/embedded.ts'
import manifest from '../../package.json' with { type: 'json' }

export interface EmbeddedFolder extends AsyncDisposable {
  /** The database's folder; its parent belongs to the caller too. */
  readonly path: string
  remove(): Promise<void>
}

/**
 * Open it with `openEmbedded`, and remove it after closing.
 *
 * @param source a closed database to copy; a new one by default
 */
export async function embeddedFolder(source?: string): Promise<EmbeddedFolder> {
  const parent = await mkdtemp(join(tmpdir(), 'sluice-embedded-'))
  const path = join(parent, 'postgres')
  await cp(source ?? (await template()), path, { recursive: true })
  const remove = (): Promise<void> => rm(parent, { recursive: true, force: true })
  return { path, remove, [Symbol.asyncDispose]: remove }
}

/** A schema with which many suites begin. */
export interface EmbeddedSchema {
  readonly name: string
  /** The folder of its sources: other content is another schema. */
  readonly folder: string
  make(database: Database): Promise<void>
}

/** A new open embedded database; its folder is removed when it is closed. */
export async function openFreshEmbedded(schema?: EmbeddedSchema): Promise<Database> {
  const folder = await embeddedFolder(await template(schema))
  const database = await openEmbedded({ folder: folder.path })
  return {
    ...database,
    close: async () => {
      await database.close()
      await folder.remove()
    },
  }
}

/** Created beside its place and then moved, so that others only see a complete one. For one PGlite version, because another may not read its files. */
async function template(schema?: EmbeddedSchema): Promise<string> {
  const cache = join(process.env['SLUICE_CACHE'] ?? join(homedir(), '.cache', 'sluice'), 'embedded')
  const kind = schema === undefined ? 'fresh' : `${schema.name}-${await hashOf(schema.folder)}`
  const place = join(cache, `${kind}-${manifest.dependencies['@electric-sql/pglite']}`)
  if (existsSync(place)) return place
  await mkdir(cache, { recursive: true })
  const draft = await mkdtemp(join(cache, 'draft-'))
  try {
    const database = await openEmbedded({ folder: join(draft, 'postgres') })
    await schema?.make(database)
    await database.close()
    await rename(join(draft, 'postgres'), place)
  } catch (error) {
    // Another process was first: its database is equivalent.
    if (!existsSync(place)) throw error
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  return place
}

async function hashOf(folder: string): Promise<string> {
  const hash = createHash('sha256')
  for (const name of (await readdir(folder)).toSorted()) hash.update(name).update(await readFile(join(folder, name)))
  return hash.digest('hex').slice(0, 12)
}
