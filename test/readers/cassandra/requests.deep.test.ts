// The Cassandra reader on a server, over HTTP.

import { describeWithCassandra } from '../../servers/cassandra.ts'
import { requestSuite } from '../request/request-suite.ts'
import { openSite } from './site.ts'

describeWithCassandra('requests to the reader of Cassandra', cassandra => {
  requestSuite(() => openSite(cassandra.contactPoint), 80)
})
