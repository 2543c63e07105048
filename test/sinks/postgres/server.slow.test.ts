// The PostgreSQL sink on a server.

import { afterAll, beforeAll } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import { type SinkStore, sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithOwnPostgres } from '../../servers/postgres.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { throughProxy } from '../through-proxy.ts'
import { emptyDatabase, storeOn } from './store.ts'

describeWithOwnPostgres('server', postgres => {
  let url: string
  let operator: Database
  let proxy: Proxy

  beforeAll(async () => {
    url = await postgres.createDatabase()
    operator = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
    proxy = await openProxy({ port: Number(new URL(url).port) })
  })
  afterAll(async () => {
    await operator.close()
    await proxy.close()
  })

  sinkConformance('PostgreSQL, server', openStore, { restarts: true, slow: true })

  async function openStore(): Promise<SinkStore> {
    await emptyDatabase(operator)
    const database = await openServer({ url: url.replace(/:\d+\//, `:${proxy.port}/`), applicationName: 'writer-1', connectionsMax: 4 })
    return {
      ...storeOn(database, () => database.close()),
      readableDuringWrite: true,
      ...throughProxy(proxy),
      cutConnections: async () => {
        await operator.query(
          `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
        )
      },
      restart: () => postgres.restart('immediate'),
    }
  }
})
