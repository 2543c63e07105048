// The topics as a consumer sees them through brokers that do not all know the same, or are away.

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Metadata } from '../../../../pipeline/kafka/consumer/broker.ts'
import { openTopics } from '../../../../pipeline/kafka/consumer/topics.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { type LogPartition, logPartition } from '../../../../transformers/log-partition.ts'
import { brokerAddresses, clusterOf, clusterWith, fakeTopic } from '../fake-brokers.ts'

const only = (partition: number): LogPartition => logPartition(0, partition)
const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  )

test('bounds are those of the partitions whose leaders answer', async () => {
  const fake = fakeTopic(
    { leader: 1, start: 2, end: 5 },
    { leader: 2, start: 0, end: 7 },
    { leader: -1, start: 0, end: 1 },
    { leader: 1, start: 1, end: 1 },
  )
  const topics = openTopics(clusterWith(fake).cluster, ['t'], undefined)
  const firstLeaders: [number, { start: number; end: number }][] = [
    [0, { start: 2, end: 5 }],
    [3, { start: 1, end: 1 }],
  ]
  expect(await topics.bounds([0, 1, 2, 3].map(only))).toEqual(new Map([...firstLeaders, [1, { start: 0, end: 7 }]]))
  fake.away.add(2)
  expect(await topics.bounds([0, 1, 2, 3].map(only))).toEqual(new Map(firstLeaders))
  await expect(topics.bounds([only(1)])).rejects.toThrow(LogUnavailableError)
  await expect(topics.bounds([only(2)])).rejects.toThrow(LogUnavailableError)
  expect(await topics.bounds([])).toEqual(new Map())
})

test('a partition that the broker does not know yet is temporarily away, and affects no other', async () => {
  const topics = openTopics(clusterWith(fakeTopic({ leader: 1, start: 0, end: 5 })).cluster, ['t'], undefined)
  expect(await failureOf(topics.bounds([only(1)]))).toBeInstanceOf(LogUnavailableError)
  expect(await topics.bounds([0, 1].map(only))).toEqual(new Map([[0, { start: 0, end: 5 }]]))
})

test('a topic with more partitions than a position can represent is refused', async () => {
  const partitions = Array.from({ length: 4096 }, () => ({ leader: 1, start: 0, end: 0 }))
  const fake = fakeTopic(...partitions)
  const topics = openTopics(clusterWith(fake).cluster, ['t'], undefined)
  expect((await topics.now()).leaders.size).toBe(4096)
  fake.partitions.push({ leader: 1, start: 0, end: 0 })
  const failure = await failureOf(topics.now())
  expect(failure).toBeInstanceOf(SystemicError)
  expect((failure as Error).message).toMatch(/^the topic t has 4097 partitions, but a stored position allows only 4096/)
})

describe('a missing topic', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  const unknownTopic: Metadata = { brokers: brokerAddresses, topics: [{ error: 3, id: 'x', partitions: [] }] }

  test('counts as missing only if all answers within five seconds say so: time without answers does not count', async () => {
    let metadata: () => Metadata = () => unknownTopic
    const topics = openTopics(clusterOf(['seed:9092'], () => ({ metadata: async () => metadata() })).cluster, ['t'], undefined)
    expect(await failureOf(topics.now())).toBeInstanceOf(LogUnavailableError)
    metadata = () => {
      throw new Error('cut')
    }
    expect(await failureOf(topics.now())).toBeInstanceOf(LogUnavailableError)
    vi.advanceTimersByTime(6000)
    metadata = () => unknownTopic
    expect(await failureOf(topics.now())).toBeInstanceOf(LogUnavailableError)
    vi.advanceTimersByTime(4900)
    expect(await failureOf(topics.now())).toBeInstanceOf(LogUnavailableError)
    vi.advanceTimersByTime(200)
    expect(await failureOf(topics.now())).toBeInstanceOf(SystemicError)
  })
})
