// The MongoDB sink on FerretDB, and on the server that MONGODB_URL names.

import { afterAll, beforeAll, describe } from 'vitest'
import { type SinkStore, sinkConformance } from '../../conformance/sink/index.ts'
import { describeWithOwnMongo } from '../../servers/mongo.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { throughProxy } from '../through-proxy.ts'
import { commonPoisons, ferretPoisons, openStore } from './store.ts'

describeWithOwnMongo('FerretDB', mongo => {
  let proxy: Proxy

  beforeAll(async () => {
    proxy = await openProxy({ port: Number(new URL(mongo.url).port) })
  })
  afterAll(() => proxy.close())

  sinkConformance('MongoDB, on FerretDB', openProxied, { restarts: true, slow: true, givesUp: true, transactional: false })

  async function openProxied(): Promise<SinkStore> {
    const store = await openStore({
      url: `mongodb://127.0.0.1:${proxy.port}/conformance`,
      directUrl: `${mongo.url}conformance`,
      poisons: { ...commonPoisons, ...ferretPoisons },
    })
    return {
      ...store,
      readableDuringWrite: true,
      ...throughProxy(proxy),
      restart: () => mongo.restart('KILL'),
    }
  }
})

const real = process.env['MONGODB_URL']
if (real !== undefined) {
  describe('the server of MONGODB_URL', () => {
    const url = new URL(real)
    url.pathname = '/sluice_conformance'
    sinkConformance(
      'MongoDB',
      async () => ({ ...(await openStore({ url: url.href, directUrl: url.href, poisons: commonPoisons })), readableDuringWrite: true }),
      { connections: false, transactional: false },
    )
  })
}
