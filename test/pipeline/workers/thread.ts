// A worker's thread on fakes, for tests of the pool: what it does is told by `workerData`.

import { parentPort, workerData } from 'node:worker_threads'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { serveWorker } from '../../../pipeline/workers/worker.ts'
import { pack } from '../numbers.ts'
import { makeWorld, startWriter } from '../parts.ts'

export interface ThreadPlan {
  readonly worker: number
  /** Messages that are stored right away. */
  readonly messages: number
  readonly fate: 'work' | 'die-at-open' | 'die-at-work' | 'systemic-at-open' | 'systemic-at-work' | 'store-away' | 'never-stop'
}

const { messages, fate } = workerData as ThreadPlan

await serveWorker(parentPort!, async (onStateChange, onWaiting, signal) => {
  if (fate === 'die-at-open') throw new Error('no parts')
  if (fate === 'systemic-at-open') throw new SystemicError('the schema is of another version')
  if (fate === 'store-away') {
    onWaiting(new Error('the store is away'))
    const ended = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => ended.reject(new Error('gave up waiting')))
    return await ended.promise
  }
  const world = makeWorld()
  const { writer } = await startWriter(world, { onStateChange })
  await world.log.append(Array.from({ length: messages }, (_, at) => pack(at)))
  if (fate === 'systemic-at-work') world.store.failures.push({ errorClass: 'systemic' })
  if (fate === 'never-stop') world.store.gate = new Promise(() => undefined)
  if (fate === 'die-at-work') {
    const dying = setInterval(() => {
      if (world.store.rows.length < messages) return
      clearInterval(dying)
      onStateChange()
      setImmediate(() => {
        throw new Error('a fault of the program')
      })
    }, 1)
  }
  return { writers: [writer], registry: world.registry, close: async () => undefined }
})
