// Starts PGlite on a folder, and notices when PostgreSQL inside it has ended, which PGlite does not.

import { chmodSync, readdirSync, statSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { PGlite, PGliteOptions } from '@electric-sql/pglite'
import type { NodeFS } from '@electric-sql/pglite/nodefs'
import { DamagedDatabaseError, DatabaseStartError, findingOf, startFailure, stopFailure } from './damaged.ts'
import type { DatabaseError } from './database.ts'
import { crashed } from './embedded-thread.ts'
import { syncFolder } from './sync-folder.ts'
import { parserOf } from './values.ts'

export interface Instance {
  readonly pglite: PGlite
  /** Why PostgreSQL ended; undefined while it runs. Nothing can be asked of an instance that ended: open another. */
  ended(): DatabaseError | undefined
  close(): Promise<void>
}

/** What PostgreSQL keeps in memory, and how much it samples for statistics: both less than its defaults, with what that costs in the README. */
const settings = ['-c', 'shared_buffers=32MB', '-c', 'default_statistics_target=20', '-c', 'random_page_cost=1.1']
/** What PostgreSQL says before it ends is short; what it says in years of running is not. */
const linesMax = 100
/** The exit status by which a failed statement returns to PostgreSQL's main loop: an ordinary error. */
const statementFailed = 100

/**
 * Opens the folder, and makes it where it is missing or empty.
 *
 * @throws DamagedDatabaseError where its files are not what PostgreSQL wrote
 * @throws DatabaseError where the disk is full or the folder may not be written
 */
export async function startInstance(folder: string): Promise<Instance> {
  const files = await readdir(folder).catch((error: NodeJS.ErrnoException): string[] => {
    if (error.code === 'ENOENT') return []
    throw new DatabaseStartError(`the folder ${folder} of the embedded database cannot be read: ${error.message}`, { cause: error })
  })
  if (files.length === 0) await initialize(folder)
  // PGlite takes a folder without this file for a new one, and would write a new database over the old one's files.
  else if (!files.includes('PG_VERSION')) throw new DamagedDatabaseError(folder, 'the file PG_VERSION is missing', undefined)
  closeToOthers(folder)
  return start(folder)
}

/** Takes away what earlier releases gave to group and others: their files had mode 0666. At once, since there are about a thousand. */
function closeToOthers(folder: string): void {
  try {
    chmodSync(folder, 0o700)
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() && !entry.isDirectory()) continue
      const path = join(entry.parentPath, entry.name)
      const { mode } = statSync(path)
      if ((mode & 0o077) !== 0) chmodSync(path, mode & 0o700)
    }
  } catch (error) {
    throw new DatabaseStartError(
      `the folder ${folder} of the embedded database cannot be closed to other users (${(error as NodeJS.ErrnoException).code}): start as the user that owns it, or give this user the folder and its files`,
      { cause: error },
    )
  }
}

/** Makes the database beside its place, so that a start that is killed leaves either nothing or a whole one. */
async function initialize(folder: string): Promise<void> {
  const beside = `${folder}.initializing`
  await rm(beside, { recursive: true, force: true })
  await mkdir(dirname(folder), { recursive: true, mode: 0o700 })
  await mkdir(beside, { mode: 0o700 })
  const instance = await start(beside)
  await instance.close()
  await syncFolder(beside)
  await rename(beside, folder)
  await syncFolder(dirname(folder), { depth: 0 })
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
    fs: privateFiles(new NodeFS(folder)),
    // Only files beside the database's: they are loaded in 10 ms, and tell a good folder from a damaged one.
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
    // PGlite's own close would run PostgreSQL's on a memory that is in no known state. The files are only read from then on.
    close: () => (ended() === undefined ? pglite.close() : pglite.fs!.closeFs()),
  }
}

interface NodeOperations {
  mknod: (parent: unknown, name: string, mode: number, device: number) => unknown
  setattr: (node: unknown, attributes: { mode?: number }) => void
}

/** PGlite asks for mode 0666. Its file system is told to leave group and others out, as a umask would: a thread cannot set one. */
function privateFiles(files: NodeFS): NodeFS {
  const init = files.init.bind(files)
  files.init = (pglite, options) => {
    const closeToOthers = (module: unknown): void => {
      const operations = (module as { NODEFS: { node_ops: NodeOperations } }).NODEFS.node_ops
      const { mknod, setattr } = operations
      operations.mknod = (parent, name, mode, device) => mknod(parent, name, mode & ~0o077, device)
      operations.setattr = (node, attributes) =>
        setattr(node, attributes.mode === undefined ? attributes : { ...attributes, mode: attributes.mode & ~0o077 })
    }
    return init(pglite, { ...options, preRun: [...(options.preRun ?? []), closeToOthers] })
  }
  return files
}

/** PGlite's own names of the functions that PostgreSQL in WebAssembly exports. */
type Exported = '_PostgresMainLoopOnce' | '_PostgresSendReadyForQueryIfNecessary' | '_pgl_pq_flush' | 'stackRestore'
type Module = Record<Exported, (pointer?: number) => void>

/**
 * After a PANIC (a full disk under the write-ahead log is enough) PGlite calls the ended PostgreSQL again and again, for ever and
 * without giving back control: its loop takes every exception for an ordinary error. So the exception is kept here, and thrown
 * from the one call that the loop makes outside of its `try`, which is `stackRestore`.
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
  // PGlite calls these two when the loop has thrown; they would write to a memory that is in no known state.
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
