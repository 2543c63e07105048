// A share of which a broker cannot report everything: the rest begins, and late partitions begin where they should.

import { expect, test } from 'vitest'
import { encodeAssignment, encodeSubscription } from '../../../../pipeline/kafka/consumer/assignment.ts'
import { openConsumer } from '../../../../pipeline/kafka/consumer/source.ts'
import type { StartAt } from '../../../../pipeline/source.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import type { Positions } from '../../../../sinks/sink.ts'
import { partitionName } from '../../../../transformers/log-partition.ts'
import { positionsOf } from '../../positions.ts'
import { type FakeTopic, fakeBroker, fakeTopic, holding, metadataOf } from '../fake-brokers.ts'
import { silent } from '../stored-messages.ts'
import { quickConsumer } from './source-parts.ts'

interface Beginning {
  readonly starts: Positions[]
  readonly lost: [number, number][]
  /** The offsets requested last, by partition. */
  readonly asked: Map<number, number>
  readonly failure: Error | undefined
}

/** Begins with the topic's three partitions as its share; the group has committed offsets of all. */
async function begin(topic: FakeTopic, startAt: StartAt, work: (beginning: Beginning) => Promise<void>): Promise<void> {
  const beginning = {
    starts: [] as Positions[],
    lost: [] as [number, number][],
    asked: new Map<number, number>(),
    failure: undefined as Error | undefined,
  }
  const source = openConsumer({
    brokers: ['node1:9092'],
    topics: ['t'],
    group: 'g',
    startAt,
    acceptLost: true,
    onLost: (...lost) => beginning.lost.push(lost),
    chunkBytesMax: 1000,
    chunkMessagesMax: 1000,
    consumer: quickConsumer,
    logger: silent,
    async connectBroker(address) {
      const held = holding(topic, address)
      return fakeBroker(address, {
        ...held,
        fetch(request) {
          for (const { at, offset } of request.partitions) beginning.asked.set(at, offset)
          return held.fetch(request)
        },
        join: async () => ({
          generation: 1,
          memberId: 'm',
          leaderId: 'm',
          members: [{ memberId: 'm', metadata: encodeSubscription(['t'], []) }],
        }),
        sync: async () => encodeAssignment(new Map([['t', [0, 1, 2]]])),
        heartbeat: async () => undefined,
        leave: async () => undefined,
      })
    },
  })
  async function read(): Promise<void> {
    for await (const chunk of source.chunks(new AbortController().signal, positions => void beginning.starts.push(positions)))
      expect.unreachable(`a run of ${partitionName(chunk.at)}`)
  }
  const reading = read().catch((error: Error) => {
    beginning.failure = error
  })
  await work(beginning)
  await source.close()
  await reading
}

const empty = (offset: number, leader: number) => ({ leader, start: offset, end: offset })

test('a partition that the broker does not know yet begins when it does: where the store says, or at its start, and lost messages are reported', async () => {
  const topic = fakeTopic(empty(4, 1), empty(9, 2), empty(7, 2))
  topic.metadata = () => metadataOf(fakeTopic(topic.partitions[0]!))
  const startAt: StartAt = async () =>
    positionsOf({
      0: 4,
      1: 5,
    })
  await begin(topic, startAt, async beginning => {
    await expect.poll(() => beginning.asked).toEqual(positionsOf({ 0: 4 }))
    // The store has no position of the third, and the log's start is not known.
    expect(beginning.starts).toEqual([
      positionsOf({
        0: 4,
        1: 5,
      }),
    ])
    delete topic.metadata
    const positions = positionsOf({
      0: 4,
      1: 9,
      2: 7,
    })
    await expect.poll(() => beginning.asked).toEqual(positions)
    expect([beginning.lost, beginning.failure, beginning.starts.length]).toEqual([[[1, 4]], undefined, 1])
  })
})

test("a late partition that ends below the store's position stops the worker", async () => {
  const topic = fakeTopic(empty(4, 1), empty(3, -1), empty(0, 1))
  await begin(
    topic,
    async () => positionsOf({ 1: 5 }),
    async beginning => {
      await expect.poll(() => beginning.asked.size).toBe(2)
      topic.partitions[1]!.leader = 2
      await expect.poll(() => beginning.failure).toBeInstanceOf(SystemicError)
      expect(beginning.failure!.message).toMatch(/^partition 1 of the log t ends at offset 3, but the store continues at 5/)
    },
  )
})
