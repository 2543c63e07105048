// Fetching a share whose brokers come and go: what can be fetched is, and the log is away only when nothing can.

import { type Logger, pino } from 'pino'
import { afterEach, expect, test, vi } from 'vitest'
import { type FetchBounds, type Fetching, openFetching, type Place } from '../../../pipeline/kafka/consumer/fetching.ts'
import { openTopic } from '../../../pipeline/kafka/consumer/topic.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { recordingLogger } from '../workers/recording-logger.ts'
import { clusterWith, type FakeTopic, fakeTopic, metadataOf } from './fake-brokers.ts'

const bounds: FetchBounds = { fetchBytes: 1024, partitionBytes: 1024, queueBytes: 8192, waitMs: 5, patienceMs: 300 }

interface Reading {
  /** By partition, the offsets that were fetched, from and to. */
  readonly taken: Map<number, [number, number][]>
  readonly asked: [number, number | undefined][]
  readonly failure: Error | undefined
}

const ending: AbortController[] = []
afterEach(() => {
  for (const one of ending.splice(0)) one.abort()
  vi.useRealTimers()
})

/** Takes whatever is fetched of the partitions, which go on at the offsets. */
function read(
  fake: FakeTopic,
  places: readonly Place[],
  patienceMs = bounds.patienceMs,
  logger: Logger = pino({ level: 'silent' }),
): Reading {
  const { cluster } = clusterWith(fake)
  const reading = {
    taken: new Map<number, [number, number][]>(),
    asked: [] as [number, number | undefined][],
    failure: undefined as Error | undefined,
  }
  async function relocate(partition: number, from: number | undefined): Promise<Place> {
    reading.asked.push([partition, from])
    const { start } = fake.partitions[partition]!
    return { from: from ?? start, next: start }
  }
  const end = new AbortController()
  ending.push(end)
  const topic = openTopic(cluster, 't', undefined)
  const fetching = openFetching(cluster, topic, new Map(places.entries()), { ...bounds, patienceMs }, relocate, logger, end.signal)
  takeAll(fetching, reading.taken).catch((error: Error) => {
    reading.failure = error
  })
  return reading
}

async function takeAll(fetching: Fetching, taken: Reading['taken']): Promise<void> {
  for (let set = await fetching.next(); set !== undefined; set = await fetching.next()) {
    const { partition, from } = set
    const to = from + Buffer.from(set.set).readInt32BE(23) + 1
    taken.set(partition, [...(taken.get(partition) ?? []), [from, to]])
    set.release()
  }
}

const at = (offset: number): Place => ({ from: offset, next: offset })
const seconds = (count: number): Promise<void> => new Promise(resolve => setTimeout(resolve, 1000 * count))

test('a partition without a leader leaves the others going on, and goes on itself when it has one', async () => {
  const fake = fakeTopic({ leader: 1, start: 0, end: 3 }, { leader: -1, start: 0, end: 4 })
  const reading = read(fake, [at(0), at(2)])
  await expect.poll(() => reading.taken.get(0)).toEqual([[0, 3]])
  await seconds(2)
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

test('a leader that does not answer leaves the others going on, and its partitions go on where they stopped', async () => {
  const fake = fakeTopic({ leader: 1, start: 0, end: 3 }, { leader: 2, start: 0, end: 4 })
  const reading = read(fake, [at(0), at(0)])
  await expect.poll(() => reading.taken.get(1)).toEqual([[0, 4]])
  fake.away.add(2)
  await seconds(2)
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

test('a partition whose position is not known begins at its start, and covers from there on', async () => {
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

test('a partition that is refused does not keep another of the same answer from going on elsewhere', async () => {
  // The first has moved, as its old leader says; the look at the topic does not know it yet.
  const fake = fakeTopic({ leader: 2, start: 0, end: 3 }, { leader: 1, start: 5, end: 8 })
  fake.metadata = () => metadataOf(fakeTopic({ leader: 1, start: 0, end: 0 }, { leader: 1, start: 0, end: 0 }))
  const reading = read(fake, [at(0), at(2)])
  await expect.poll(() => reading.asked).toEqual([[1, 2]])
  fake.metadata = () => metadataOf(fake)
  await expect.poll(() => reading.taken.size).toBe(2)
})

test('the log is away when no leader of the share has answered for as long as it may take', async () => {
  const fake = fakeTopic({ leader: 1, start: 0, end: 3 }, { leader: -1, start: 0, end: 4 })
  const reading = read(fake, [at(0), at(0)])
  await expect.poll(() => reading.taken.get(0)).toEqual([[0, 3]])
  await seconds(1)
  expect(reading.failure).toBeUndefined()
  fake.away.add(1)
  await expect.poll(() => reading.failure).toBeInstanceOf(LogUnavailableError)
})

test('a broker that is away, and leads nothing any more, is not said to be back', async () => {
  const { logger, lines } = recordingLogger()
  const sentences = (): string[] => lines().flatMap(({ msg }) => (String(msg).startsWith('broker ') ? [String(msg)] : []))
  const fake = fakeTopic({ leader: 1, start: 0, end: 3 }, { leader: 2, start: 0, end: 4 })
  const reading = read(fake, [at(0), at(0)], bounds.patienceMs, logger)
  fake.away.add(2)
  await expect.poll(sentences, { timeout: 5_000 }).toEqual([expect.stringMatching(/^broker 2 is away /)])
  fake.partitions[1]!.leader = 1
  await expect.poll(() => reading.taken.get(1)?.at(-1)?.[1], { timeout: 5_000 }).toBe(4)
  expect(sentences()).toHaveLength(1)
})

test('what a leader failed at before it led nothing is forgotten when it leads again', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const fake = fakeTopic({ leader: 1, start: 0, end: 1 })
  const reading = read(fake, [at(0)], 10_000)
  await expect.poll(() => reading.taken.get(0)?.length).toBe(1)
  async function move(to: number, end: number): Promise<void> {
    fake.partitions[0] = { leader: to, start: 0, end }
    await expect.poll(() => reading.taken.get(0)!.at(-1)![1]).toBe(end)
  }
  await move(2, 2)
  vi.advanceTimersByTime(3_600_000)
  // Back at the first, where the next fetch fails once.
  fake.away.add(1)
  fake.partitions[0] = { leader: 1, start: 0, end: 3 }
  await seconds(0.5)
  fake.away.delete(1)
  await expect.poll(() => reading.taken.get(0)!.at(-1)![1]).toBe(3)
  expect(reading.failure).toBeUndefined()
})
