// A consumer group as its coordinator describes it, for a process that need not be a member: how far it is with the topics, and which of
// their partitions no member has.

import type { LogPartition } from '../../../transformers/log-partition.ts'
import type { GroupProgress } from '../../writer/lag.ts'
import { decodeAssignment } from './assignment.ts'
import type { ConnectBroker, DescribedMember } from './broker.ts'
import { openCluster } from './cluster.ts'
import { readCommitted } from './group.ts'
import { openTopics } from './topics.ts'

export interface GroupView {
  /**
   * How far the group is with the partitions that are not among the held ones, by its commits: the next offset, which is the first of the log
   * where nothing was committed, and the end of the log. Without those whose leader does not answer.
   *
   * @throws SystemicError, LogUnavailableError
   */
  progress(held: ReadonlySet<LogPartition>): Promise<ReadonlyMap<LogPartition, GroupProgress>>
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
    async progress(held) {
      const others = [...(await topics.now()).leaders.keys()].filter(at => !held.has(at))
      if (others.length === 0) return new Map()
      const committed = await readCommitted(cluster, topics, group, others)
      // After the commits: ends that were read before could be below them.
      const bounds = await topics.bounds(others)
      return new Map(Array.from(bounds, ([at, { start, end }]) => [at, { next: committed.get(at) ?? start, end }]))
    },

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
