// Fetching a share while brokers come and go: everything that can be fetched is, and the log is away only if nothing can.

import { type Logger, pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type FetchBounds, type Fetching, type FetchPosition, openFetching } from '../../../../pipeline/kafka/consumer/fetching.ts'
import { openTopics } from '../../../../pipeline/kafka/consumer/topics.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { positionsOf } from '../../positions.ts'
import { recordingLogger } from '../../writer/workers/recording-logger.ts'
import { clusterWith, type FakeTopic, fakeTopic, metadataOf } from '../fake-brokers.ts'

const bounds: FetchBounds = { fetchBytes: 1024, partitionBytes: 1024, queueBytes: 8192, waitMs: 5, patienceMs: 10_000 }

interface Reading {
  /** The fetched offsets by partition, from and to. */
  readonly taken: Map<number, [number, number][]>
  readonly asked: [number, number | undefined][]
  readonly failure: Error | undefined
}

const ending: AbortController[] = []
// The patience passes when a test says so.
beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => {
  for (const one of ending.splice(0)) one.abort()
  vi.useRealTimers()
})

/** Takes everything that is fetched of the partitions, from these offsets on. */
function read(fake: FakeTopic, positions: readonly FetchPosition[], logger: Logger = pino({ level: 'silent' })): Reading {
  const { cluster } = clusterWith(fake)
  const reading = {
    taken: new Map<number, [number, number][]>(),
    asked: [] as [number, number | undefined][],
    failure: undefined as Error | undefined,
  }
  async function relocate(partition: number, from: number | undefined): Promise<FetchPosition> {
    reading.asked.push([partition, from])
    const { start } = fake.partitions[partition]!
    return { from: from ?? start, next: start }
  }
  const end = new AbortController()
  ending.push(end)
  const topics = openTopics(cluster, ['t'], undefined)
  const fetching = openFetching(cluster, topics, positionsOf(Object.fromEntries(positions.entries())), bounds, relocate, logger, end.signal)
  takeAll(fetching, reading.taken).catch((error: Error) => {
    reading.failure = error
  })
  return reading
}

async function takeAll(fetching: Fetching, taken: Reading['taken']): Promise<void> {
  for (let set = await fetching.next(); set !== undefined; set = await fetching.next()) {
    const { at, from } = set
    const to = from + Buffer.from(set.set).readInt32BE(23) + 1
    taken.set(at, [...(taken.get(at) ?? []), [from, to]])
    set.release()
  }
}

const at = (offset: number): FetchPosition => ({ from: offset, next: offset })

/** Counts how often the leaders are looked up, which a leader that is missing or away causes again and again. */
function lookupsOf(fake: FakeTopic): () => number {
  let lookups = 0
  fake.metadata = () => {
    lookups++
    return metadataOf(fake)
  }
  return () => lookups
}

/** Lets the patience pass between two failures. */
async function passPatience(lookups: () => number): Promise<void> {
  const more = async (count: number): Promise<void> => {
    const before = lookups()
    await expect.poll(lookups).toBeGreaterThanOrEqual(before + count)
  }
  await more(2)
  vi.advanceTimersByTime(2 * bounds.patienceMs)
  // A lookup follows a failure: with the second one, the first failure after the patience has been handled.
  await more(2)
}

/** Lets the patience pass before each look. */
const later =
  <Found>(look: () => Found) =>
  (): Found => {
    vi.advanceTimersByTime(bounds.patienceMs)
    return look()
  }

test('a partition without a leader does not stop the others, and continues when it has one', async () => {
  const fake = fakeTopic({ leader: 1, start: 0, end: 3 }, { leader: -1, start: 0, end: 4 })
  const lookups = lookupsOf(fake)
  const reading = read(fake, [at(0), at(2)])
  await expect.poll(() => reading.taken.get(0)).toEqual([[0, 3]])
  await passPatience(lookups)
  fake.partitions[0]!.end = 5
  await expect
    .poll(() => reading.taken.get(0))
    .toEqual([
      [0, 3],
      [3, 5],
    ])
  expect(reading.failure).toBeUndefined()
  fake.partitions[1]!.leader = 2
  await expect.poll(() => reading.taken.get(1)).toEqual([[2, 4]])
})

