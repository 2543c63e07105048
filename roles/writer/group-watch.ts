// Watches the consumer group of a writer from its main thread, which sees all of its workers: how far the group is behind in the partitions
// that none of them has; and whether a topic of which they have no partition has some that no member has. Then the group is usually led by
// another program, which assigns only its own topics.

import type { Registry } from 'prom-client'
import type { Logger } from '../../config/logger.ts'
import { named } from '../../config/options/variable.ts'
import { factOf } from '../../config/outage.ts'
import { connectBrokers } from '../../pipeline/kafka/client/broker.ts'
import type { KafkaConnection } from '../../pipeline/kafka/connection.ts'
import type { DescribedMember } from '../../pipeline/kafka/consumer/broker.ts'
import { openGroupView } from '../../pipeline/kafka/consumer/group-view.ts'
import type { Topic } from '../../pipeline/kafka/topics.ts'
import { openCommittedLag, type PartitionLag } from '../../pipeline/writer/lag.ts'
import { groupMetrics } from '../../pipeline/writer/metrics.ts'
import type { WorkerPool } from '../../pipeline/writer/workers/pool.ts'
import { type LogPartition, logOf, partitionOf } from '../../transformers/log-partition.ts'

export interface GroupWatch {
  /** Whether the topics have partitions that no member has. */
  isUnread(): boolean
  close(): void
}

export interface GroupWatchOptions {
  readonly connection: KafkaConnection
  /** By log. */
  readonly topics: readonly Pick<Topic, 'name' | 'id'>[]
  readonly group: string
  /** The writer's name. */
  readonly name: string
  readonly pool: Pick<WorkerPool, 'state' | 'held'>
  readonly metadataMs: number
  readonly registry: Registry
  readonly logger: Logger
}

const lookMs = 1000
/** As often as workers ask for the ends of their partitions. */
const askMs = 5000

/**
 * The group is described when the workers have no partition of a topic, and then every `metadataMs`. More workers than partitions are normal, and
 * nothing is said of them.
 */
export function openGroupWatch({ connection, topics, group, name, pool, metadataMs, registry, logger }: GroupWatchOptions): GroupWatch {
  const names = topics.map(topic => topic.name)
  const view = openGroupView({
    brokers: connection.brokers,
    connectBroker: connectBrokers(connection),
    topics: names,
    topicIds: topics.map(({ id }) => id),
    group,
  })
  const metrics = groupMetrics(registry, name, names)
  const lagOf = openCommittedLag()
  let lags: ReadonlyMap<LogPartition, PartitionLag> = new Map()
  let askedMs = Number.NEGATIVE_INFINITY
  let absent = ''
  let describedMs = Number.NEGATIVE_INFINITY
  let isLooking = false
  let said: string | undefined

  async function look(): Promise<void> {
    await Promise.all([askProgress(), askMembers()].map(asked => asked.catch(sayUnknown)))
  }

  // The workers have the same outage, and log it.
  function sayUnknown(error: unknown): void {
    logger.debug({ reason: factOf(error), group }, 'the state of the consumer group is unknown')
  }

  async function askProgress(): Promise<void> {
    if (performance.now() - askedMs < askMs) return
    askedMs = performance.now()
    lags = lagOf(await view.progress(pool.held()))
  }

  /** Workers report their own partitions. */
  function reportLags(): void {
    const held = pool.held()
    metrics.lagging(new Map([...lags].filter(([at]) => !held.has(at))))
  }

  async function askMembers(): Promise<void> {
    // Before, workers may not be members yet.
    if (pool.state() !== 'running') return
    const logs = new Set(Array.from(pool.held(), logOf))
    const without = names.filter((_, log) => !logs.has(log)).join()
    const isDue = without !== absent || performance.now() - describedMs >= metadataMs
    absent = without
    if (without === '') return say(undefined, [])
    if (!isDue) return
    describedMs = performance.now()
    const found = await view.unassigned()
    if (found === undefined) {
      // The group rebalances: the next look asks again.
      describedMs = Number.NEGATIVE_INFINITY
      return
    }
    const unread = found.partitions.filter(at => !logs.has(logOf(at)))
    say(unread.length === 0 ? undefined : sentenceOf(unread, found.members), unread)
  }

  function say(sentence: string | undefined, unread: readonly LogPartition[]): void {
    const counts = names.map(() => 0)
    for (const at of unread) counts[logOf(at)]!++
    metrics.unassigned(counts)
    if (sentence === undefined && said !== undefined)
      logger.info({ group }, 'every partition of the topics has a member of the consumer group again')
    if (sentence !== undefined && said === undefined) logger.warn({ group }, sentence)
    said = sentence
  }

  function sentenceOf(unread: readonly LogPartition[], members: readonly DescribedMember[]): string {
    const byTopic = [...Map.groupBy(unread, logOf)].map(([log, own]) => `${numbersText(own.map(partitionOf))} of the topic ${names[log]}`)
    const others = new Set(members.map(({ clientId, host }) => `${clientId} at ${host.replace(/^\//, '')}`))
    return `no member of the consumer group ${group} has ${listText(byTopic)}, so their messages are not stored: the member that leads the group is another program, or may not describe the topic (the members are ${listText([...others])}); give this writer a name of its own in ${named('log.group')}`
  }

  const looking = setInterval(() => {
    reportLags()
    if (isLooking) return
    isLooking = true
    void look().finally(() => (isLooking = false))
  }, lookMs)

  return {
    isUnread: () => said !== undefined,
    close() {
      clearInterval(looking)
      metrics.lagging(new Map())
      view.close()
    },
  }
}

const listedMax = 5

function listText(items: readonly string[]): string {
  const more = items.length - listedMax
  return `${items.slice(0, listedMax).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

function numbersText(partitions: readonly number[]): string {
  return partitions.length === 1 ? `the partition ${partitions[0]}` : `the partitions ${listText(partitions.map(String))}`
}
