// The lag of a worker, with a clock that the test moves: messages and the age of the oldest one, by partition.

import { AggregatorRegistry, Registry } from 'prom-client'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import type { PendingBatch } from '../../../pipeline/writer/batch.ts'
import { type LagWatch, openCommittedLag, openLagWatch, type PartitionLag } from '../../../pipeline/writer/lag.ts'
import { pipelineMetrics } from '../../../pipeline/writer/metrics.ts'
import { keepCounters } from '../../../pipeline/writer/workers/sums.ts'
import type { Positions } from '../../../sinks/sink.ts'
import { type LogPartition, logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { positionsOf } from '../positions.ts'
import { pack } from './numbers.ts'
import { makeWorld, startWriter } from './parts.ts'
import { recordingLogger } from './workers/recording-logger.ts'

const startMs = Date.UTC(2026, 10, 23)

beforeEach(() => void vi.useFakeTimers({ now: startMs, toFake: ['performance', 'Date', 'setInterval', 'clearInterval'] }))
afterEach(() => void vi.useRealTimers())

/** Messages of one partition, the first of which was created this long after the start. */
function pendingOf(partition: number, from: number, to: number, createdSeconds: number): PendingBatch {
  const batch = new RecordBatch()
  const at = logPartition(0, partition)
  batch.cover(at, from, to)
  const firstCreatedUs = new Map([[at, (startMs + createdSeconds * 1000) * 1000]])
  return { batch, chunks: [], rejections: [], firstCreatedUs, bytes: 0, heldBytes: 0 }
}

interface Watched {
  readonly lag: LagWatch
  /** The log's answer; undefined while it is away. */
  ends: Positions | undefined
  asked: number
  /** After this many seconds: `[messages, seconds]` by partition. */
  after(seconds: number): Promise<Record<number, [number, number]>>
}

function open(): Watched {
  let told: ReadonlyMap<LogPartition, PartitionLag> = new Map()
  const ends = async (): Promise<Positions> => {
    watched.asked++
    if (watched.ends === undefined) throw new LogUnavailableError('away')
    return watched.ends
  }
  const watched: Watched = {
    lag: openLagWatch({ ends }, lags => (told = lags), recordingLogger().logger),
    ends: new Map(),
    asked: 0,
    async after(seconds) {
      await vi.advanceTimersByTimeAsync(seconds * 1000)
      return Object.fromEntries([...told].map(([partition, { messages, seconds }]) => [partition, [messages, seconds]]))
    },
  }
  return watched
}

const share = (): AbortController => new AbortController()

test('an idle partition has no lag, and each partition has its own', async () => {
  const watched = open()
  watched.lag.started(
    positionsOf({
      0: 7,
      1: 3,
    }),
    share().signal,
    positionsOf({
      0: 7,
      1: 13,
    }),
  )
  watched.ends = positionsOf({ 0: 7 })
  expect(await watched.after(1)).toEqual({ 0: [0, 0], 1: [10, 1] })
  expect(watched.lag.messages()).toBe(10)
  watched.lag.close()
})

test('while the store is away both grow although nothing is fetched, and stored messages reduce them', async () => {
  const watched = open()
  watched.lag.started(positionsOf({ 0: 0 }), share().signal, positionsOf({ 0: 0 }))
  const first = pendingOf(0, 0, 4, -2)
  watched.lag.taken(first)
  watched.lag.taken(pendingOf(0, 4, 6, 1))
  watched.ends = positionsOf({ 0: 100 })
  expect(await watched.after(6)).toEqual({ 0: [100, 8] })
  watched.ends = positionsOf({ 0: 500 })
  expect(await watched.after(60)).toEqual({ 0: [500, 68] })
  watched.lag.settled(first)
  expect(await watched.after(1)).toEqual({ 0: [496, 66] })
  expect(watched.lag.messages()).toBe(496)
  watched.lag.close()
})

test('messages that were never fetched are as old as the last time at which nothing was waiting', async () => {
  const watched = open()
  watched.lag.started(positionsOf({ 0: 10 }), share().signal, positionsOf({ 0: 10 }))
  watched.ends = positionsOf({ 0: 10 })
  expect(await watched.after(300)).toEqual({ 0: [0, 0] })
  watched.ends = positionsOf({ 0: 11 })
  const { 0: [messages, seconds] = [] } = await watched.after(60)
  expect(messages).toBe(1)
  expect(seconds).toBeGreaterThan(55)
  expect(seconds).toBeLessThanOrEqual(66)
  watched.lag.close()
})

test('messages that were never fetched are no older than those stored before them', async () => {
  const watched = open()
  watched.lag.started(positionsOf({ 0: 0 }), share().signal, positionsOf({ 0: 1000 }))
  await watched.after(300)
  const recent = pendingOf(0, 0, 500, 299)
  watched.lag.taken(recent)
  watched.lag.settled(recent)
  expect(await watched.after(1)).toEqual({ 0: [500, 2] })
  watched.lag.close()
})

test('messages that are read again after they were dropped count once, and a time of creation that is unknown or in the future gives no age', async () => {
  const watched = open()
  watched.lag.started(positionsOf({ 0: 0 }), share().signal, positionsOf({ 0: 4 }))
  watched.lag.taken(pendingOf(0, 0, 2, -100))
  watched.lag.dropped()
  watched.lag.taken(pendingOf(0, 0, 2, 3600))
  expect(await watched.after(1)).toEqual({ 0: [4, 0] })
  watched.lag.dropped()
  watched.lag.taken(pendingOf(0, 0, 2, -startMs / 1000))
  expect(await watched.after(1)).toEqual({ 0: [4, 2] })
  watched.lag.close()
})

test('the ends are requested every five seconds in one request, never two at a time, and not without a share', async () => {
  const watched = open()
  await watched.after(20)
  expect(watched.asked).toBe(0)
  watched.lag.started(positionsOf({ 0: 0 }), share().signal, positionsOf({ 0: 3 }))
  await watched.after(30)
  expect(watched.asked).toBeGreaterThanOrEqual(5)
  expect(watched.asked).toBeLessThanOrEqual(7)
  watched.ends = undefined
  expect(await watched.after(10)).toEqual({ 0: [3, 40] })
  watched.lag.close()
})

test('a partition without a leader has no lag unless messages are known to wait in it', async () => {
  const watched = open()
  watched.lag.started(
    positionsOf({
      0: 5,
      1: 0,
      2: 5,
    }),
    share().signal,
    positionsOf({
      0: 5,
      1: 5,
      2: 5,
    }),
  )
  watched.ends = positionsOf({ 2: 5 })
  expect(await watched.after(10)).toEqual({ 1: [5, 10], 2: [0, 0] })
  watched.ends = positionsOf({
    0: 5,
    1: 5,
    2: 5,
  })
  expect(await watched.after(10)).toEqual({ 0: [0, 0], 1: [5, 20], 2: [0, 0] })
  watched.lag.close()
})

test('a revoked share has no lag any more, and the next one has only its own partitions', async () => {
  const watched = open()
  const first = share()
  watched.lag.started(
    positionsOf({
      0: 0,
      1: 0,
    }),
    first.signal,
    positionsOf({
      0: 5,
      1: 5,
    }),
  )
  expect(await watched.after(1)).toEqual({ 0: [5, 1], 1: [5, 1] })
  first.abort()
  expect(await watched.after(1)).toEqual({})
  expect(watched.lag.messages()).toBe(0)
  watched.lag.started(positionsOf({ 1: 2 }), share().signal, positionsOf({ 1: 5 }))
  expect(await watched.after(1)).toEqual({ 1: [3, 1] })
  watched.lag.close()
})

test("a share that begins while the store is away counts from its group's committed offsets until something is stored", async () => {
  const watched = open()
  const [first, second] = [share(), share()]
  watched.lag.started(positionsOf({ 0: 10 }), first.signal, positionsOf({ 0: 30 }))
  expect(await watched.after(20)).toEqual({ 0: [20, 20] })
  first.abort()
  watched.ends = positionsOf({ 0: 60 })
  for (let attempt = 0; attempt < 5; attempt++) {
    watched.lag.assigned(positionsOf({ 0: 10 }), second.signal)
    await watched.after(15)
  }
  expect(await watched.after(1)).toEqual({ 0: [50, 96] })
  watched.lag.started(positionsOf({ 0: 40 }), second.signal, positionsOf({ 0: 60 }))
  expect(await watched.after(1)).toEqual({ 0: [20, 1] })
  watched.lag.close()
})

test('the sum over workers has each partition once, without those of an ended worker, whose last write stays', async () => {
  const registries = [new Registry(), new Registry()]
  const [gave, took] = registries.map(registry => pipelineMetrics(registry, 'relational', ['messages']))
  const lag = (messages: number): PartitionLag => ({ messages, seconds: messages / 10 })
  gave!.lagging(
    positionsOf({
      0: lag(50),
      1: lag(20),
    }),
  )
  took!.lagging(positionsOf({ 1: lag(30) }))
  const sums = async (): Promise<string[]> => {
    const metrics = await Promise.all(registries.map(registry => registry.getMetricsAsJSON()))
    const text = await AggregatorRegistry.aggregate(metrics).metrics()
    return [...text.matchAll(/^consumer_lag_(\w+)\{.*partition="(\d)"\} (\S+)$/gm)].map(
      ([, of, partition, value]) => `${of} ${partition} ${value}`,
    )
  }
  expect(await sums()).toEqual(['messages 0 50', 'messages 1 30', 'seconds 0 5', 'seconds 1 3'])
  gave!.lagging(new Map())
  expect(await sums()).toEqual(['messages 1 30', 'seconds 1 3'])
  gave!.settled(pendingOf(0, 0, 1, 0), [])
  const kept = await keepCounters([], await registries[0]!.getMetricsAsJSON())
  expect(kept.find(({ name }) => name === 'last_write_timestamp_seconds')?.values).toMatchObject([{ value: startMs / 1000 }])
})

test('a writer reports its lag, its last write and its outages, and logs how many messages waited', async () => {
  vi.useRealTimers()
  const world = makeWorld()
  const value = async (name: string, labels: object = {}): Promise<number | undefined> =>
    (await world.registry.getSingleMetric(name)!.get()).values.find(one =>
      Object.entries(labels).every(([key, of]) => one.labels[key] === of),
    )?.value
  for (let at = 0; at < 10_000; at++) world.store.failures.push({ errorClass: 'transient' })
  await world.log.append([pack(1), pack(2), pack(3)])
  const { writer } = await startWriter(world)
  await expect.poll(() => value('consumer_lag_messages')).toBe(3)
  expect(await value('consumer_lag_seconds')).toBeGreaterThan(1e6)
  expect([await value('dependency_outage', { dependency: 'store' }), await value('dependency_outage', { dependency: 'log' })]).toEqual([
    1, 0,
  ])
  expect(await value('last_write_timestamp_seconds')).toBeUndefined()
  world.store.failures.length = 0
  await expect.poll(() => value('consumer_lag_messages')).toBe(0)
  expect(await value('consumer_lag_seconds')).toBe(0)
  expect(await value('dependency_outage', { dependency: 'store' })).toBe(0)
  expect(Date.now() / 1000 - (await value('last_write_timestamp_seconds'))!).toBeLessThan(60)
  expect(world.lines().map(({ msg }) => msg)).toEqual([
    expect.stringMatching(/^the store is away \(the fake store fails: transient\), attempt 1, next in 0\.0 s$/),
    expect.stringMatching(/^the store is back after \d+\.\d s: 3 messages waited$/),
  ])
  await writer.stop()
  expect(await value('consumer_lag_messages')).toBeUndefined()
})

test('of partitions that others have, seconds pass only while messages wait and no commit moves', () => {
  const lagOf = openCommittedLag()
  const after = (seconds: number, next: readonly number[], end: readonly number[]): [number, number][] => {
    vi.advanceTimersByTime(seconds * 1000)
    const lags = lagOf(positionsOf(Object.fromEntries(next.map((from, partition) => [partition, { next: from, end: end[partition]! }]))))
    return Array.from(lags.values(), ({ messages, seconds }) => [messages, seconds])
  }
  const first: [number, number][] = [
    [9, 0],
    [4, 0],
    [0, 0],
  ]
  expect(after(0, [0, 1, 5], [9, 5, 5])).toEqual(first)
  // No process reads the first; the second one is read, and always some messages wait.
  expect(after(5, [0, 5, 5], [10, 8, 6])).toEqual([
    [10, 5],
    [3, 0],
    [1, 0],
  ])
  expect(after(5, [0, 8, 5], [10, 9, 6])).toEqual([
    [10, 10],
    [1, 0],
    [1, 5],
  ])
  // A partition that another reports meanwhile begins again.
  expect(after(5, [0], [10])).toEqual([[10, 15]])
  expect(after(5, [10, 8], [10, 9])).toEqual([
    [0, 0],
    [1, 0],
  ])
})
