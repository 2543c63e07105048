// Requests of a member to its group's coordinator: join, sync, and committed offsets.

import type { Positions } from '../../../sinks/sink.ts'
import type { LogPartition } from '../../../transformers/log-partition.ts'
import { code } from '../failure.ts'
import { decodeAssignment, encodeSubscription, protocolName } from './assignment.ts'
import type { GroupMember, InGeneration, SyncRequest } from './broker.ts'
import type { Cluster } from './cluster.ts'
import { codeOf, logFailure } from './failure.ts'
import type { Topics } from './topics.ts'

export interface Joining {
  readonly group: string
  readonly instance?: string | undefined
  readonly sessionMs: number
  readonly rebalanceMs: number
  /** Empty for a new member. */
  readonly memberId: string
  /** The partitions that it currently has. */
  readonly owned: readonly LogPartition[]
  readonly onMemberId: (memberId: string) => void
}

export interface Joined {
  readonly memberId: string
  readonly generation: number
  /** Whether it leads, and so assigns the partitions to the members. */
  readonly leads: boolean
  /** It leads, but the group keeps its assignments. */
  readonly skipsAssignment?: boolean
  readonly members: readonly GroupMember[]
}

/** Resolves when all members have joined. Throws the errors of brokers. */
export async function joinGroup(cluster: Cluster, topics: Topics, joining: Joining): Promise<Joined> {
  const { owned, ...request } = joining
  const metadata = encodeSubscription(topics.names, owned)
  const answer = await cluster.atCoordinator(joining.group, broker => broker.join({ ...request, protocol: protocolName, metadata }))
  return { ...answer, leads: answer.leaderId === answer.memberId }
}

/**
 * The member's partitions, in order. Throws the errors of brokers.
 *
 * @param assignments by member, from the leader; empty for other members
 */
export async function syncGroup(cluster: Cluster, topics: Topics, member: Omit<SyncRequest, 'protocol'>): Promise<LogPartition[]> {
  const assignment = await cluster.atCoordinator(member.group, broker => broker.sync({ ...member, protocol: protocolName }))
  return decodeAssignment(assignment, topics.names)
}

/**
 * The group's committed offsets of these partitions.
 *
 * @throws SystemicError, LogUnavailableError
 */
export async function readCommitted(
  cluster: Cluster,
  topics: Topics,
  group: string,
  partitions: readonly LogPartition[],
): Promise<Positions> {
  if (partitions.length === 0) return new Map()
  try {
    return await cluster.atCommits(group, broker => broker.committed(group, topics.names, partitions))
  } catch (error) {
    followCoordinator(cluster, error)
    throw logFailure(error, `the offsets of the consumer group ${group} cannot be read`)
  }
}

/** Throws the errors of brokers, which the caller interprets depending on the share. */
export async function writeCommitted(cluster: Cluster, topics: Topics, member: InGeneration, positions: Positions): Promise<void> {
  try {
    await cluster.atCommits(member.group, broker => broker.commit(member, topics.names, positions))
  } catch (error) {
    followCoordinator(cluster, error)
    throw error
  }
}

const coordinatorMoved: ReadonlySet<number | undefined> = new Set([
  code.notCoordinator,
  code.coordinatorNotAvailable,
  code.coordinatorLoading,
])

function followCoordinator(cluster: Cluster, error: unknown): void {
  if (coordinatorMoved.has(codeOf(error))) cluster.forgetCoordinator()
}
