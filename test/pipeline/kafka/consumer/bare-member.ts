// A member of a consumer group that does what a test says and nothing by itself, so that the states of a group last.

import { onTestFinished } from 'vitest'
import { connectBrokers } from '../../../../pipeline/kafka/client/broker.ts'
import { encodeSubscription, protocolName } from '../../../../pipeline/kafka/consumer/assignment.ts'
import type { BrokerError, InGeneration, Joined } from '../../../../pipeline/kafka/consumer/broker.ts'
import { type Cluster, openCluster } from '../../../../pipeline/kafka/consumer/cluster.ts'
import { connectionTo } from './source-parts.ts'

export interface BareMember {
  readonly cluster: Cluster
  /** Resolves when the whole group has joined. */
  join(memberId?: string): Promise<Joined>
  sync(joined: Joined): Promise<unknown>
  /** Kafka's error code in the answer; 0 for none. */
  heartbeat(joined: Joined): Promise<number>
  leave(joined: Joined): Promise<void>
}

/** Neither ends during a test. */
export const [sessionMs, rebalanceMs] = [600_000, 600_000]

export function openBareMember(brokers: readonly string[], group: string, topic: string): BareMember {
  const cluster = openCluster(brokers, connectBrokers(connectionTo(brokers)))
  onTestFinished(() => cluster.close())
  const inGeneration = ({ memberId, generation }: Joined): InGeneration => ({ group, memberId, generation })
  return {
    cluster,
    join: (memberId = '') =>
      cluster.atCoordinator(group, broker =>
        broker.join({ group, memberId, sessionMs, rebalanceMs, protocol: protocolName, metadata: encodeSubscription([topic], []) }),
      ),
    sync: joined =>
      cluster.atCoordinator(group, broker =>
        broker.sync({ ...inGeneration(joined), protocol: protocolName, rebalanceMs, assignments: new Map() }),
      ),
    heartbeat: joined =>
      cluster
        .atCoordinator(group, broker => broker.heartbeat(inGeneration(joined)))
        .then(
          () => 0,
          (error: BrokerError) => error.apiCode,
        ),
    leave: ({ memberId }) => cluster.atCoordinator(group, broker => broker.leave({ group, memberId })),
  }
}

/** Joins a new group, as its only member. The first use of groups on a broker takes a while. */
export async function joinAlone(member: BareMember): Promise<Joined> {
  for (;;) {
    const joined = await member.join().catch(() => undefined)
    if (joined === undefined) continue
    await member.sync(joined)
    return joined
  }
}
