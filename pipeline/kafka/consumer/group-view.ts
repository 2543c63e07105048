// A consumer group as its coordinator describes it, for a process that need not be a member: which partitions of the topics no member has.

import type { LogPartition } from '../../../transformers/log-partition.ts'
import { decodeAssignment } from './assignment.ts'
import type { ConnectBroker, DescribedMember } from './broker.ts'
import { openCluster } from './cluster.ts'
import { openTopics } from './topics.ts'

export interface GroupView {
  /**
   * The partitions in no member's assignment, and the members; undefined while the group rebalances. Partitions that were added since the last call are
   * left out: the leader of the group has not noticed them yet.
   *
   * @throws SystemicError, LogUnavailableError, and the errors of brokers
   */
  unassigned(): Promise<{ partitions: LogPartition[]; members: readonly DescribedMember[] } | undefined>
  close(): void
}

export interface GroupViewOptions {
  readonly brokers: readonly string[]
  readonly connectBroker: ConnectBroker
  /** By log. */
  readonly topics: readonly string[]
  readonly topicIds: readonly string[]
  readonly group: string
}

/** Connects on first use. */
export function openGroupView({ brokers, connectBroker, topics: names, topicIds, group }: GroupViewOptions): GroupView {
  const cluster = openCluster(brokers, connectBroker)
  const topics = openTopics(cluster, names, topicIds)
  let known: ReadonlySet<LogPartition> | undefined

  return {
    async unassigned() {
      const all = new Set((await topics.now()).leaders.keys())
      const before = known ?? all
      known = all
      const { state, members } = await cluster.atCoordinator(group, broker => broker.describe(group))
      if (state !== 'Stable') return undefined
      const assigned = new Set(members.flatMap(({ assignment }) => decodeAssignment(assignment, names)))
      return { partitions: [...before].filter(at => all.has(at) && !assigned.has(at)), members }
    },
    close: () => cluster.close(),
  }
}
