// The environment of writers in these tests: a broker and a store, both behind proxies, and places for writers.

import { setTimeout as wait } from 'node:timers/promises'
import { consumerGroup } from '../../pipeline/kafka/topic-patterns.ts'
import { type LogPartition, logOf, logPartition, partitionOf } from '../../transformers/log-partition.ts'
import { openTools, type Tools } from '../pipeline/kafka/consumer/source-parts.ts'
import { type Kafka, startKafka } from '../servers/kafka.ts'
import { type Environment, runSluice, startWriter, type WriterProcess } from './process.ts'
import { openRelationalSite, type RelationalSite, type RelationalSiteOptions } from './stores/relational.ts'
import type { StoredRow, StoreSite } from './stores/store-site.ts'

/** The name of the writers of a relational store. */
export const writerName = 'relational'

export interface Site<Store extends StoreSite = StoreSite> {
  /** The proxy to the broker is `kafka.proxy`. */
  readonly kafka: Kafka
  readonly store: Store
  /** The writers' name, which owns the store. */
  readonly writer: string
  /** Their consumer group. */
  readonly group: string
  /** The first of its topics. */
  readonly topic: string
  /** Sorted. A partition is given as a `LogPartition`: of the first topic its number. */
  readonly topics: readonly string[]
  readonly tools: Tools
  /** The running writers, by their place. */
  readonly writers: readonly (WriterProcess | undefined)[]
  /** Starts a writer in that place. If it ends unexpectedly, that is recorded in `unexpected`. */
  start(place: number): Promise<WriterProcess>
  /** Sends the signal to the writer in that place; resolves with its exit code or signal. */
  stop(place: number, signal?: NodeJS.Signals): Promise<number | string>
  /** Writers that ended unexpectedly, with their last output. */
  readonly unexpected: readonly string[]
  /** The ends of the log by partition. */
  logEnds(): Promise<Map<number, number>>
  /** By partition, where the writers resume, according to the store or to their group's commits. Empty before they have started. */
  positions(): Promise<ReadonlyMap<number, number>>
  /** Resolves when they have reached these positions; false if they do not advance for minutes. A busy machine only makes them slower. */
  untilStored(ends: ReadonlyMap<number, number>, msMax?: number): Promise<boolean>
  /** For tools: how to reach log and store directly, without the proxies. */
  readonly direct: Environment
  /** Every row of the store, message by message, with the topic's index as its log. */
  rows(): AsyncIterable<StoredRow>
  /** `sluice verify`, without the proxies. */
  verify(): Promise<{ code: number | string; printed: string }>
  close(): Promise<void>
}

export interface SiteOptions {
  /** Of the topic; with several numbers there is a topic for each, and the writers read all that match a pattern (InfluxDB: all by name). */
  readonly partitions?: number | readonly number[]
  readonly places?: number
  /** Where the release is that runs in each place; this one by default. Tools are of the last one. */
  readonly folders?: readonly (string | undefined)[]
  /** Whether each writer reads only one of the topics, in turn by place. All are in one group. */
  readonly isApart?: boolean
  /** Whether each writer is a static member with the name of its place (`log.instance`). */
  readonly isNamed?: boolean
  /** How messages of the topic are read: by writers and tools; as ingest writes them by default. */
  readonly layout?: Environment
  /** Of the writers. */
  readonly environment?: Environment
}

/** Shorter waits than by default, so that a test lasts seconds instead of a minute; time limits that a machine which pauses for seconds does not exceed. */
export const shortWaits: Environment = {
  SVC_LOG_CONNECT_TIMEOUT_MS: '10000',
  SVC_LOG_REQUEST_TIMEOUT_MS: '10000',
  SVC_LOG_APPEND_TIMEOUT_MS: '20000',
  SVC_CONSUMER_SESSION_MS: '10000',
  SVC_CONSUMER_REBALANCE_MS: '10000',
  SVC_CONSUMER_HEARTBEAT_MS: '300',
}

/** Without progress for so long, the writers are stuck: longer than all their time limits and waits in a row. */
export const stuckMs = 120_000

/** On a PostgreSQL server. */
export function openSite({ postgres, role, ...options }: SiteOptions & RelationalSiteOptions = {}): Promise<Site<RelationalSite>> {
  const storeOptions = { ...(postgres === undefined ? {} : { postgres }), ...(role === undefined ? {} : { role }) }
  return openSiteOn(() => openRelationalSite(storeOptions), options)
}

