// The Cassandra sink on a server, and the audit of what it has written there.

import { afterAll, beforeAll } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { auditConformance } from '../../conformance/audit.ts'
import { type SinkStore, sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithOwnCassandra } from '../../servers/cassandra.ts'
import { openProxy, type Proxy } from '../../servers/proxy.ts'
import { emptyStore, openAuditedStore, optionsFor, storeOn, through } from './store.ts'

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

  sinkConformance('Cassandra', openStore, { restarts: true, transactional: false })

  async function openStore(): Promise<SinkStore> {
    await emptyStore(operator)
    const near = through(options, proxy.port)
    return {
      ...storeOn(operator, await openConnection(near, 'writer-1'), near),
      cutConnections: async () => proxy.cut(),
      restart: () => cassandra.restart('KILL'),
    }
  }

  auditConformance('the audit of Cassandra', () => openAuditedStore(operator, options))
})
