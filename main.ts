// Entry of the command `./sluice`: turns on Node.js's compile cache, so that the next start reuses compiled modules.

import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

// Set in the environment, which worker threads and child processes inherit. On a read-only file system the cache is only read.
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('node_modules/.cache/compiled', import.meta.url))
enableCompileCache(process.env['NODE_COMPILE_CACHE'])
await import('./commands.ts')
