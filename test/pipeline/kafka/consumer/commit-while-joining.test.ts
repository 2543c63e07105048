// A commit while the group waits for a slow member: it is answered, and the running join continues.

import { expect, test } from 'vitest'
import { connectBrokers } from '../../../../pipeline/kafka/client/broker.ts'
import { encodeSubscription, protocolName } from '../../../../pipeline/kafka/consumer/assignment.ts'
import type { BrokerError, InGeneration, Joined } from '../../../../pipeline/kafka/consumer/broker.ts'
import { type Cluster, openCluster } from '../../../../pipeline/kafka/consumer/cluster.ts'
import { readCommitted, writeCommitted } from '../../../../pipeline/kafka/consumer/group.ts'
import { openTopics } from '../../../../pipeline/kafka/consumer/topics.ts'
import { logPartition } from '../../../../transformers/log-partition.ts'
import { describeWithKafka } from '../../../servers/kafka.ts'
import { positionsOf } from '../../positions.ts'
import { connectionTo } from './source-parts.ts'

const [sessionMs, rebalanceMs] = [6000, 6000]
const rebalancing = 27

describeWithKafka('a group that waits for a member to join again', kafka => {
  test('a commit is answered, and the running join continues', async () => {
    const connect = connectBrokers({ ...connectionTo(kafka.brokers), requestTimeoutMs: 1000 })
    const name = await kafka.createTopic()
    const group = `group-${name}`
    const [first, second] = [openCluster(kafka.brokers, connect), openCluster(kafka.brokers, connect)]
    const topics = openTopics(first, [name], undefined)
    const join = (cluster: Cluster, memberId = ''): Promise<Joined> =>
      cluster.atCoordinator(group, broker =>
        broker.join({ group, memberId, sessionMs, rebalanceMs, protocol: protocolName, metadata: encodeSubscription([name], []) }),
      )
    const sync = (cluster: Cluster, { memberId, generation }: Joined): Promise<Buffer> =>
      cluster.atCoordinator(group, broker =>
        broker.sync({ group, memberId, generation, protocol: protocolName, rebalanceMs, assignments: new Map() }),
      )
    const heartbeat = (cluster: Cluster, { memberId, generation }: Joined): Promise<number> =>
      cluster
        .atCoordinator(group, broker => broker.heartbeat({ group, memberId, generation }))
        .then(
          () => 0,
          (error: BrokerError) => error.apiCode,
        )

    // The first use of groups on a broker takes a while.
    let alone: Joined | undefined
    async function joinFirst(): Promise<boolean> {
      alone = await join(first).catch(() => undefined)
      return alone !== undefined
    }
    await expect.poll(joinFirst, { timeout: 15_000 }).toBe(true)
    await sync(first, alone!)
    const joining = join(second)
    await expect.poll(() => heartbeat(first, alone!)).toBe(rebalancing)
    const [one, other] = await Promise.all([join(first, alone!.memberId), joining])
    await Promise.all([sync(first, one), sync(second, other)])

    let isJoined = false
    const waiting = join(first, one.memberId).finally(() => {
      isJoined = true
    })
    await expect.poll(() => heartbeat(second, other)).toBe(rebalancing)
    const member: InGeneration = { group, memberId: one.memberId, generation: one.generation }
    await writeCommitted(first, topics, member, positionsOf({ 0: 7 }))
    expect(await readCommitted(first, topics, group, [logPartition(0, 0)])).toEqual(positionsOf({ 0: 7 }))
    expect(isJoined).toBe(false)
    await second.atCoordinator(group, broker => broker.leave({ group, memberId: other.memberId }))
    expect((await waiting).generation).toBe(one.generation + 1)
    for (const cluster of [first, second]) cluster.close()
  })
})
