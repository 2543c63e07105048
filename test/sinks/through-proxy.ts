// What a proxy between sinks and their server can do to a store, for the suite of the contract.

import type { SinkStore } from '../conformance/sink/index.ts'
import type { Proxy } from '../servers/process/proxy.ts'

export function throughProxy(proxy: Proxy): Required<Pick<SinkStore, 'cutConnections' | 'delay' | 'pause' | 'resume'>> {
  return {
    cutConnections: async () => proxy.cut(),
    delay: latencyMs => proxy.latency(latencyMs),
    // Half open: nothing arrives any more, in either direction, also on connections to come.
    pause: () => proxy.halfOpen(),
    async resume() {
      await proxy.heal()
      proxy.cut()
    },
  }
}
