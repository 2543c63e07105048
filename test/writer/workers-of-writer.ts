// Loaded before `sluice writer` by `node --import`: ends one of its worker threads when its parent says so, as if it had crashed.

import { isMainThread, type Worker } from 'node:worker_threads'

/** Which of the threads that work now, by the order of their start. */
export interface EndWorker {
  readonly endWorker: number
}

if (isMainThread && process.send !== undefined) {
  const workers = new Set<Worker>()
  process.on('worker', (worker: Worker) => {
    workers.add(worker)
    worker.on('exit', () => workers.delete(worker))
  })
  process.on('message', ({ endWorker }: EndWorker) => {
    const worker = [...workers][endWorker % Math.max(workers.size, 1)]
    void Promise.resolve(worker?.terminate()).then(code => process.send?.({ ended: code !== undefined }))
  })
  // A writer does not outlive the test that started it.
  process.on('disconnect', () => process.exit(1))
  process.channel?.unref()
}
