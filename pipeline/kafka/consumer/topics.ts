// Queries the topics: leaders and offsets of their partitions, and whether they are still the same topics.

import { setTimeout as wait } from 'node:timers/promises'
import { named } from '../../../config/options/variable.ts'
import type { Positions } from '../../../sinks/sink.ts'
import { type LogPartition, logOf, logPartition, partitionOf } from '../../../transformers/log-partition.ts'
import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { waitBefore } from '../../writer/retry.ts'
import { code } from '../failure.ts'
import { topicsText } from '../topic-patterns.ts'
import { type Bounds, checkPartitions } from '../topics.ts'
import { noLeader, OffsetAt, type TopicMetadata } from './broker.ts'
import type { Cluster } from './cluster.ts'
import { codeOf, logFailure, settle } from './failure.ts'

/** The partitions of all topics. */
export interface TopicsMetadata {
  /** By log. */
  readonly ids: readonly string[]
  /** The leader of each partition, by log and partition; it may be `noLeader`. */
  readonly leaders: ReadonlyMap<LogPartition, number>
  /** The number of partitions of each other topic that was asked for; without those that do not exist or may not be described. */
  readonly others: ReadonlyMap<string, number>
}

export interface Topics {
  /** By log. */
  readonly names: readonly string[]
  /** For messages: `the topic messages`. */
  readonly text: string
  /**
   * Asks a broker for the metadata.
   *
   * @param others further topics, which are not checked
   * @throws SystemicError if one is missing, was recreated, access is denied, or it has more partitions than a position can represent
   * @throws LogUnavailableError if no broker can answer
   */
  now(others?: readonly string[]): Promise<TopicsMetadata>
  /**
   * The first offset that each partition still has, and the offset of its next message, for partitions whose leaders answer. A partition
   * may have no leader, or be so new that the broker does not know it.
   *
   * @throws LogUnavailableError if no leader answers; else as `now`
   */
  bounds(partitions: readonly LogPartition[]): Promise<ReadonlyMap<LogPartition, Bounds>>
  /** Only the ends, in one query. Throws as `bounds`. */
  ends(partitions: readonly LogPartition[]): Promise<Positions>
}

/** A new topic is not known to every broker immediately, and a starting broker knows none: a topic is missing only if all answers say so for this long. */
const missingMsMax = 5000
/** How long a partition may take to move to another leader before the log counts as away. */
const movingMsMax = 2000
const moving: ReadonlySet<number | undefined> = new Set([
  code.notLeader,
  code.leaderNotAvailable,
  code.replicaNotAvailable,
  code.unknownTopic,
])
const backOff = { waitMsMin: 20, waitMsMax: 500 }

/**
 * @param names by log
 * @param meantIds the ids that the topics must have; by default those of the first topics seen under the names
 */
