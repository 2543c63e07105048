// A member that leaves while the group has not answered its join yet: it tells the group, which then does not wait for it.

import { Kafka, logLevel } from 'kafkajs'
import { expect, test } from 'vitest'
import type { Source } from '../../../../pipeline/source.ts'
import { describeWithKafka } from '../../../servers/kafka.ts'
import { quickConsumer, sourcesOf } from './source-parts.ts'

// Otherwise the group would wait for a session. The existing member learns of the new one late, so that the join is still running.
const tuning = { ...quickConsumer, sessionMs: 20_000, rebalanceMs: 20_000, heartbeatMs: 4000 }

describeWithKafka('a group with a joining member', kafka => {
  test.each([false, true])('does not wait for the new member if that leaves first (named: %s)', async isNamed => {
    const topic = await kafka.createTopic({ partitions: 2 })
    const admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const sources = sourcesOf(kafka.brokers, topic, isNamed)
    const group = sources.group()
    const described = async (): Promise<{ state: string; members: number }> => {
      const { state, members } = (await admin.describeGroups([group])).groups[0]!
      return { state, members: members.length }
    }
    const ending = new AbortController()
    const work = (source: Source): void => void source.chunks(ending.signal)[Symbol.asyncIterator]().next()

    work(sources.open({ tuning }))
    await expect.poll(described, { timeout: 15_000 }).toEqual({ state: 'Stable', members: 1 })
    // The group waits until the first member learns of the rebalance by its heartbeat, and joins again.
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
