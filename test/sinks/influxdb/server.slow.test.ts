// The InfluxDB sink on a server.

import { afterAll, beforeAll } from 'vitest'
import { refusalConformance, sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithOwnInflux } from '../../servers/influx.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { openStore, unkeepable } from './store.ts'

describeWithOwnInflux('server', influx => {
  let proxy: Proxy

  beforeAll(async () => {
    proxy = await openProxy({ port: Number(new URL(influx.url).port) })
  })
  afterAll(() => proxy.close())

  // A write that is not answered is given up within the test's time.
  const options = { requestTimeoutMs: 15_000 }
  const restart = (): Promise<void> => influx.restart('KILL')
  sinkConformance('InfluxDB, what only the server refuses', () => openStore(influx, { proxy, options, restart }), {
    restarts: true,
    slow: true,
    givesUp: true,
    transactional: false,
  })
  refusalConformance('InfluxDB, what is refused before it is sent', () => openStore(influx, { proxy, poisons: unkeepable }), {
    transactional: false,
  })
})
