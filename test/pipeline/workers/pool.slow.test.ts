// The pool keeps its workers at work: one that dies is started again, a fault that no retry can mend stops them all, a stop drains them.

import { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import { afterEach, expect, test } from 'vitest'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { openWorkerPool, type WorkerPool } from '../../../pipeline/workers/pool.ts'
import type { ThreadPlan } from './thread.ts'

const pools: WorkerPool[] = []
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.stop()
})

/** A pool whose nth thread of a worker, counted from 0, does what `plan` says. */
function openPool(count: number, plan: (worker: number, life: number) => Omit<ThreadPlan, 'worker'>, stopMsMax = 4500) {
  const lives: number[] = Array.from({ length: count }, () => 0)
  const threads: Worker[] = []
  const pool = openWorkerPool({
    count,
    logger: pino({ level: 'silent' }),
    backOff: { waitMsMin: 1, waitMsMax: 20 },
    stopMsMax,
    start(worker) {
      const workerData: ThreadPlan = { worker, ...plan(worker, lives[worker]!++) }
      const thread = new Worker(new URL('./thread.ts', import.meta.url), { workerData })
      threads[worker] = thread
      return thread
    },
  })
  pools.push(pool)
  return { pool, lives, threads }
}

const stored = (pool: WorkerPool) => pool.counts().get(0)?.stored ?? 0

test('workers count together, in their books and in their metrics', async () => {
  const { pool } = openPool(2, worker => ({ messages: 10 + worker, fate: 'work' }))
  await expect.poll(() => pool.state(), { timeout: 10_000 }).toBe('running')
  await expect.poll(() => stored(pool), { timeout: 10_000 }).toBe(21)
  expect(await pool.metrics()).toMatch(/^component_sent_events_total\{.*\} 21$/m)
  await pool.stop()
  expect(pool.state()).toBe('stopped')
  await pool.done
})

test('a worker that dies is started again, and what it had counted stays', async () => {
  const { pool, lives } = openPool(1, (_, life) => ({ messages: 5, fate: life === 0 ? 'die-at-work' : 'work' }))
  await expect.poll(() => stored(pool), { timeout: 10_000 }).toBe(10)
  expect(lives).toEqual([2])
  expect(await pool.metrics()).toMatch(/^component_sent_events_total\{.*\} 10$/m)
  expect(pool.state()).toBe('running')
})

test('a worker whose thread is killed from outside is started again while the other goes on', async () => {
  const { pool, lives, threads } = openPool(2, () => ({ messages: 1, fate: 'work' }))
  await expect.poll(() => pool.state(), { timeout: 10_000 }).toBe('running')
  await threads[0]!.terminate()
  await expect.poll(() => lives, { timeout: 10_000 }).toEqual([2, 1])
  await expect.poll(() => pool.state(), { timeout: 10_000 }).toBe('running')
})

test('a worker that dies whenever it opens is tried again and again, and says why it is not there', async () => {
  const { pool, lives } = openPool(1, () => ({ messages: 0, fate: 'die-at-open' }))
  await expect.poll(() => lives[0], { timeout: 20_000 }).toBeGreaterThan(3)
  expect(pool.state()).toBe('retrying')
  expect(pool.failure()).toMatchObject({ message: 'no parts' })
})

test.each(['systemic-at-open', 'systemic-at-work'] as const)(
  'a systemic fault of one worker stops all of them with its sentence (%s)',
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

test('a worker that waits for its store says so, and a stop ends the wait', async () => {
  const { pool } = openPool(1, () => ({ messages: 0, fate: 'store-away' }))
  await expect.poll(() => pool.failure()?.message, { timeout: 10_000 }).toBe('the store is away')
  expect(pool.state()).toBe('retrying')
  await pool.stop()
  await pool.done
})

test('a stop while a worker waits to be started again does not start it', async () => {
  const { pool, lives } = openPool(1, () => ({ messages: 0, fate: 'die-at-open' }))
  await expect.poll(() => lives[0], { timeout: 20_000 }).toBeGreaterThan(2)
  await pool.stop()
  const atStop = lives[0]
  expect(pool.state()).toBe('stopped')
  await new Promise(resolve => setImmediate(resolve))
  expect(lives[0]).toBe(atStop)
})

test('a worker that does not stop in time is ended', async () => {
  const { pool } = openPool(1, () => ({ messages: 1, fate: 'never-stop' }), 100)
  await expect.poll(() => pool.state(), { timeout: 10_000 }).toBe('running')
  await pool.stop()
  expect(pool.state()).toBe('stopped')
})
