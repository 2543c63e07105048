// The InfluxDB reader on a server, over HTTP.

import { describeWithInflux } from '../../servers/influx.ts'
import { requestSuite } from '../request/request-suite.ts'
import { openSite } from './site.ts'

describeWithInflux('requests to the reader of InfluxDB', influx => {
  requestSuite(() => openSite(influx), 80)
})
