// Entry of the command `./sluice`: turns on Node.js's compile cache, so that the next start reuses stripped and compiled modules.

import { constants, enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** In the project, or for a user who may not write there, in the user's own cache folder. Where neither can be had, a start takes longer. */
function cacheFolders(): string[] {
  const { HOME: home, XDG_CACHE_HOME: caches = home && join(home, '.cache') } = process.env
  const own = fileURLToPath(new URL('node_modules/.cache/compiled', import.meta.url))
  return caches === undefined ? [own] : [own, join(caches, 'sluice/compiled')]
}

// Node.js itself uses the folder of this variable, also in worker threads and child processes. One that it may only read is only read.
if (process.env['NODE_COMPILE_CACHE'] === undefined) {
  const folder = cacheFolders().find(folder => enableCompileCache(folder).status !== constants.compileCacheStatus.FAILED)
  if (folder !== undefined) process.env['NODE_COMPILE_CACHE'] = folder
}
await import('./commands.ts')
