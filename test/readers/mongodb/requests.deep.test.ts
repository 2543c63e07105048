// The MongoDB reader on FerretDB, over HTTP.

import { describeWithMongo } from '../../servers/mongo.ts'
import { requestSuite } from '../request/request-suite.ts'
import { openSite } from './site.ts'

describeWithMongo('requests to the reader of FerretDB', mongo => {
  requestSuite(() => openSite(`${mongo.url}requests`), 80)
})
