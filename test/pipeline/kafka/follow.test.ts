// Following topics of two brokers: what is asked for, where messages begin, and when it ends.

import { expect, test, vi } from 'vitest'
import type { FetchRequest } from '../../../pipeline/kafka/consumer/broker.ts'
import { followTopics } from '../../../pipeline/kafka/follow.ts'
import type { RawChunk } from '../../../pipeline/source.ts'
import { positionsOf } from '../positions.ts'
import { connectionTo } from './consumer/source-parts.ts'
import { brokerAddresses, type FakeTopic, fakeBroker, fakeTopic, holding } from './fake-brokers.ts'
import { encodeBatch } from './records/record-batches.ts'
import { silent } from './stored-messages.ts'

/** Fetches of a broker, by its host; those without messages wait for ever. */
type Asked = Map<string, FetchRequest[]>

function follow(topic: FakeTopic, from: Record<number, number>, signal: AbortSignal, asked: Asked = new Map()): AsyncGenerator<RawChunk> {
  return followTopics(
    {
      connection: connectionTo(['node1:9092']),
      topics: [{ name: 't', id: 'x' }],
      fetchBytes: 1 << 20,
      patienceMs: 60_000,
      logger: silent,
      async connectBroker(address) {
        const held = holding(topic, address)
        return fakeBroker(address, {
          ...held,
          async fetch(request) {
            asked.set(address.host, [...(asked.get(address.host) ?? []), request])
            const answer = await held.fetch({ ...request, waitMs: 0 })
            const partitions = answer.partitions.map((found, nth) => {
              const { at, offset } = request.partitions[nth]!
              const count = found.records.length === 0 ? 0 : topic.partitions[at]!.end - offset
              const records = Array.from({ length: count }, () => ({}))
              return { ...found, records: count === 0 ? found.records : encodeBatch(records, { baseOffset: offset }) }
            })
            if (partitions.every(({ error, records }) => error === 0 && records.length === 0)) await new Promise(() => undefined)
            return { ...answer, partitions }
          },
        })
      },
    },
    positionsOf(from),
    signal,
  )
}

async function next(chunks: AsyncGenerator<RawChunk>): Promise<string> {
  const { value } = (await chunks.next()) as { value: RawChunk | undefined }
  return value === undefined ? 'the end' : `${value.at}: ${value.from} to ${value.to}`
}

test('each broker gets one fetch for all partitions that it leads, and messages come from there on', async () => {
  const topic = fakeTopic({ leader: 1, start: 0, end: 5 }, { leader: 2, start: 0, end: 4 }, { leader: 1, start: 0, end: 1 })
  const stop = new AbortController()
  const asked: Asked = new Map()
  const chunks = follow(topic, { 0: 3, 1: 2, 2: 1 }, stop.signal, asked)
  expect([await next(chunks), await next(chunks)].toSorted()).toEqual(['0: 3 to 5', '1: 2 to 4'])
  const waiting = next(chunks)
  await expect.poll(() => asked.get('node1')?.length).toBe(2)
  const offsets = (host: string): object[] =>
    asked.get(host)!.map(({ partitions }) => new Map(partitions.map(({ at, offset }) => [at, offset])))
  expect(offsets('node1')).toEqual([positionsOf({ 0: 3, 2: 1 }), positionsOf({ 0: 5, 2: 1 })])
  expect(offsets('node2')).toEqual([positionsOf({ 1: 2 }), positionsOf({ 1: 4 })])
  stop.abort()
  expect(await waiting).toBe('the end')
})

test('it follows a partition to its next leader', async () => {
  const topic = fakeTopic({ leader: 1, start: 0, end: 5 })
  const stop = new AbortController()
  const chunks = follow(topic, { 0: 3 }, stop.signal)
  expect(await next(chunks)).toBe('0: 3 to 5')
  topic.partitions[0] = { leader: 2, start: 0, end: 6 }
  topic.away.add(1)
  expect(await next(chunks)).toBe('0: 5 to 6')
  stop.abort()
})

test('after messages that the log deleted the next chunk begins later', async () => {
  const stop = new AbortController()
  const chunks = follow(fakeTopic({ leader: 1, start: 7, end: 9 }), { 0: 3 }, stop.signal)
  expect(await next(chunks)).toBe('0: 7 to 9')
  stop.abort()
})

test('it ends if a partition has lost its last messages, or the topic was recreated', async () => {
  const { signal } = new AbortController()
  const partition = { leader: 1, start: 0, end: 5 }
  expect(await next(follow(fakeTopic(partition), { 0: 6 }, signal))).toBe('the end')
  const recreated = fakeTopic(partition)
  recreated.metadata = () => ({ brokers: brokerAddresses, topics: [{ error: 0, id: 'y', partitions: [{ partition: 0, leader: 1 }] }] })
  expect(await next(follow(recreated, { 0: 3 }, signal))).toBe('the end')
})

test('a topic that brokers do not know is waited for', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  try {
    const topic = fakeTopic({ leader: 1, start: 0, end: 5 })
    const unknownTopic = 3
    const looked = vi.fn<NonNullable<FakeTopic['metadata']>>(() => ({
      brokers: brokerAddresses,
      topics: [{ error: unknownTopic, id: '', partitions: [] }],
    }))
    topic.metadata = looked
    const stop = new AbortController()
    const found = next(follow(topic, { 0: 3 }, stop.signal))
    await expect.poll(() => looked.mock.calls.length).toBeGreaterThan(0)
    vi.advanceTimersByTime(10_000)
    const before = looked.mock.calls.length
    await expect.poll(() => looked.mock.calls.length).toBeGreaterThan(before)
    delete topic.metadata
    expect(await found).toBe('0: 3 to 5')
    stop.abort()
  } finally {
    vi.useRealTimers()
  }
})
