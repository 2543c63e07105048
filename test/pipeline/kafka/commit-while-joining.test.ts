// A commit while the group waits for a slow member: it is answered, and the join that is under way goes on.

import { expect, test } from 'vitest'
import { encodeSubscription, protocolName } from '../../../pipeline/kafka/consumer/assignment.ts'
import type { BrokerError, ConnectBroker, InGeneration, Joined } from '../../../pipeline/kafka/consumer/broker.ts'
import { type Cluster, openCluster } from '../../../pipeline/kafka/consumer/cluster.ts'
import { readCommitted, writeCommitted } from '../../../pipeline/kafka/consumer/group.ts'
import { openTopic } from '../../../pipeline/kafka/consumer/topic.ts'
import { connectWithKafkajs } from '../../../pipeline/kafka/kafkajs/broker.ts'
import { connectWithPlatformatic } from '../../../pipeline/kafka/platformatic/broker.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { type Client, clients, connectionTo } from './source-parts.ts'
import { silent } from './stored-messages.ts'

const [sessionMs, rebalanceMs] = [6000, 6000]
const rebalancing = 27

describeWithKafka('a group that waits for a member to join again', kafka => {
  function connect(client: Client): ConnectBroker {
    const connection = { ...connectionTo(kafka.brokers), requestTimeoutMs: 1000 }
    return client === 'kafkajs' ? connectWithKafkajs(connection, silent) : connectWithPlatformatic(connection)
  }

  for (const client of clients) {
    test(`a commit by ${client} is answered, and the join that is under way goes on`, async () => {
      const name = await kafka.createTopic()
      const group = `group-${name}`
      const [first, second] = [openCluster(kafka.brokers, connect(client)), openCluster(kafka.brokers, connect(client))]
      const topic = openTopic(first, name, undefined)
      const join = (cluster: Cluster, memberId = ''): Promise<Joined> =>
        cluster.atCoordinator(group, broker =>
          broker.join({ group, memberId, sessionMs, rebalanceMs, protocol: protocolName, metadata: encodeSubscription(name, []) }),
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
      await writeCommitted(first, topic, member, new Map([[0, 7]]))
      expect(await readCommitted(first, topic, group, [0])).toEqual(new Map([[0, 7]]))
      expect(isJoined).toBe(false)
      await second.atCoordinator(group, broker => broker.leave(group, other.memberId))
      expect((await waiting).generation).toBe(one.generation + 1)
      for (const cluster of [first, second]) cluster.close()
    })
  }
})
