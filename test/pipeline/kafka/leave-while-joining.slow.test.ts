// A member that leaves while the group still waits to take it in: the group is told, and waits for nobody who has gone.

import { Kafka, logLevel } from 'kafkajs'
import { expect, test } from 'vitest'
import type { Source } from '../../../pipeline/source.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { quickConsumer, sourcesOf } from './source-parts.ts'

// A group that is not told waits a session for who has gone. The member in it hears of the other one late, so that the join is not over first.
const tuning = { ...quickConsumer, sessionMs: 20_000, rebalanceMs: 20_000, heartbeatMs: 4000 }

describeWithKafka('a group that waits to take in a new member', kafka => {
  test('is told when the new member leaves before that, and goes on at once', async () => {
    const topic = await kafka.createTopic({ partitions: 2 })
    const admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const sources = sourcesOf(kafka.brokers, topic, 'platformatic')
    const group = sources.group()
    const described = async (): Promise<{ state: string; members: number }> => {
      const { state, members } = (await admin.describeGroups([group])).groups[0]!
      return { state, members: members.length }
    }
    const ending = new AbortController()
    const work = (source: Source): void => void source.runs(ending.signal)[Symbol.asyncIterator]().next()

    work(sources.open({ tuning }))
    await expect.poll(described, { timeout: 15_000 }).toEqual({ state: 'Stable', members: 1 })
    // The group waits until the first member has heard of it by its heartbeat, and joins again.
    const newcomer = sources.open({ tuning })
    work(newcomer)
    await expect.poll(described, { interval: 2, timeout: 5000 }).toEqual({ state: 'PreparingRebalance', members: 2 })
    await newcomer.close()
    await expect.poll(described, { timeout: 10_000 }).toEqual({ state: 'Stable', members: 1 })
    ending.abort()
    await sources.close()
    await admin.disconnect()
  })
})
