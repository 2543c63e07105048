// Static members (KIP-345): a member that comes back under its name gets its partitions again, and two of the same name are distinguished.

import { expect, test } from 'vitest'
import type { Source } from '../../../../pipeline/source.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { partitionName } from '../../../../transformers/log-partition.ts'
import { describeWithKafka } from '../../../servers/kafka.ts'
import { openTools, quickConsumer, sourcesOf } from './source-parts.ts'

/** So long that no session ends, and no rebalance is given up, while a test waits. */
const tuning = { ...quickConsumer, sessionMs: 600_000, rebalanceMs: 600_000 }

interface Member {
  /** Each share that it got, in order. */
  readonly shares: number[][]
  failure: Error | undefined
  /** Leaves the group. */
  stop(): Promise<void>
}

function start(source: Source): Member {
  const ending = new AbortController()
  const member: Member = {
    shares: [],
    failure: undefined,
    async stop() {
      ending.abort()
      await source.close()
    },
  }
  async function work(): Promise<void> {
    while (!ending.signal.aborted) {
      const chunks = source.chunks(ending.signal, positions => {
        member.shares.push([...positions.keys()])
      })
      for await (const chunk of chunks) expect.unreachable(`a run of ${partitionName(chunk.at)}`)
    }
  }
  work().catch((error: Error) => {
    member.failure = error
  })
  return member
}

describeWithKafka('static members', kafka => {
  test('a member that comes back under its name gets its share again, nothing moves for the other, and the previous one is fenced', async () => {
    const topic = await kafka.createTopic({ partitions: 4 })
    const tools = await openTools(kafka.brokers)
    const sources = sourcesOf(kafka.brokers, topic)
    const open = (instance: string): Source => sources.open({ instance, tuning })
    // The first member assigns the partitions.
    const leader = start(open('plant-0'))
    await expect.poll(() => leader.shares).toEqual([[0, 1, 2, 3]])
    const other = start(open('plant-1'))
    await expect.poll(() => [leader.shares.at(-1)?.length, other.shares.at(-1)?.length]).toEqual([2, 2])
    const held = leader.shares.at(-1)!
    const before = other.shares.length

    // It did not leave, as if it had died.
    const again = start(open('plant-0'))
    await expect.poll(() => again.shares).toEqual([held])
    await expect.poll(() => leader.failure).toBeInstanceOf(SystemicError)
    expect(leader.failure!.message).toMatch(/give each its own log\.instance \(SVC_LOG_INSTANCE\)/)
    expect([other.shares.length, other.failure, again.failure]).toEqual([before, undefined, undefined])

    // It still leads, although it has assigned nothing since it came back.
    await tools.admin.createPartitions({ topicPartitions: [{ topic, count: 6 }] })
    await expect
      .poll(() => [...again.shares.at(-1)!, ...other.shares.at(-1)!].toSorted((one, another) => one - another))
      .toEqual([0, 1, 2, 3, 4, 5])
    for (const member of [leader, again, other]) await member.stop()
    await tools.close()
  })

  test('a stop leaves the group: the others get the partitions long before its session ends', async () => {
    const topic = await kafka.createTopic({ partitions: 2 })
    const sources = sourcesOf(kafka.brokers, topic)
    const staying = start(sources.open({ instance: 'plant-0', tuning }))
    await expect.poll(() => staying.shares.at(-1)).toEqual([0, 1])
    const leaving = start(sources.open({ instance: 'plant-1', tuning }))
    await expect.poll(() => staying.shares.at(-1)?.length).toBe(1)
    await leaving.stop()
    await expect.poll(() => staying.shares.at(-1)).toEqual([0, 1])
    await staying.stop()
  })
})
