// The pool keeps its workers running: it restarts one that dies, stops all after a permanent error, and drains them on a stop.

import { Worker } from 'node:worker_threads'
import { type Logger, pino } from 'pino'
import { Registry } from 'prom-client'
import { afterEach, expect, test, vi } from 'vitest'
import { openOutages } from '../../../../config/outage.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { openWorkerPool, type WorkerPool, type WorkerPoolOptions } from '../../../../pipeline/writer/workers/pool.ts'
import { logPartition } from '../../../../transformers/log-partition.ts'
import { recordingLogger } from './recording-logger.ts'
import type { blocking, ThreadPlan } from './thread.ts'

const pools: WorkerPool[] = []
const started: Worker[] = []
afterEach(async () => {
  vi.useRealTimers()
  const stops = pools.splice(0).map(pool => pool.stop())
  // Even if the pool itself would wait for them forever.
  for (const thread of started.splice(0)) await thread.terminate()
  await Promise.all(stops)
})

const outagesOf = (logger: Logger, registry: Registry) =>
  openOutages(logger, registry, 'writer', { log: 'the log', store: 'the store', dead_letters: 'the dead letters' })

/** A pool in which the nth thread of a worker, from 0, does what `plan` says. */
function openPool(
  count: number,
  plan: (worker: number, life: number) => Omit<ThreadPlan, 'worker'>,
  options: Partial<WorkerPoolOptions> = {},
) {
  const lives: number[] = Array.from({ length: count }, () => 0)
  const threads: Worker[] = []
  const pool = openWorkerPool({
    count,
    outages: outagesOf(pino({ level: 'silent' }), new Registry()),
    logger: pino({ level: 'silent' }),
    backOff: { waitMsMin: 1, waitMsMax: 20 },
    // A busy machine takes long to start a thread, and to let it stop.
    liveness: { lookMs: 1_000, readyMsMax: 600_000, aliveMsMax: 600_000 },
    stopMsMax: 600_000,
    ...options,
    start(worker) {
      const workerData: ThreadPlan = { worker, ...plan(worker, lives[worker]!++) }
      const thread = new Worker(new URL('./thread.ts', import.meta.url), { workerData })
      threads[worker] = thread
      started.push(thread)
      return thread
    },
  })
  pools.push(pool)
  return { pool, lives, threads }
}

const stored = (pool: WorkerPool) => pool.counts().get(logPartition(0, 0))?.stored ?? 0

const received = (pool: WorkerPool) => pool.counts().get(logPartition(0, 0))?.received ?? 0

/** From the thread: resolves with its next message of this kind. */
const message = (thread: Worker, kind: 'report' | 'outage' | typeof blocking.kind) =>
  new Promise<void>(resolve => {
    thread.on('message', (one: { kind: string }) => one.kind === kind && resolve())
  })

/** Silence is measured in looks, which take place when a test lets them. */
const liveness = { lookMs: 100, readyMsMax: 2_000, aliveMsMax: 6_000 }
const stopLooking = () => vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })

const realSetTimeout = setTimeout
/** For tests whose clock must not move, which polling does. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise(resolve => realSetTimeout(resolve, 10))
}

const stopMsMax = 200
/** A stop's time passes when a test says so. */
const stopClock = () => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })

test('workers count together, in their ledger and in their metrics', async () => {
  const { pool } = openPool(2, worker => ({ messages: 10 + worker, fate: 'work' }))
  await expect.poll(() => pool.state()).toBe('running')
  await expect.poll(() => stored(pool)).toBe(21)
  expect(await pool.metrics()).toMatch(/^component_sent_events_total\{.*\} 21$/m)
  await pool.stop()
  expect(pool.state()).toBe('stopped')
  await pool.done
})

test('a worker that dies is restarted, and its counts stay', async () => {
  const { pool, lives } = openPool(1, (_, life) => ({ messages: 5, fate: life === 0 ? 'die-at-work' : 'work' }))
  await expect.poll(() => stored(pool)).toBe(10)
  expect(lives).toEqual([2])
  expect(await pool.metrics()).toMatch(/^component_sent_events_total\{.*\} 10$/m)
  expect(pool.state()).toBe('running')
})

test('a worker whose thread is killed from outside is restarted while the other continues', async () => {
  const { pool, lives, threads } = openPool(2, () => ({ messages: 1, fate: 'work' }))
  await expect.poll(() => pool.state()).toBe('running')
  await threads[0]!.terminate()
  await expect.poll(() => lives).toEqual([2, 1])
  await expect.poll(() => pool.state()).toBe('running')
})

