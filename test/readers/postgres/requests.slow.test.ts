// The PostgreSQL reader on a server, over HTTP.

import { openServer } from '../../../database/server.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { requestSuite } from '../request/request-suite.ts'
import { openSite } from './site.ts'

describeWithPostgres('requests to the reader of a PostgreSQL server', postgres => {
  requestSuite(async () => {
    const url = await postgres.createDatabase()
    return await openSite(await openServer({ url, applicationName: 'requests-test', connectionsMax: 4 }), async () => undefined)
  }, 80)
})
