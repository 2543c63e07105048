// What the leader of a consumer group does for it: assigns the partitions of the topics that the members subscribe to, as Kafka's own clients do,
// and notices when a topic has more.
//
// Members may subscribe to topics that this one does not read: of writers with other topics in the same group, or of other programs. Only their numbers
// of partitions are looked up.

import type { Logger } from '../../../config/logger.ts'
import { logOf } from '../../../transformers/log-partition.ts'
import { topicsText } from '../topic-patterns.ts'
import { assign, decodeSubscription, encodeAssignment, type Subscription } from './assignment.ts'
import type { GroupMember } from './broker.ts'
import type { Topics } from './topics.ts'

export interface Leadership {
  /**
   * The encoded assignment of each member.
   *
   * @throws SystemicError, LogUnavailableError: see `Topics.now`
   */
  assign(members: readonly GroupMember[]): Promise<ReadonlyMap<string, Buffer>>
  /** Whether a topic has more partitions than were assigned, or it is unknown which were. Throws as `assign`. */
  isOutdated(): Promise<boolean>
  /** The group keeps assignments that were made in an earlier membership. */
  forget(): void
}

/** Of topics that this member does not read: a member may claim any number. */
const othersMax = 1000

export function openLeadership(topics: Topics, group: string, logger: Logger): Leadership {
  /** The number of partitions of each topic that were assigned, and the other topics that were asked for. */
  let assigned: { readonly counts: ReadonlyMap<string, number>; readonly others: readonly string[] } | undefined
  let said = ''

  async function countsOf(others: readonly string[]): Promise<Map<string, number>> {
    const now = await topics.now(others)
    const counts = new Map(topics.names.map(name => [name, 0]))
    for (const at of now.leaders.keys()) {
      const name = topics.names[logOf(at)]!
      counts.set(name, counts.get(name)! + 1)
    }
    for (const [name, count] of now.others) counts.set(name, count)
    return counts
  }

  function say(sentences: readonly string[]): void {
    const text = sentences.join('; ')
    if (text !== '' && text !== said) logger.warn({ group }, text)
    said = text
  }

  return {
    async assign(members) {
      const subscriptions = members.map(decodeSubscription)
      const wanted = new Set(subscriptions.flatMap(({ topics: names }) => [...names]))
      for (const name of topics.names) wanted.delete(name)
      const others = [...wanted].sort().slice(0, othersMax)
      const counts = await countsOf(others)
      assigned = { counts, others }
      say(
        notAssigned(
          subscriptions,
          [...wanted].filter(name => !counts.has(name)),
        ),
      )
      return new Map([...assign(counts, subscriptions)].map(([memberId, partitions]) => [memberId, encodeAssignment(partitions)]))
    },

    async isOutdated() {
      if (assigned === undefined) return true
      const { counts, others } = assigned
      // A topic that is gone, or that a starting broker does not know yet, is no reason to interrupt the others.
      return [...(await countsOf(others))].some(([name, count]) => count > (counts.get(name) ?? 0))
    },

    forget() {
      assigned = undefined
    },
  }
}

function notAssigned(subscriptions: readonly Subscription[], missing: readonly string[]): string[] {
  const sentences: string[] = []
  if (missing.length > 0) {
    const [does, is] = missing.length === 1 ? ['does', 'it is'] : ['do', 'they are']
    sentences.push(
      `other members of the consumer group subscribe to ${topicsText(missing.toSorted())}, which ${does} not exist or may not be described by this user: ${is} assigned to no member`,
    )
  }
  const unreadable = subscriptions.filter(({ isUnreadable }) => isUnreadable).length
  if (unreadable > 0) {
    sentences.push(
      `${unreadable} ${unreadable === 1 ? 'member' : 'members'} of the consumer group sent a subscription that cannot be read, and get no partitions`,
    )
  }
  return sentences
}
