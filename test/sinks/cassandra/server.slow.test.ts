// The Cassandra sink on a server, and the audit of what it has written there.

import { afterAll, beforeAll, expect } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { auditConformance } from '../../conformance/audit.ts'
import { type SinkStore, sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithOwnCassandra } from '../../servers/cassandra.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { throughProxy } from '../through-proxy.ts'
import { emptyStore, openAuditedStore, optionsFor, rowsOf, storeOn, through } from './store.ts'

describeWithOwnCassandra('Cassandra', cassandra => {
  let options: SinkOptions
  let operator: Connection
  let proxy: Proxy

  beforeAll(async () => {
    options = optionsFor(cassandra.contactPoint)
    operator = await openConnection(options, 'operator')
    proxy = await openProxy({ port: Number(cassandra.contactPoint.split(':')[1]) })
  })
  afterAll(async () => {
    await operator.close()
    await proxy.close()
  })

  sinkConformance('Cassandra', openStore, { restarts: true, slow: true, givesUp: true, transactional: false })

  async function openStore(): Promise<SinkStore> {
    await emptyStore(operator)
    const near = through(options, proxy.port)
    return {
      ...storeOn(operator, await openConnection(near, 'writer-1'), near),
      ...throughProxy(proxy),
      async restart() {
        await cassandra.restart('KILL')
        // The operator's own connection comes back by itself, and no sooner than that of the sink.
        const answers = () => rowsOf(operator).then(Boolean, () => false)
        await expect.poll(answers, { interval: 250 }).toBe(true)
      },
    }
  }

  auditConformance('the audit of Cassandra', () => openAuditedStore(operator, options))
})