export async function openSiteOn<Store extends StoreSite>(
  openStore: () => Promise<Store>,
  { partitions = 12, places = 1, folders = [], isApart = false, isNamed = false, layout = {}, environment = {} }: SiteOptions = {},
): Promise<Site<Store>> {
  const [kafka, store] = await Promise.all([startKafka(), openStore()])
  const counts = [partitions].flat()
  const topics = counts.map((_, nth) => (nth === 0 ? 'messages' : `messages-${nth + 1}`))
  const [tools] = await Promise.all([
    openTools(kafka.brokers),
    ...topics.map((name, nth) => kafka.createTopic({ name, partitions: counts[nth]! })),
  ])
  const [topic] = topics as [string]
  const group = topics.length === 1 ? consumerGroup(store.name, topic, environment['SVC_LOG_GROUP']) : store.name
  // InfluxDB cannot number the topics of a pattern.
  const several: Environment =
    store.name === 'timeseries'
      ? { SVC_LOG_TOPICS: topics.join(), SVC_LOG_NUMBERS: topics.map((_, nth) => nth + 1).join() }
      : { SVC_LOG_TOPICS: `^${topic}` }
  const read: Environment = topics.length === 1 ? { SVC_LOG_TOPIC: topic } : { ...several, SVC_LOG_GROUP: group }
  const direct = { SVC_LOG_BROKERS: kafka.brokers.join(), ...read, ...layout, ...store.directEnvironment }
  const proxied: Environment = { ...direct, SVC_LOG_BROKERS: kafka.proxied.join(), ...environment, ...store.environment }

  const writers: (WriterProcess | undefined)[] = Array.from({ length: places }, () => undefined)
  const unexpected: string[] = []
  /** By partition of each topic. */
  async function inTopics(ask: (topic: string) => Promise<ReadonlyMap<number, number>>): Promise<Map<number, number>> {
    const found = await Promise.all(topics.map(ask))
    return new Map(found.flatMap((offsets, log) => [...offsets].map(([partition, offset]) => [logPartition(log, partition), offset])))
  }
  const endsOf = async (name: string): Promise<Map<number, number>> =>
    new Map((await tools.admin.fetchTopicOffsets(name)).map(({ partition, high }) => [partition, Number(high)]))
  const logEnds = (): Promise<Map<number, number>> => inTopics(endsOf)

  const site: Site<Store> = {
    kafka,
    store,
    writer: store.name,
    group,
    topic,
    topics,
    tools,
    direct,
    writers,
    unexpected,
    logEnds,
    async start(place) {
      const { SVC_LOG_TOPICS: _all, ...without } = proxied
      const writer = await startWriter(
        {
          ...(isApart ? { ...without, SVC_LOG_TOPIC: topics[place % topics.length]! } : proxied),
          ...(isNamed ? { SVC_LOG_INSTANCE: `place-${place}` } : {}),
        },
        store.name,
        folders[place],
      )
      writers[place] = writer
      void writer.ended.then(code => {
        if (writers[place] !== writer) return
        writers[place] = undefined
        unexpected.push(`a writer ended by itself (${code}): ${writer.printed().slice(-3000)}`)
      })
      return writer
    },
    async stop(place, signal = 'SIGTERM') {
      const writer = writers[place]
      writers[place] = undefined
      return (await writer?.stop(signal)) ?? 'nobody'
    },
    positions: () => store.positions?.() ?? inTopics(name => tools.committed(name, group)),
    async untilStored(ends, msMax = stuckMs) {
      let furthest = -1
      let advancedMs = performance.now()
      while (performance.now() < advancedMs + msMax) {
        // The server may be just coming back.
        const positions = await site.positions().catch(() => new Map<number, number>())
        if ([...ends].every(([partition, end]) => (positions.get(partition) ?? 0) >= end)) return true
        // What is beyond these positions does not count: one partition that stands still must not hide behind the others.
        const reached = [...ends].reduce((sum, [partition, end]) => sum + Math.min(positions.get(partition) ?? 0, end), 0)
        if (reached > furthest) {
          furthest = reached
          advancedMs = performance.now()
        }
        await wait(50)
      }
      return false
    },
    async *rows() {
      if (store.positions !== undefined) {
        yield* store.rows()
        return
      }
      const listed = await runSluice(['logs', store.name, '--json'], direct, folders.at(-1))
      const logs = new Map<number, number>()
      for (const line of listed.printed.trim().split('\n')) {
        const { number, log } = JSON.parse(line) as { number: number; log: string }
        if (topics.includes(log)) logs.set(number, topics.indexOf(log))
      }
      for await (const row of store.rows()) {
        const at = row.partition as LogPartition
        const log = logs.get(logOf(at))
        if (log === undefined) throw new Error(`a row of the log number ${logOf(at)}, which is none of a topic:\n${listed.printed}`)
        yield { ...row, partition: logPartition(log, partitionOf(at)) }
      }
    },
    verify: () => runSluice(['verify', store.name], direct, folders.at(-1)),
    async close() {
      await Promise.all(writers.map((_, place) => site.stop(place, 'SIGKILL')))
      await tools.close()
      await Promise.all([kafka.stop(), store.close()])
    },
  }
  return site
}

export function sumOf(positions: ReadonlyMap<number, number>): number {
  let sum = 0
  for (const offset of positions.values()) sum += offset
  return sum
}
