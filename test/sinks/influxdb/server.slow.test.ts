// The InfluxDB sink on a server.

import { afterAll, beforeAll } from 'vitest'
import { sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { openProxy, type Proxy } from '../../servers/proxy.ts'
import { openStore, unkeepable } from './store.ts'

describeWithInflux('server', influx => {
  let proxy: Proxy

  beforeAll(async () => {
    proxy = await openProxy({ port: Number(new URL(influx.url).port) })
  })
  afterAll(() => proxy.close())

  sinkConformance('InfluxDB, what only the server refuses', () => openStore(influx, { proxy }), {
    restarts: true,
    slow: true,
    givesUp: true,
    transactional: false,
  })
  sinkConformance('InfluxDB, what is refused before it is sent', () => openStore(influx, { proxy, poisons: unkeepable }), {
    restarts: true,
    transactional: false,
  })
})