export function openTopics(cluster: Cluster, names: readonly string[], meantIds: readonly string[] | undefined): Topics {
  const ids: (string | undefined)[] = names.map((_, log) => (meantIds === undefined ? undefined : normalized(meantIds[log]!)))
  const missingSinceMs: (number | undefined)[] = names.map(() => undefined)
  const text = topicsText(names)

  async function now(others: readonly string[] = []): Promise<TopicsMetadata> {
    let found: readonly TopicMetadata[]
    try {
      found = (await cluster.metadata([...names, ...others])).topics
    } catch (error) {
      missingSinceMs.fill(undefined)
      throw logFailure(error, `${text} cannot be looked up`)
    }
    const topics = found.slice(0, names.length)
    const leaders = new Map<LogPartition, number>()
    for (const [log, topic] of topics.entries()) {
      check(log, topic)
      for (const { partition, leader } of topic.partitions) leaders.set(logPartition(log, partition), leader)
    }
    const counts = others.map((name, nth) => [name, found[names.length + nth]!.partitions.length] as const)
    return { ids: topics.map(({ id }) => id), leaders, others: new Map(counts.filter(([, count]) => count > 0)) }
  }

  function check(log: number, topic: TopicMetadata): void {
    const name = names[log]!
    if (topic.error === code.unknownTopic) throw missing(log)
    missingSinceMs[log] = undefined
    if (topic.error === code.topicAuthorization)
      throw new SystemicError(`this user is not authorized to read the topic ${name}: grant it the rights to read and describe it`)
    // Only its leader is being elected: the metadata is valid.
    if (topic.id === '' || topic.partitions.length === 0)
      throw new LogUnavailableError(`the topic ${name} is not ready (error ${topic.error})`)
    checkPartitions(name, topic.partitions.length)
    ids[log] ??= normalized(topic.id)
    if (normalized(topic.id) !== ids[log]) throw madeAnew(log, topic.id)
  }

  function missing(log: number): Error {
    missingSinceMs[log] ??= performance.now()
    return performance.now() - missingSinceMs[log] < missingMsMax
      ? new LogUnavailableError(`the topic ${names[log]} does not exist yet`)
      : new SystemicError(`the topic ${names[log]} does not exist: create it, or correct ${named('log.topic')}`)
  }

  function madeAnew(log: number, found: string): SystemicError {
    return new SystemicError(
      `the topic ${names[log]} was recreated: its id is ${found}, and the messages so far came from the id ${meantIds?.[log] ?? ids[log]}. Start once with --accept-new-log ${found} to continue with the new topic`,
    )
  }

  /** Throws the errors of brokers if no leader of the partitions answers. */
  async function askLeaders<Found>(
    partitions: readonly LogPartition[],
    askLeader: (leader: number, led: readonly LogPartition[]) => Promise<Iterable<readonly [LogPartition, Found]>>,
  ): Promise<Map<LogPartition, Found>> {
    const { leaders } = await now()
    const byLeader = Map.groupBy(partitions, at => leaders.get(at) ?? noLeader)
    const { values, failure } = await settle([...byLeader].map(([leader, led]) => askLeader(leader, led)))
    if (values.length === 0 && failure !== undefined) throw failure
    return new Map(values.flatMap(found => [...found]))
  }

  async function boundsAt(leader: number, led: readonly LogPartition[]): Promise<[LogPartition, Bounds][]> {
    // The start first: if it were read after the end, it could be above it.
    const starts = await offsetsAt(leader, led, OffsetAt.start)
    const ends = await offsetsAt(leader, led, OffsetAt.end)
    return led.map(at => [at, { start: starts.get(at)!, end: ends.get(at)! }])
  }

  async function offsetsAt(
    leader: number,
    led: readonly LogPartition[],
    when: (typeof OffsetAt)[keyof typeof OffsetAt],
  ): Promise<Positions> {
    if (leader === noLeader) throw new LogUnavailableError(`${partitionsText(led, names)} have no leader`)
    return await cluster.atLeader(leader, broker => broker.offsets(names, led, when))
  }

  return {
    names,
    text,
    now,
    async ends(partitions) {
      try {
        return await askLeaders(partitions, (leader, led) => offsetsAt(leader, led, OffsetAt.end))
      } catch (error) {
        throw logFailure(error, `the ends of ${text} cannot be read`)
      }
    },
    async bounds(partitions) {
      const untilMs = performance.now() + movingMsMax
      for (let failures = 1; ; failures++) {
        try {
          return await askLeaders(partitions, boundsAt)
        } catch (error) {
          if (!moving.has(codeOf(error)) || performance.now() > untilMs) throw logFailure(error, `the offsets of ${text} cannot be read`)
        }
        await wait(waitBefore(failures, backOff))
      }
    },
  }
}

function normalized(id: string): string {
  return id.replaceAll('-', '').toLowerCase()
}

/** `the partitions 0, 2 of the topic plant`; those of several topics are joined by `and`. */
export function partitionsText(partitions: readonly LogPartition[], names: readonly string[]): string {
  const byTopic = [...Map.groupBy(partitions, logOf)]
  return `the partitions ${byTopic.map(([log, own]) => `${own.map(partitionOf).join(', ')} of the topic ${names[log]}`).join(' and ')}`
}
