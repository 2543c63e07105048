// Shared by the benchmarks of readers: the routes of a reader over HTTP, for an owner who may read every channel.

import type { AddressInfo } from 'node:net'
import { createLogger } from '../config/logger.ts'
import { cacheAccess } from '../control-plane/access/cache.ts'
import type { AccessControl } from '../control-plane/client.ts'
import { createServer } from '../http/server.ts'
import type { Reader } from '../readers/reader.ts'
import { readerRoutes } from '../readers/routes.ts'

/** Of the owner. */
export const authorization = 'Bearer owner.s.token'

const access: AccessControl = {
  authorize: async () => ({ allowed: true, publisher: null, owner: 'user' }),
  deletedChannels: async () => [],
  onChange: () => () => undefined,
}
const options = { limitMax: 1000, offsetMax: 100_000, countMax: 10_000, queriesMax: 256, exportsMax: 64, idleSeconds: 60 }

/** @param reader the caller closes it */
export async function serveReader(reader: Reader): Promise<{ url: string; close(): Promise<void> }> {
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  const cached = cacheAccess(access, { lifetimeMs: 5_000, entriesMax: 1000 })
  await app.register(readerRoutes({ reader, access: cached, key: Buffer.alloc(32, 7), options, queriesAtOnce: 8 }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return {
    url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`,
    async close() {
      await app.close()
      cached.close()
    },
  }
}
