// What a member says to the coordinator of its group, and what is answered: joining, what it was given, and offsets.

import type { Positions } from '../../../sinks/sink.ts'
import { code } from '../failure.ts'
import { decodeAssignment, encodeAssignment, encodeSubscription, protocolName } from './assignment.ts'
import type { GroupMember, InGeneration } from './broker.ts'
import type { Cluster } from './cluster.ts'
import { codeOf, logFailure } from './failure.ts'
import type { Topic } from './topic.ts'

export interface Joining {
  readonly group: string
  readonly sessionMs: number
  readonly rebalanceMs: number
  /** Empty for a member that the group does not know yet. */
  readonly memberId: string
  /** The partitions that it has. */
  readonly owned: readonly number[]
  readonly onMemberId: (memberId: string) => void
}

export interface Joined {
  readonly memberId: string
  readonly generation: number
  /** It gives out the partitions, to these members. */
  readonly leads: boolean
  readonly members: readonly GroupMember[]
}

/** Answered when all members have joined. Throws what brokers throw. */
export async function joinGroup(cluster: Cluster, topic: Topic, joining: Joining): Promise<Joined> {
  const { owned, ...question } = joining
  const metadata = encodeSubscription(topic.name, owned)
  const answer = await cluster.atCoordinator(joining.group, broker => broker.join({ ...question, protocol: protocolName, metadata }))
  return { ...answer, leads: answer.leaderId === answer.memberId }
}

/**
 * The member's partitions, in order. Throws what brokers throw.
 *
 * @param given by member, from the one who gives them out; empty from any other
 */
export async function syncGroup(
  cluster: Cluster,
  topic: Topic,
  { given, ...member }: InGeneration & { readonly rebalanceMs: number; readonly given: ReadonlyMap<string, readonly number[]> },
): Promise<number[]> {
  const assignments = new Map([...given].map(([memberId, partitions]) => [memberId, encodeAssignment(topic.name, partitions)]))
  const assignment = await cluster.atCoordinator(member.group, broker => broker.sync({ ...member, protocol: protocolName, assignments }))
  return decodeAssignment(assignment, topic.name)
}

/**
 * What the group has committed of these partitions.
 *
 * @throws SystemicError, LogUnavailableError
 */
export async function readCommitted(cluster: Cluster, topic: Topic, group: string, partitions: readonly number[]): Promise<Positions> {
  if (partitions.length === 0) return new Map()
  try {
    return await cluster.atCommits(group, broker => broker.committed(group, topic.name, partitions))
  } catch (error) {
    followCoordinator(cluster, error)
    throw logFailure(error, `the offsets of the consumer group ${group} cannot be read`)
  }
}

/** Throws what brokers throw: what it means depends on what became of the share. */
export async function writeCommitted(cluster: Cluster, topic: Topic, member: InGeneration, positions: Positions): Promise<void> {
  try {
    await cluster.atCommits(member.group, broker => broker.commit(member, topic.name, positions))
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