test('a restart lets each worker stop, counts no death, and starts it with what is new', async () => {
  const { logger, lines } = recordingLogger()
  const { pool, lives } = openPool(2, () => ({ messages: 5, fate: 'work' }), { logger })
  await expect.poll(() => stored(pool)).toBe(10)
  pool.restart()
  await expect.poll(() => lives).toEqual([2, 2])
  await expect.poll(() => stored(pool)).toBe(20)
  await expect.poll(() => pool.state()).toBe('running')
  expect(lines().filter(({ level }) => Number(level) > 30)).toEqual([])
  await pool.stop()
  expect(lives).toEqual([2, 2])
})

test('a worker that does not stop for a restart is ended', async () => {
  const { pool, lives } = openPool(1, (_, life) => ({ messages: 1, fate: life === 0 ? 'never-stop' : 'work' }), { stopMsMax: 200 })
  await expect.poll(() => pool.state()).toBe('running')
  pool.restart()
  await expect.poll(() => lives).toEqual([2])
  await expect.poll(() => pool.state()).toBe('running')
})

test('a worker that dies whenever it opens is retried repeatedly, and reports why it is missing', async () => {
  const { pool, lives } = openPool(1, () => ({ messages: 0, fate: 'die-at-open' }))
  await expect.poll(() => lives[0]).toBeGreaterThan(3)
  expect(pool.state()).toBe('retrying')
  expect(pool.failure()).toMatchObject({ message: 'no parts' })
})

test.each(['systemic-at-open', 'systemic-at-work'] as const)(
  'a systemic error of one worker stops all of them with its message (%s)',
  async fate => {
    const { pool, lives } = openPool(2, worker => ({ messages: 3, fate: worker === 0 ? fate : 'work' }))
    await expect(pool.done).rejects.toThrow(SystemicError)
    await expect(pool.done).rejects.toThrow(
      fate === 'systemic-at-open' ? 'the schema is of another version' : 'the fake store fails: systemic',
    )
    expect(pool.state()).toBe('failed')
    expect(lives).toEqual([1, 1])
  },
)

test('a systemic error of one worker ends the pool within the time of a stop, even if another does not stop', async () => {
  stopClock()
  const { pool } = openPool(2, worker => ({ messages: 3, fate: worker === 0 ? 'systemic-at-work' : 'never-stop' }), { stopMsMax })
  // Nothing calls `stop`.
  await until(() => pool.state() === 'failed')
  vi.advanceTimersByTime(stopMsMax)
  await expect(pool.done).rejects.toThrow('the fake store fails: systemic')
})

test('a systemic error ends the pool immediately even if something left open keeps the thread alive', async () => {
  const { logger, lines } = recordingLogger()
  const { pool } = openPool(1, () => ({ messages: 3, fate: 'systemic-and-open' }), { logger })
  await expect(pool.done).rejects.toThrow('the schema is of another version')
  expect(pool.state()).toBe('failed')
  expect(lines()).toEqual([])
})

test.each([
  ['systemic-and-closing', 'the fake store fails: systemic'],
  ['systemic-at-open-and-closing', 'the schema is of another version'],
] as const)('a systemic error ends the pool within the time of a stop even if a part never closes (%s)', async (fate, reason) => {
  stopClock()
  const { logger, lines } = recordingLogger()
  const { pool } = openPool(1, () => ({ messages: 3, fate }), { stopMsMax, logger })
  await until(() => pool.state() === 'failed' && received(pool) === 0)
  vi.advanceTimersByTime(stopMsMax)
  await expect(pool.done).rejects.toThrow(reason)
  expect(pool.state()).toBe('failed')
  // What it had read was dropped by then, so there is nothing to report.
  expect(lines()).toEqual([])
})

test('a systemic error stays the reported one if a part does not close afterwards', async () => {
  const { pool, lives } = openPool(1, () => ({ messages: 3, fate: 'systemic-and-unclosable' }))
  await expect(pool.done).rejects.toThrow('the fake store fails: systemic')
  expect(lives).toEqual([1])
})

test('the wait doubles for a worker that reports that it runs and dies before it has settled anything', async () => {
  const { logger, lines } = recordingLogger()
  const backOff = { waitMsMin: 2, waitMsMax: 600_000, random: () => 0 }
  const { lives } = openPool(1, () => ({ messages: 0, fate: 'die-at-start' }), { logger, backOff })
  await expect.poll(() => lives[0]).toBeGreaterThan(4)
  expect(lines().flatMap(({ deaths, wait_ms }) => (deaths === undefined ? [] : [[deaths, wait_ms]]))).toEqual(
    expect.arrayContaining([
      [1, 1],
      [2, 2],
      [3, 4],
      [4, 8],
    ]),
  )
})

