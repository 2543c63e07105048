// The source on two brokers, one of which dies: partitions of the other continue, and the rest resume where they stopped when they have a leader again.

import { setTimeout as wait } from 'node:timers/promises'
import { Admin } from '@platformatic/kafka'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { openTopics, readCommitted } from '../../../../pipeline/kafka/topics.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import type { Source, StartAt } from '../../../../pipeline/source.ts'
import type { Positions } from '../../../../sinks/sink.ts'
import { type LogPartition, partitionOf } from '../../../../transformers/log-partition.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { positionsOf } from '../../positions.ts'
import { electPreferredLeaders, joinCluster, type SecondBroker } from '../second-broker.ts'
import { connectionTo, openTools, quickConsumer, sourcesOf, type Tools, textsOf } from './source-parts.ts'

const texts = (name: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${name}${at}`)

interface Reader {
  /** The messages by partition, in the order in which they were returned. */
  readonly taken: Map<number, string[]>
  /** The reported positions of each start. */
  readonly starts: Positions[]
  readonly failures: Error[]
  stop(): Promise<void>
}

/** Reads and commits like a pipeline until it stops; retries while the log is away. */
function reader(source: Source): Reader {
  const stopping = new AbortController()
  const reading = { taken: new Map<number, string[]>(), starts: [] as Positions[], failures: [] as Error[] }
  async function read(): Promise<void> {
    while (!stopping.signal.aborted) {
      const next = new Map<LogPartition, number>()
      try {
        for await (const chunk of source.chunks(stopping.signal, positions => void reading.starts.push(positions))) {
          const told = next.get(chunk.at) ?? reading.starts.at(-1)!.get(chunk.at)
          if (told !== undefined) expect(chunk.from).toBe(told)
          next.set(chunk.at, chunk.to)
          const partition = partitionOf(chunk.at)
          reading.taken.set(partition, [...(reading.taken.get(partition) ?? []), ...textsOf(chunk)])
          await source.commit(new Map([[chunk.at, chunk.to]]))
        }
      } catch (error) {
        reading.failures.push(error as Error)
        if (!(error instanceof LogUnavailableError)) return
      }
      await wait(50)
    }
  }
  const done = read()
  return {
    ...reading,
    async stop() {
      stopping.abort()
      await done
    },
  }
}

describeWithOwnKafka('two brokers', kafka => {
  let second: SecondBroker
  let admin: Admin
  /** For one test: kafkajs queries every topic that it has seen, and fails if a partition of one has no leader. */
  let tools: Tools
  beforeAll(async () => {
    const first = await openTools(kafka.brokers)
    // Creates the topic of the groups, which happens at their first use, while only the broker that stays is there.
    await first.committed(await kafka.createTopic(), 'first')
    await first.close()
    second = await joinCluster(kafka)
    admin = new Admin({ clientId: 'test', bootstrapBrokers: [...kafka.brokers], retries: 20, retryDelay: 100 })
  })
  beforeEach(async () => {
    tools = await openTools(kafka.brokers)
  })
  afterEach(() => tools.close())
  afterAll(async () => {
    await admin.close()
    await second.stop()
  })

  async function leadersOf(topic: string): Promise<number[]> {
    return (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic)!.partitions.map(({ leader }) => leader)
  }

  async function makeTopic(name: string, ...brokers: number[][]): Promise<void> {
    await admin.createTopics({ topics: [name], assignments: brokers.map((brokers, partition) => ({ partition, brokers })) })
    await expect.poll(() => leadersOf(name)).toEqual(brokers.map(([leader]) => leader))
  }

  /** The admin client reports a partition without a leader as an error. */
  const hasNoLeader = async (topic: string): Promise<boolean> =>
    leadersOf(topic).then(
      leaders => leaders.includes(-1),
      (error: unknown) => /leader/i.test(String((error as AggregateError).errors?.[0] ?? error)),
    )

  test('a partition whose only broker is away does not stop the others, and loses and duplicates nothing when it is back', async () => {
    const topic = 'apart'
    await makeTopic(topic, [1], [2], [2])
    await tools.appendTexts(topic, texts('a', 5), 0)
    await tools.appendTexts(topic, texts('b', 5), 1)
    await tools.appendTexts(topic, texts('c', 5), 2)
    const sources = sourcesOf(kafka.brokers, topic)
    const source = sources.open()
    const first = reader(source)
    await expect
      .poll(() => first.taken)
      .toEqual(
        positionsOf({
          0: texts('a', 5),
          1: texts('b', 5),
          2: texts('c', 5),
        }),
      )
    await tools.appendTexts(topic, ['b5'], 1)
    await expect.poll(() => first.taken.get(1)).toEqual([...texts('b', 5), 'b5'])
    await second.kill()
    for (const at of [5, 6]) {
      await tools.appendTexts(topic, [`a${at}`], 0)
      await expect.poll(() => first.taken.get(0)?.at(-1)).toBe(`a${at}`)
      // The second time the leader is missing for longer than a session.
      if (at === 5) await wait(1.5 * quickConsumer.sessionMs)
    }
    expect([first.failures, first.starts.length]).toEqual([[], 1])
    await first.stop()
    await source.close()

    // A member that starts meanwhile has the same share, of which two partitions have no leader; a store has a position of one of them.
    expect(await hasNoLeader(topic)).toBe(true)
    const [found] = await openTopics(connectionTo(kafka.brokers), [topic], undefined)
    expect(found).toMatchObject({ partitions: 3, leaders: [{}, undefined, undefined] })
    const startAt: StartAt = async () =>
      positionsOf({
        0: 6,
        1: 4,
      })
    const next = reader(sources.open({ consumer: 'store', startAt }))
    await expect.poll(() => next.taken).toEqual(new Map([[0, ['a6']]]))
    expect(next.starts).toEqual([
      positionsOf({
        0: 6,
        1: 4,
      }),
    ])
    await expect.poll(() => readCommitted(admin, sources.group('store'), topic, [0, 1, 2])).toEqual(positionsOf({ 0: 7 }))
    await second.restart()
    await expect.poll(() => leadersOf(topic)).toEqual([1, 2, 2])
    await tools.appendTexts(topic, ['b6'], 1)
    await expect
      .poll(() => next.taken)
      .toEqual(
        new Map([
          [0, ['a6']],
          [1, ['b4', 'b5', 'b6']],
          [2, texts('c', 5)],
        ]),
      )
    expect([next.failures, next.starts.length]).toEqual([[], 1])
    await next.stop()
    await sources.close()
  })

  test('after the death of a leader the next one is used, and later the first again, and nothing is lost or duplicated', async () => {
    const topic = 'moving'
    await makeTopic(topic, [1, 2], [2, 1])
    const sources = sourcesOf(kafka.brokers, topic)
    const source = reader(sources.open())
    const sent: [string[], string[]] = [[], []]
    async function append(name: string): Promise<void> {
      for (const partition of [0, 1] as const) {
        sent[partition].push(...texts(name, 20))
        await tools.appendTexts(topic, texts(name, 20), partition)
      }
      await expect.poll(() => [source.taken.get(0), source.taken.get(1)]).toEqual(sent)
    }
    await append('before ')
    await second.kill()
    await expect.poll(() => leadersOf(topic)).toEqual([1, 1])
    await append('moved ')
    await second.restart()
    await electPreferredLeaders(kafka)
    await expect.poll(() => leadersOf(topic)).toEqual([1, 2])
    await append('back ')
    expect([source.failures, source.starts.length]).toEqual([[], 1])
    await source.stop()
    await sources.close()
  })
})
