// The topic as a consumer sees it, over brokers that do not all know the same, or are away.

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Metadata } from '../../../pipeline/kafka/consumer/metadata-request.ts'
import { openTopic } from '../../../pipeline/kafka/consumer/topic.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { brokerAddresses, clusterOf, clusterWith, fakeTopic } from './fake-brokers.ts'

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
  const topic = openTopic(clusterWith(fake).cluster, 't', undefined)
  const ofFirst: [number, { start: number; end: number }][] = [
    [0, { start: 2, end: 5 }],
    [3, { start: 1, end: 1 }],
  ]
  expect(await topic.bounds([0, 1, 2, 3])).toEqual(new Map([...ofFirst, [1, { start: 0, end: 7 }]]))
  fake.away.add(2)
  expect(await topic.bounds([0, 1, 2, 3])).toEqual(new Map(ofFirst))
  await expect(topic.bounds([1])).rejects.toThrow(LogUnavailableError)
  await expect(topic.bounds([2])).rejects.toThrow(LogUnavailableError)
  expect(await topic.bounds([])).toEqual(new Map())
})

test('a partition that the broker does not know yet is away for now, and harms no other', async () => {
  const topic = openTopic(clusterWith(fakeTopic({ leader: 1, start: 0, end: 5 })).cluster, 't', undefined)
  expect(await failureOf(topic.bounds([1]))).toBeInstanceOf(LogUnavailableError)
  expect(await topic.bounds([0, 1])).toEqual(new Map([[0, { start: 0, end: 5 }]]))
})

test('a topic that has grown beyond what a position can hold is refused', async () => {
  const partitions = Array.from({ length: 4096 }, () => ({ leader: 1, start: 0, end: 0 }))
  const fake = fakeTopic(...partitions)
  const topic = openTopic(clusterWith(fake).cluster, 't', undefined)
  expect((await topic.now()).partitions).toHaveLength(4096)
  fake.partitions.push({ leader: 1, start: 0, end: 0 })
  const failure = await failureOf(topic.now())
  expect(failure).toBeInstanceOf(SystemicError)
  expect((failure as Error).message).toMatch(/^the topic t has 4097 partitions, and a stored position has room for 4096/)
})

describe('a topic that is not there', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  const unknownTopic: Metadata = { brokers: brokerAddresses, topic: { error: 3, id: 'x', partitions: [] } }

  test('is missing only when all answers of five seconds say so: a time without answers does not count', async () => {
    let metadata: () => Metadata = () => unknownTopic
    const topic = openTopic(clusterOf(['seed:9092'], () => ({ metadata: async () => metadata() })).cluster, 't', undefined)
    expect(await failureOf(topic.now())).toBeInstanceOf(LogUnavailableError)
    metadata = () => {
      throw new Error('cut')
    }
    expect(await failureOf(topic.now())).toBeInstanceOf(LogUnavailableError)
    vi.advanceTimersByTime(6000)
    metadata = () => unknownTopic
    expect(await failureOf(topic.now())).toBeInstanceOf(LogUnavailableError)
    vi.advanceTimersByTime(4900)
    expect(await failureOf(topic.now())).toBeInstanceOf(LogUnavailableError)
    vi.advanceTimersByTime(200)
    expect(await failureOf(topic.now())).toBeInstanceOf(SystemicError)
  })
})
