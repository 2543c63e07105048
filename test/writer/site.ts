// Where writers work in these tests: a broker and a store of their own, both reached through proxies, and places for writers.

import { setTimeout as wait } from 'node:timers/promises'
import { openTools, type Tools } from '../pipeline/kafka/source-parts.ts'
import { type Kafka, startKafka } from '../servers/kafka.ts'
import { type Environment, runSluice, startWriter, type WriterProcess } from './process.ts'
import { openRelationalSite, type RelationalSite, type RelationalSiteOptions } from './stores/relational.ts'
import type { StoreSite } from './stores/store-site.ts'

/** Of the writers of a relational store. */
export const writerName = 'relational'

export interface Site<Store extends StoreSite = StoreSite> {
  /** The proxy to the broker is `kafka.proxy`. */
  readonly kafka: Kafka
  readonly store: Store
  /** The writers' name: their group, and whom the store belongs to. */
  readonly writer: string
  readonly topic: string
  readonly tools: Tools
  /** Those that work, by their place. */
  readonly writers: readonly (WriterProcess | undefined)[]
  /** Starts a writer in that place. One that ends without being told is noted in `unexpected`. */
  start(place: number): Promise<WriterProcess>
  /** Sends the signal to the writer of that place; resolves with how it ended. */
  stop(place: number, signal?: NodeJS.Signals): Promise<number | string>
  /** What ended that should not have, with its last words. */
  readonly unexpected: readonly string[]
  /** Where the log ends, by partition. */
  logEnds(): Promise<Map<number, number>>
  /** By partition, where the writers go on: by the store, or by what their group has committed. Empty before they have begun. */
  positions(): Promise<ReadonlyMap<number, number>>
  /** Resolves when they have gone on to these positions; false where they have not in time. */
  untilStored(ends: ReadonlyMap<number, number>, msMax: number): Promise<boolean>
  /** `sluice verify`, not through the proxies. */
  verify(): Promise<{ code: number | string; printed: string }>
  close(): Promise<void>
}

export interface SiteOptions {
  readonly partitions?: number
  readonly places?: number
  /** Of the writers. */
  readonly environment?: Environment
}

/** Waits are shorter than by default, so that a test lasts seconds where an operator would wait a minute. */
export const shortWaits: Environment = {
  SVC_LOG_CONNECT_TIMEOUT_MS: '1000',
  SVC_LOG_REQUEST_TIMEOUT_MS: '2000',
  SVC_LOG_APPEND_TIMEOUT_MS: '4000',
  SVC_CONSUMER_SESSION_MS: '3000',
  SVC_CONSUMER_REBALANCE_MS: '5000',
  SVC_CONSUMER_HEARTBEAT_MS: '300',
}

/** On a PostgreSQL server. */
export function openSite({ postgres, role, ...options }: SiteOptions & RelationalSiteOptions = {}): Promise<Site<RelationalSite>> {
  const ofStore = { ...(postgres === undefined ? {} : { postgres }), ...(role === undefined ? {} : { role }) }
  return openSiteOn(() => openRelationalSite(ofStore), options)
}

export async function openSiteOn<Store extends StoreSite>(
  openStore: () => Promise<Store>,
  { partitions = 12, places = 1, environment = {} }: SiteOptions = {},
): Promise<Site<Store>> {
  const [kafka, store] = await Promise.all([startKafka(), openStore()])
  const [topic, tools] = await Promise.all([kafka.createTopic({ name: 'messages', partitions }), openTools(kafka.brokers)])
  const direct = { SVC_LOG_BROKERS: kafka.brokers.join(), SVC_LOG_TOPIC: topic, ...store.directEnvironment }
  const proxied = { ...direct, SVC_LOG_BROKERS: kafka.proxied.join(), ...environment, ...store.environment }

  const writers: (WriterProcess | undefined)[] = Array.from({ length: places }, () => undefined)
  const unexpected: string[] = []
  const logEnds = async (): Promise<Map<number, number>> =>
    new Map((await tools.admin.fetchTopicOffsets(topic)).map(({ partition, high }) => [partition, Number(high)]))

  const site: Site<Store> = {
    kafka,
    store,
    writer: store.name,
    topic,
    tools,
    writers,
    unexpected,
    logEnds,
    async start(place) {
      const writer = await startWriter(proxied, store.name)
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
    positions: () => store.positions?.() ?? tools.committed(topic, store.name),
    async untilStored(ends, msMax) {
      const untilMs = performance.now() + msMax
      while (performance.now() < untilMs) {
        // The server may be just coming back.
        const positions = await site.positions().catch(() => new Map<number, number>())
        if ([...ends].every(([partition, end]) => (positions.get(partition) ?? 0) >= end)) return true
        await wait(50)
      }
      return false
    },
    verify: () => runSluice(['verify', store.name], direct),
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
