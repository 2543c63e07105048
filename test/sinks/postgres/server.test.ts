// The PostgreSQL sink on a server.

import { afterAll, beforeAll } from 'vitest'
import type { Database } from '../../../config/postgres/database.ts'
import { openServer } from '../../../config/postgres/server.ts'
import { type SinkStore, sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { emptyDatabase, storeOn } from './store.ts'

describeWithPostgres('server', postgres => {
  let url: string
  let operator: Database

  beforeAll(async () => {
    url = await postgres.createDatabase()
    operator = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
  })
  afterAll(() => operator.close())

  sinkConformance('PostgreSQL, server', openStore, { restarts: true })

  async function openStore(): Promise<SinkStore> {
    await emptyDatabase(operator)
    const database = await openServer({ url, applicationName: 'writer-1', connectionsMax: 4 })
    return {
      ...storeOn(database, () => database.close()),
      readableDuringWrite: true,
      cutConnections: async () => {
        await operator.query(
          `SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
        )
      },
      restart: () => postgres.restart('immediate'),
    }
  }
})
