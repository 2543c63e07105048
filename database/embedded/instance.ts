// Starts PGlite on a folder, and detects when the PostgreSQL inside it has ended, which PGlite does not.

import { chmod, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { PGlite, PGliteOptions } from '@electric-sql/pglite'
import { syncPath } from '../../config/secrets.ts'
import type { DatabaseError } from '../database.ts'
import { parserOf } from '../values.ts'
import { DamagedDatabaseError, DatabaseStartError, findingOf, startFailure, stopFailure } from './damaged.ts'
import { crashed } from './thread.ts'

export interface Instance {
  readonly pglite: PGlite
  /** Why PostgreSQL ended; undefined while it runs. An ended instance cannot be used: open another. */
  ended(): DatabaseError | undefined
  close(): Promise<void>
}

/** Less memory and smaller statistics samples than PostgreSQL's defaults. */
const settings = ['-c', 'shared_buffers=32MB', '-c', 'default_statistics_target=20', '-c', 'random_page_cost=1.1']
/** Kept lines of output: PostgreSQL prints few before it ends, but many in years of running. */
const linesMax = 100
/** The exit status with which a failed statement returns to PostgreSQL's main loop: an ordinary error. */
const statementFailed = 100

/**
 * Opens the folder, and creates the database if the folder is missing or empty.
 *
 * @throws DamagedDatabaseError if its files are damaged
 * @throws DatabaseError if the disk is full or the folder is not writable
 */
export async function startInstance(folder: string): Promise<Instance> {
  const files = await readdir(folder).catch((error: NodeJS.ErrnoException): string[] => {
    if (error.code === 'ENOENT') return []
    throw new DatabaseStartError(`the folder ${folder} of the embedded database cannot be read: ${error.message}`, { cause: error })
  })
  if (files.length === 0) await initialize(folder)
  // Without this file, PGlite would treat the folder as new and write a new database over the old files.
  else if (!files.includes('PG_VERSION')) throw new DamagedDatabaseError(folder, 'the file PG_VERSION is missing', undefined)
  // PGlite creates files with mode 0666, so the folder must keep other users out.
  await chmod(folder, 0o700).catch((error: NodeJS.ErrnoException) => {
    throw new DatabaseStartError(
      `the folder ${folder} of the embedded database cannot be made private (${error.code}): start as the user that owns it, or make this user the owner of the folder and its files`,
      { cause: error },
    )
  })
  return start(folder)
}

/** Creates the database in a temporary folder beside its place, so that a killed start leaves either none or a complete one. */
async function initialize(folder: string): Promise<void> {
  const initializing = `${folder}.initializing`
  await rm(initializing, { recursive: true, force: true })
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 })
  await mkdir(initializing, { mode: 0o700 })
  const instance = await start(initializing)
  await instance.close()
  await syncTree(initializing)
  await rename(initializing, folder)
  await syncPath(dirname(folder))
}

/**
 * Calls fsync on every file and folder below, each folder after what is in it, and on the folder itself. PGlite never does: after its
 * close this is what makes a clean stop outlast a power cut.
 *
 * @throws Error of the file system, for instance EIO: what was written before may then be lost
 */
export async function syncTree(path: string): Promise<void> {
  for (const entry of await readdir(path, { withFileTypes: true })) {
    const inside = join(path, entry.name)
    if (entry.isDirectory()) await syncTree(inside)
    else if (entry.isFile()) await syncPath(inside)
  }
  await syncPath(path)
}

async function start(folder: string): Promise<Instance> {
  const [{ PGlite }, { NodeFS }, { amcheck }, { pageinspect }] = await Promise.all([
    import('@electric-sql/pglite'),
    import('@electric-sql/pglite/nodefs'),
    import('@electric-sql/pglite/contrib/amcheck'),
    import('@electric-sql/pglite/contrib/pageinspect'),
  ])
  const lines: string[] = []
  const options: PGliteOptions = {
    fs: new NodeFS(folder),
    // For the integrity check. They are files outside the database and load in 10 ms.
    extensions: { amcheck, pageinspect },
    startParams: [...PGlite.defaultStartParams, ...settings],
    onStdout: () => false,
    onStderr: line => {
      lines.push(line)
      if (lines.length > linesMax) lines.shift()
      return false
    },
  }
  let pglite: PGlite
  try {
    pglite = await PGlite.create(folder, options)
  } catch (error) {
    throw startFailure(folder, lines, error)
  }
  const ended = watchEnd(folder, pglite, lines)
  for (const typeId of Object.keys(pglite.parsers)) pglite.parsers[typeId] = parserOf(Number(typeId))
  pglite.serializers = {}
  return {
    pglite,
    ended,
    // After PostgreSQL has ended, PGlite's own close would run it on memory in an unknown state, so only the file system is closed.
    close: () => (ended() === undefined ? pglite.close() : pglite.fs!.closeFs()),
  }
}

/** PGlite's names of the functions exported by PostgreSQL in WebAssembly. */
type Exported = '_PostgresMainLoopOnce' | '_PostgresSendReadyForQueryIfNecessary' | '_pgl_pq_flush' | 'stackRestore'
type Module = Record<Exported, (pointer?: number) => void>

/**
 * After a PANIC (a full disk under the write-ahead log is enough) PGlite calls the ended PostgreSQL in an endless loop and never
 * returns: its loop treats every exception as an ordinary error. So the exception is recorded here, and thrown
 * from `stackRestore`, the only call that the loop makes outside its `try`.
 */
function watchEnd(folder: string, pglite: PGlite, lines: readonly string[]): () => DatabaseError | undefined {
  const module = pglite.Module as unknown as Module
  let end: DatabaseError | undefined
  const wrap = (name: Exported, call: (original: () => void) => void): void => {
    const original = module[name]
    module[name] = pointer => call(() => original(pointer))
  }
  wrap('_PostgresMainLoopOnce', original => {
    if (end !== undefined) throw end
    try {
      original()
    } catch (error) {
      if ((error as { status?: unknown }).status !== statementFailed) end = endOf(folder, findingOf(lines) ?? String(error), error)
      throw error
    }
  })
  wrap('stackRestore', original => {
    if (end !== undefined) throw end
    original()
  })
  // PGlite calls these two after the loop has thrown; they would write to memory in an unknown state.
  for (const name of ['_PostgresSendReadyForQueryIfNecessary', '_pgl_pq_flush'] as const) {
    wrap(name, original => {
      if (end === undefined) original()
    })
  }
  return () => end
}

function endOf(folder: string, finding: string, cause: unknown): DatabaseError {
  return stopFailure(folder, finding, cause) ?? crashed(folder, finding, cause)
}
