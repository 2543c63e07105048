// The PostgreSQL sink on the embedded database.

import { afterAll, beforeAll, describe } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { sinkConformance } from '../../conformance/sink/index.ts'
import { openFreshEmbedded } from '../../servers/embedded.ts'
import { emptyDatabase, storeOn } from './store.ts'

describe('embedded', () => {
  let database: Database

  beforeAll(async () => {
    database = await openFreshEmbedded()
  })
  afterAll(() => database.close())

  const openStore = async () => {
    await emptyDatabase(database)
    // Its one connection is busy while a write is under way. Fewer formats than on the server, where the same code makes all 1,000.
    return { ...storeOn(database, async () => undefined, 100), readableDuringWrite: false }
  }
  sinkConformance('PostgreSQL, embedded', openStore, { connections: false })
})
