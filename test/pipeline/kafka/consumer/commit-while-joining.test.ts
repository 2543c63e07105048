// A commit while the group waits for a slow member: it is answered, and the running join continues.

import { expect, test } from 'vitest'
import type { InGeneration } from '../../../../pipeline/kafka/consumer/broker.ts'
import { readCommitted, writeCommitted } from '../../../../pipeline/kafka/consumer/group.ts'
import { openTopics } from '../../../../pipeline/kafka/consumer/topics.ts'
import { logPartition } from '../../../../transformers/log-partition.ts'
import { describeWithKafka } from '../../../servers/kafka.ts'
import { positionsOf } from '../../positions.ts'
import { joinAlone, openBareMember } from './bare-member.ts'

const rebalancing = 27

describeWithKafka('a group that waits for a member to join again', kafka => {
  test('a commit is answered, and the running join continues', async () => {
    const name = await kafka.createTopic()
    const group = `group-${name}`
    const [first, second] = [openBareMember(kafka.brokers, group, name), openBareMember(kafka.brokers, group, name)]
    const topics = openTopics(first.cluster, [name], undefined)
    const alone = await joinAlone(first)
    const joining = second.join()
    await expect.poll(() => first.heartbeat(alone)).toBe(rebalancing)
    const [one, other] = await Promise.all([first.join(alone.memberId), joining])
    await Promise.all([first.sync(one), second.sync(other)])

    let isJoined = false
    const waiting = first.join(one.memberId).finally(() => {
      isJoined = true
    })
    await expect.poll(() => second.heartbeat(other)).toBe(rebalancing)
    const member: InGeneration = { group, memberId: one.memberId, generation: one.generation }
    await writeCommitted(first.cluster, topics, member, positionsOf({ 0: 7 }))
    expect(await readCommitted(first.cluster, topics, group, [logPartition(0, 0)])).toEqual(positionsOf({ 0: 7 }))
    expect(isJoined).toBe(false)
    await second.leave(other)
    expect((await waiting).generation).toBe(one.generation + 1)
  })
})
