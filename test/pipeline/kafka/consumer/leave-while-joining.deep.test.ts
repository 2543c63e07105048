// A member that leaves while the group has not answered its join yet: it tells the group, which then does not wait for it.

import { Kafka, logLevel } from 'kafkajs'
import { expect, test } from 'vitest'
import { describeWithKafka } from '../../../servers/kafka.ts'
import { joinAlone, openBareMember, rebalanceMs, sessionMs } from './bare-member.ts'
import { quickConsumer, sourcesOf } from './source-parts.ts'

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

    const first = openBareMember(kafka.brokers, group, topic)
    const { memberId } = await joinAlone(first)
    expect(await described()).toEqual({ state: 'Stable', members: 1 })
    const newcomer = sources.open({ tuning: { ...quickConsumer, sessionMs, rebalanceMs } })
    void newcomer.chunks(new AbortController().signal)[Symbol.asyncIterator]().next()
    // The group waits until the first member joins again.
    await expect.poll(described).toEqual({ state: 'PreparingRebalance', members: 2 })
    await newcomer.close()
    const again = await first.join(memberId)
    expect(again.members.map(member => member.memberId)).toEqual([memberId])
    await first.sync(again)
    expect(await described()).toEqual({ state: 'Stable', members: 1 })
    await admin.disconnect()
  })
})
