// A worker's share of a topic: a late answer does not set it back, and only its partitions are committed.

import { expect, onTestFinished, test } from 'vitest'
import { encodeAssignment, encodeSubscription } from '../../../../pipeline/kafka/consumer/assignment.ts'
import type { KafkaBroker } from '../../../../pipeline/kafka/consumer/broker.ts'
import { type FetchPosition, openFetching } from '../../../../pipeline/kafka/consumer/fetching.ts'
import { type ConsumerSettings, openConsumer } from '../../../../pipeline/kafka/consumer/source.ts'
import { openTopics } from '../../../../pipeline/kafka/consumer/topics.ts'
import type { Positions } from '../../../../sinks/sink.ts'
import { logPartition } from '../../../../transformers/log-partition.ts'
import { positionsOf } from '../../positions.ts'
import { recordingLogger } from '../../writer/workers/recording-logger.ts'
import { batch, clusterOf, type FakeTopic, fakeBroker, fakeTopic, holding } from '../fake-brokers.ts'
import { silent } from '../stored-messages.ts'
import { quickConsumer } from './source-parts.ts'

/** A member of a group that assigns it these partitions; of the second one it has committed 7. */
function settingsOf(topic: FakeTopic, assigned: readonly number[], commit: KafkaBroker['commit']): ConsumerSettings {
  return {
    brokers: ['node1:9092'],
    topics: ['t'],
    group: 'g',
    chunkBytesMax: 1000,
    chunkMessagesMax: 1000,
    consumer: quickConsumer,
    logger: silent,
    connectBroker: async address =>
      fakeBroker(address, {
        ...holding(topic, address),
        join: async () => ({
          generation: 1,
          memberId: 'm',
          leaderId: 'm',
          members: [{ memberId: 'm', metadata: encodeSubscription(['t'], []) }],
        }),
        sync: async () => encodeAssignment(new Map([['t', assigned]])),
        heartbeat: async () => undefined,
        leave: async () => undefined,
        committed: async (_group, _topics, of) => new Map(of.flatMap(at => (at === 1 ? [[at, 7]] : []))),
        commit,
      }),
  }
}

test("a partition's position is not overwritten by a late answer after it was fetched from another leader", async () => {
  const topic = fakeTopic({ leader: 1, start: 4, end: 4 }, { leader: 2, start: 0, end: 0 })
  const asked: number[] = []
  const first = logPartition(0, 0)
  const { cluster } = clusterOf(['node1:9092'], address => ({
    ...holding(topic, address),
    async fetch({ partitions, waitMs }) {
      const wants = partitions.find(({ at }) => at === first)
      // The first leader says that it does not have the offset; the second has it.
      if (address.host === 'node1') return { error: 0, partitions: [{ at: first, error: 1, aborted: [], records: Buffer.alloc(0) }] }
      if (wants === undefined)
        return { error: 0, partitions: [{ at: logPartition(0, 1), error: 6, aborted: [], records: Buffer.alloc(0) }] }
      asked.push(wants.offset)
      if (asked.length > 1) {
        await new Promise(resolve => setTimeout(resolve, waitMs))
        return { error: 0, partitions: [] }
      }
      return { error: 0, partitions: [{ at: first, error: 0, aborted: [], records: batch(4, 6) }] }
    },
  }))
  const relocating = Promise.withResolvers<void>()
  const position = Promise.withResolvers<FetchPosition>()
  const ending = new AbortController()
  const positions = positionsOf<FetchPosition>({ 0: { from: 4, next: 4 }, 1: { from: 4, next: 4 } })
  const bounds = { ...quickConsumer, waitMs: 5, patienceMs: 60_000 }
  function relocate(): Promise<FetchPosition> {
    relocating.resolve()
    topic.partitions[0]!.leader = 2
    return position.promise
  }
  const fetching = openFetching(cluster, openTopics(cluster, ['t'], undefined), positions, bounds, relocate, silent, ending.signal)
  await relocating.promise
  const set = await fetching.next()
  position.resolve({ from: 0, next: 0 })
  await expect.poll(() => asked.length).toBeGreaterThan(3)
  expect([set!.from, new Set(asked)]).toEqual([4, new Set([4, 6])])
  ending.abort()
  cluster.close()
})

test('where the store is ahead of the group, its position is committed before the first chunk, so that others see the lag as it is', async () => {
  const topic = fakeTopic({ leader: 1, start: 0, end: 9 }, { leader: 2, start: 0, end: 9 }, { leader: 2, start: 0, end: 9 })
  const commits: Positions[] = []
  const source = openConsumer({
    ...settingsOf(topic, [0, 1, 2], async (_member, _topic, offsets) => void commits.push(offsets)),
    startAt: async () => positionsOf({ 0: 9, 1: 7, 2: 0 }),
  })
  const ending = new AbortController()
  const started = Promise.withResolvers<Positions>()
  onTestFinished(async () => {
    ending.abort()
    await source.close()
  })
  const shares = source.chunks(ending.signal, started.resolve, () => undefined)
  const chunks = shares[Symbol.asyncIterator]().next()
  expect(await started.promise).toEqual(positionsOf({ 0: 9, 1: 7, 2: 0 }))
  await expect.poll(() => commits).toEqual([positionsOf({ 0: 9 })])
  ending.abort()
  await chunks
})

test('where the group is ahead of the store, one line says so and names the option; not of partitions that the store does not know', async () => {
  const topic = fakeTopic({ leader: 1, start: 0, end: 9 }, { leader: 2, start: 5, end: 5 }, { leader: 2, start: 0, end: 0 })
  const warningsWith = async (stored: Positions): Promise<string[]> => {
    const { logger, lines } = recordingLogger()
    const settings = settingsOf(topic, [0, 1, 2], async () => undefined)
    const source = openConsumer({ ...settings, logger, startAt: async () => stored })
    for (let times = 0; times < 2; times++) {
      const ending = new AbortController()
      const started = Promise.withResolvers<Positions>()
      const chunks = source.chunks(ending.signal, started.resolve, () => undefined)
      const first = chunks[Symbol.asyncIterator]().next()
      await started.promise
      ending.abort()
      await first
    }
    await source.close()
    return lines().flatMap(({ level, msg }) => (level === 40 ? [String(msg)] : []))
  }
  expect(await warningsWith(positionsOf({ 0: 9, 1: 5 }))).toEqual([
    expect.stringMatching(/^the consumer group g has committed .* in 1 partition of the topic t: .* its own log\.group \(SVC_LOG_GROUP\)$/),
  ])
  expect(await warningsWith(positionsOf({ 0: 9 }))).toEqual([])
})

test('a commit contains only partitions of the share', async () => {
  const topic = fakeTopic({ leader: 1, start: 0, end: 9 }, { leader: 2, start: 0, end: 9 })
  const commits: Positions[] = []
  const source = openConsumer(settingsOf(topic, [0], async (_member, _topic, offsets) => void commits.push(offsets)))
  await source.commit(positionsOf({ 0: 5, 1: 7 }))
  expect(commits).toEqual([positionsOf({ 0: 5 })])
  await source.close()
})