test('a leader that does not answer does not stop the others, and its partitions resume where they stopped', async () => {
  const fake = fakeTopic({ leader: 1, start: 0, end: 3 }, { leader: 2, start: 0, end: 4 })
  const lookups = lookupsOf(fake)
  const reading = read(fake, [at(0), at(0)])
  await expect.poll(() => reading.taken.get(1)).toEqual([[0, 4]])
  fake.away.add(2)
  await passPatience(lookups)
  fake.partitions[0]!.end = 5
  fake.partitions[1]!.end = 6
  await expect.poll(() => reading.taken.get(0)?.at(-1)).toEqual([3, 5])
  expect([reading.failure, reading.taken.get(1)]).toEqual([undefined, [[0, 4]]])
  fake.away.delete(2)
  await expect
    .poll(() => reading.taken.get(1))
    .toEqual([
      [0, 4],
      [4, 6],
    ])
})

test('a partition whose position is not known begins at its start, and covers offsets from there on', async () => {
  const fake = fakeTopic({ leader: 1, start: 7, end: 9 }, { leader: 1, start: 0, end: 2 })
  const reading = read(fake, [
    { from: undefined, next: 0 },
    { from: undefined, next: 0 },
  ])
  await expect
    .poll(() => reading.taken)
    .toEqual(
      new Map([
        [1, [[0, 2]]],
        [0, [[7, 9]]],
      ]),
    )
  expect(reading.asked).toEqual([[0, undefined]])
})

test('a refused partition does not keep another of the same answer from continuing elsewhere', async () => {
  // The first partition has moved, as its old leader says; the topic's metadata does not say so yet.
  const fake = fakeTopic({ leader: 2, start: 0, end: 3 }, { leader: 1, start: 5, end: 8 })
  fake.metadata = () => metadataOf(fakeTopic({ leader: 1, start: 0, end: 0 }, { leader: 1, start: 0, end: 0 }))
  const reading = read(fake, [at(0), at(2)])
  await expect.poll(() => reading.asked).toEqual([[1, 2]])
  fake.metadata = () => metadataOf(fake)
  await expect.poll(() => reading.taken.size).toBe(2)
})

test('the log is away when no leader of the share has answered for the patience', async () => {
  const fake = fakeTopic({ leader: 1, start: 0, end: 3 }, { leader: -1, start: 0, end: 4 })
  const lookups = lookupsOf(fake)
  const reading = read(fake, [at(0), at(0)])
  await expect.poll(() => reading.taken.get(0)).toEqual([[0, 3]])
  await passPatience(lookups)
  expect(reading.failure).toBeUndefined()
  fake.away.add(1)
  await expect.poll(later(() => reading.failure)).toBeInstanceOf(LogUnavailableError)
})

test('a broker that is away and no longer leads anything is not reported as back', async () => {
  const { logger, lines } = recordingLogger()
  const sentences = (): string[] => lines().flatMap(({ msg }) => (String(msg).startsWith('broker ') ? [String(msg)] : []))
  const fake = fakeTopic({ leader: 1, start: 0, end: 3 }, { leader: 2, start: 0, end: 4 })
  const reading = read(fake, [at(0), at(0)], logger)
  fake.away.add(2)
  await expect.poll(later(sentences)).toEqual([expect.stringMatching(/^broker 2 is away /)])
  fake.partitions[1]!.leader = 1
  await expect.poll(() => reading.taken.get(1)?.at(-1)?.[1]).toBe(4)
  expect(sentences()).toHaveLength(1)
})

test('failures of a leader are forgotten when it leads nothing any more', async () => {
  const fake = fakeTopic({ leader: 1, start: 0, end: 1 })
  const reading = read(fake, [at(0)])
  await expect.poll(() => reading.taken.get(0)?.length).toBe(1)
  async function move(to: number, end: number): Promise<void> {
    fake.partitions[0] = { leader: to, start: 0, end }
    await expect.poll(() => reading.taken.get(0)!.at(-1)![1]).toBe(end)
  }
  await move(2, 2)
  vi.advanceTimersByTime(3_600_000)
  // Back at the first broker, where the next fetch fails once.
  fake.away.add(1)
  fake.partitions[0] = { leader: 1, start: 0, end: 3 }
  const isAway = vi.spyOn(fake.away, 'has')
  await expect.poll(() => isAway.mock.results.some(({ value }) => value === true)).toBe(true)
  fake.away.delete(1)
  await expect.poll(() => reading.taken.get(0)!.at(-1)![1]).toBe(3)
  expect(reading.failure).toBeUndefined()
})
