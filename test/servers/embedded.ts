// A folder with a fresh embedded database for each caller, as a copy of one that was made once: making one takes seconds of a core.

import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Database } from '../../config/postgres/database.ts'
import { openEmbedded } from '../../config/postgres/embedded.ts'
import manifest from '../../package.json' with { type: 'json' }

export interface EmbeddedFolder extends AsyncDisposable {
  /** Where the database is; its parent is the caller's too. */
  readonly path: string
  remove(): Promise<void>
}

/**
 * To be opened by `openEmbedded`, and removed after its close.
 *
 * @param source a closed database to copy; a fresh one if not given
 */
export async function embeddedFolder(source?: string): Promise<EmbeddedFolder> {
  const parent = await mkdtemp(join(tmpdir(), 'sluice-embedded-'))
  const path = join(parent, 'postgres')
  await cp(source ?? (await template()), path, { recursive: true })
  const remove = (): Promise<void> => rm(parent, { recursive: true, force: true })
  return { path, remove, [Symbol.asyncDispose]: remove }
}

/** A fresh embedded database, open; its folder is removed when it is closed. */
export async function openFreshEmbedded(): Promise<Database> {
  const folder = await embeddedFolder()
  const database = await openEmbedded({ folder: folder.path })
  return {
    ...database,
    close: async () => {
      await database.close()
      await folder.remove()
    },
  }
}

/** Made beside its place, so that whoever sees it sees a whole one. Of one version, since another may not read its files. */
async function template(): Promise<string> {
  const cache = join(process.env['SLUICE_CACHE'] ?? join(homedir(), '.cache', 'sluice'), 'embedded')
  const place = join(cache, `fresh-${manifest.dependencies['@electric-sql/pglite']}`)
  if (existsSync(place)) return place
  await mkdir(cache, { recursive: true })
  const draft = await mkdtemp(join(cache, 'draft-'))
  try {
    const database = await openEmbedded({ folder: join(draft, 'postgres') })
    await database.close()
    await rename(join(draft, 'postgres'), place)
  } catch (error) {
    // Another process was first: its database is as good.
    if (!existsSync(place)) throw error
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  return place
}
