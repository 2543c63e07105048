// A worker's thread on fakes, for tests of the pool: `workerData` says what it does.

import { parentPort, workerData } from 'node:worker_threads'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import type { WorkerEnd, WorkerOutage, WorkerReport } from '../../../../pipeline/writer/workers/messages.ts'
import { serveWorker } from '../../../../pipeline/writer/workers/worker.ts'
import { pack } from '../numbers.ts'
import { makeWorld, startWriter } from '../parts.ts'

export interface ThreadPlan {
  readonly worker: number
  /** Messages that are stored immediately. */
  readonly messages: number
  readonly fate:
    | 'work'
    | 'die-at-open'
    | 'die-at-start'
    | 'die-at-work'
    | 'systemic-at-open'
    | 'systemic-and-open'
    | 'systemic-at-work'
    | 'systemic-and-unclosable'
    | 'systemic-and-closing'
    | 'systemic-at-open-and-closing'
    | 'store-away'
    | 'never-stop'
    | 'block'
    | 'pause'
  /** Until when `pause` blocks the thread: until this is not 0. */
  readonly gate?: Int32Array
}

/** To a test, immediately before the thread blocks: its reports so far have arrived. */
export const blocking = { kind: 'blocking' } as const

const { messages, fate, gate } = workerData as ThreadPlan
const port = parentPort!
const post = port.postMessage.bind(port)
const waiting: { reported: (report: WorkerReport) => boolean; resolve: () => void }[] = []
port.postMessage = (message: WorkerReport | WorkerOutage | WorkerEnd) => {
  post(message)
  if (message.kind === 'report') for (const { reported, resolve } of waiting) if (reported(message)) resolve()
}

/** Resolves after such a report. */
function untilReported(reported: (report: WorkerReport) => boolean): Promise<void> {
  return new Promise(resolve => waiting.push({ reported, resolve }))
}

await serveWorker(port, async ({ registry, outages, onStateChange, onWaiting, onFailure }, signal) => {
  if (fate === 'die-at-open') throw new Error('no parts')
  if (fate === 'systemic-at-open') throw new SystemicError('the schema is of another version')
  if (fate === 'systemic-at-open-and-closing') {
    onFailure(new SystemicError('the schema is of another version'))
    await new Promise(() => setInterval(() => undefined, 1000))
  }
  if (fate === 'systemic-and-open') {
    setInterval(() => undefined, 1000)
    throw new SystemicError('the schema is of another version')
  }
  if (fate === 'store-away') {
    onWaiting(new Error('the store is away'))
    outages.report('store').failed(new Error('ECONNREFUSED'), { meanwhile: 'the start waits for it' })
    const ended = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => ended.reject(new Error('gave up waiting')))
    return await ended.promise
  }
  /** After it has reported that it runs; it has nothing to read. */
  const whenReported = (then: () => void): void => void untilReported(({ state }) => state === 'running').then(() => setImmediate(then))
  const world = makeWorld(registry)
  const { writer } = await startWriter(world, { onStateChange })
  await world.log.append(Array.from({ length: messages }, (_, at) => pack(at)))
  if (['systemic-at-work', 'systemic-and-unclosable', 'systemic-and-closing'].includes(fate))
    world.store.failures.push({ errorClass: 'systemic' })
  if (fate === 'never-stop') world.store.gate = new Promise(() => undefined)
  if (fate === 'die-at-start') {
    whenReported(() => {
      throw new Error('a fault of the program')
    })
  }
  if (fate === 'block') {
    whenReported(() => {
      post(blocking)
      for (;;);
    })
  }
  if (fate === 'pause') {
    whenReported(() => {
      post(blocking)
      Atomics.wait(gate!, 0, 0)
    })
  }
  if (fate === 'die-at-work') {
    const dying = setInterval(() => {
      if (world.store.rows.length < messages) return
      clearInterval(dying)
      void untilReported(({ counts }) => counts.some(([, { stored }]) => stored >= messages)).then(() =>
        setImmediate(() => {
          throw new Error('a fault of the program')
        }),
      )
      onStateChange()
    }, 1)
  }
  return {
    writer,
    async close() {
      if (fate === 'systemic-and-unclosable') throw new Error('the sink does not close')
      if (fate === 'systemic-and-closing') await new Promise(() => setInterval(() => undefined, 1000))
    },
  }
})
