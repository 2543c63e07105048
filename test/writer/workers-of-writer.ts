// Loaded before `sluice writer` by `node --import`: on a message from its parent it ends a worker thread, as if that had crashed, or
// begins the store's upkeep, which otherwise runs a minute after the start.

import { isMainThread, type Worker } from 'node:worker_threads'

/** The index among the running threads, in the order of their start. */
export interface EndWorker {
  readonly endWorker: number
}

export interface BeginUpkeep {
  readonly beginUpkeep: true
}

/** No other timer of the main thread has this interval. */
const upkeepMs = 60_000

if (isMainThread && process.send !== undefined) {
  const workers = new Set<Worker>()
  process.on('worker', (worker: Worker) => {
    workers.add(worker)
    worker.on('exit', () => workers.delete(worker))
  })
  const upkeep: (() => void)[] = []
  const { setTimeout } = globalThis
  globalThis.setTimeout = new Proxy(setTimeout, {
    apply(set, self, [callback, ms, ...values]: Parameters<typeof setTimeout>) {
      if (ms === upkeepMs) upkeep.push(callback)
      return Reflect.apply(set, self, [callback, ms, ...values])
    },
  })
  process.on('message', (message: EndWorker | BeginUpkeep) => {
    if ('beginUpkeep' in message) {
      for (const begin of upkeep.splice(0)) begin()
      return
    }
    const { endWorker } = message
    const worker = [...workers][endWorker % Math.max(workers.size, 1)]
    void Promise.resolve(worker?.terminate()).then(code => process.send?.({ ended: code !== undefined }))
  })
  // A writer ends with the test that started it.
  process.on('disconnect', () => process.exit(1))
  process.channel?.unref()
}