test('the wait does not grow for a worker that has settled messages, or has run for longer than the longest wait', async () => {
  const { logger, lines } = recordingLogger()
  const backOff = { waitMsMin: 2, waitMsMax: 600_000 }
  const settling = openPool(1, () => ({ messages: 1, fate: 'die-at-work' }), { logger, backOff })
  await expect.poll(() => settling.lives[0]).toBeGreaterThan(3)
  const lasting = openPool(1, () => ({ messages: 0, fate: 'die-at-start' }), { logger, backOff: { waitMsMin: 2, waitMsMax: 10 } })
  await expect.poll(() => lasting.lives[0]).toBeGreaterThan(3)
  expect(new Set(lines().map(({ deaths }) => deaths))).toEqual(new Set([1]))
})

test('a worker whose thread is blocked counts as not running, is reported, and is terminated and restarted', async () => {
  stopLooking()
  const { pool, lives, threads } = openPool(2, (worker, life) => ({ messages: 0, fate: worker === 0 && life === 0 ? 'block' : 'work' }), {
    liveness,
  })
  await Promise.all([message(threads[0]!, 'blocking'), until(() => pool.state() === 'running')])
  vi.advanceTimersByTime(liveness.readyMsMax + liveness.lookMs)
  expect(pool.state()).toBe('retrying')
  expect(pool.failure()?.message).toMatch(/^worker 0 has not reported for \d s$/)
  expect(lives).toEqual([1, 1])
  // The other one goes on reporting.
  await message(threads[1]!, 'report')
  vi.advanceTimersByTime(liveness.aliveMsMax - liveness.readyMsMax)
  await until(() => lives[0] === 2)
  await until(() => pool.state() === 'running')
  expect(lives).toEqual([2, 1])
  expect(pool.failure()).toBeUndefined()
})

test('a worker that was blocked for a while counts as not running meanwhile, and continues by itself', async () => {
  stopLooking()
  const gate = new Int32Array(new SharedArrayBuffer(4))
  const { pool, lives, threads } = openPool(1, () => ({ messages: 0, fate: 'pause', gate }), { liveness })
  await message(threads[0]!, 'blocking')
  expect(pool.state()).toBe('running')
  vi.advanceTimersByTime(liveness.readyMsMax + liveness.lookMs)
  expect(pool.state()).toBe('retrying')
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
  await until(() => pool.state() === 'running')
  expect(lives).toEqual([1])
})

test('a main thread that was blocked itself terminates no worker', async () => {
  stopLooking()
  const { pool, lives, threads } = openPool(1, () => ({ messages: 0, fate: 'work' }), {
    liveness: { lookMs: 10, readyMsMax: 1_200, aliveMsMax: 1_500 },
  })
  await until(() => pool.state() === 'running')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_000)
  // The reports of that time are still queued.
  vi.advanceTimersByTime(10)
  expect(pool.state()).toBe('running')
  await message(threads[0]!, 'report')
  expect(pool.state()).toBe('running')
  expect(lives).toEqual([1])
})

test('workers that wait for their store log one line for all, until their threads end; a stop ends the wait', async () => {
  const { logger, lines } = recordingLogger()
  const registry = new Registry()
  const { pool, threads } = openPool(2, () => ({ messages: 0, fate: 'store-away' }), { outages: outagesOf(logger, registry) })
  const gauge = async () => (await registry.metrics()).match(/dependency="store"\} (\d)/)?.[1]
  await Promise.all(threads.map(thread => message(thread, 'outage')))
  expect(await gauge()).toBe('1')
  await expect.poll(() => pool.failure()?.message).toBe('the store is away')
  expect(pool.state()).toBe('retrying')
  await pool.stop()
  await pool.done
  expect(await gauge()).toBe('0')
  expect(lines().map(({ msg }) => msg)).toEqual(['the store is away (ECONNREFUSED), attempt 1: the start waits for it'])
})

test('a stop while a worker waits for its restart does not start it', async () => {
  stopClock()
  const backOff = { waitMsMin: 60_000, waitMsMax: 60_000 }
  const { pool, lives } = openPool(1, () => ({ messages: 0, fate: 'die-at-open' }), { backOff })
  await until(() => pool.failure()?.message === 'no parts')
  await pool.stop()
  expect(pool.state()).toBe('stopped')
  vi.advanceTimersByTime(backOff.waitMsMax)
  expect(lives).toEqual([1])
})

test('a worker that does not stop in time is terminated, and the log says whether it had read messages', async () => {
  const { logger, lines } = recordingLogger()
  const { pool } = openPool(1, () => ({ messages: 1, fate: 'never-stop' }), { stopMsMax, logger })
  await expect.poll(() => received(pool)).toBe(1)
  await pool.stop()
  expect(pool.state()).toBe('stopped')
  expect(lines().map(({ msg }) => msg)).toEqual([expect.stringContaining('did not stop in time')])
})
