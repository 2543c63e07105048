// Where writers work in these tests: a broker and a PostgreSQL server of their own, both reached through proxies, and places for writers.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openTools, type Tools } from '../pipeline/kafka/source-parts.ts'
import { type Kafka, startKafka } from '../servers/kafka.ts'
import { type Postgres, type PostgresOptions, startPostgres } from '../servers/postgres.ts'
import { openProxy, type Proxy } from '../servers/proxy.ts'
import { type Environment, runSluice, startWriter, type WriterProcess } from './process.ts'
import { openStoreView, type StoreView } from './store.ts'

export const writerName = 'relational'

export interface Site {
  readonly kafka: Kafka
  readonly postgres: Postgres
  /** Between writers and PostgreSQL. That to the broker is `kafka.proxy`. */
  readonly storeProxy: Proxy
  /** The database, not through the proxy. */
  readonly storeUrl: string
  readonly store: StoreView
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
  /** Resolves when the store has gone on to these positions; false where it has not in time. */
  untilStored(ends: ReadonlyMap<number, number>, msMax: number): Promise<boolean>
  /** `sluice verify relational`, not through the proxies. */
  verify(): Promise<{ code: number | string; printed: string }>
  close(): Promise<void>
}

export interface SiteOptions {
  readonly partitions?: number
  readonly places?: number
  /** Of the writers. */
  readonly environment?: Environment
  readonly postgres?: PostgresOptions
  /** The writers come as this role, which owns the database and needs its password; as superuser if not given. */
  readonly role?: { readonly name: string; readonly password: string }
}

/** Waits are shorter than by default, so that a test lasts seconds where an operator would wait a minute. */
export const shortWaits: Environment = {
  SVC_LOG_CONNECT_TIMEOUT_MS: '1000',
  SVC_LOG_REQUEST_TIMEOUT_MS: '2000',
  SVC_LOG_APPEND_TIMEOUT_MS: '4000',
  SVC_CONSUMER_SESSION_MS: '3000',
  SVC_CONSUMER_REBALANCE_MS: '5000',
  SVC_CONSUMER_HEARTBEAT_MS: '300',
  SVC_STORE_STATEMENT_TIMEOUT_MS: '2000',
  SVC_STORE_LOCK_TIMEOUT_MS: '1000',
}

export async function openSite({
  partitions = 12,
  places = 1,
  environment = {},
  postgres: options,
  role,
}: SiteOptions = {}): Promise<Site> {
  const [kafka, postgres] = await Promise.all([startKafka(), startPostgres(options)])
  const [topic, storeUrl, tools] = await Promise.all([
    kafka.createTopic({ name: 'messages', partitions }),
    postgres.createDatabase(),
    openTools(kafka.brokers),
  ])
  const storeProxy = await openProxy({ port: Number(new URL(storeUrl).port) })
  const store = await openStoreView(storeUrl)
  const proxiedUrl = new URL(storeUrl)
  proxiedUrl.port = String(storeProxy.port)
  if (role !== undefined) {
    await admit(postgres, store, role, new URL(storeUrl).pathname.slice(1))
    proxiedUrl.username = role.name
    proxiedUrl.password = role.password
  }
  const direct = { SVC_LOG_BROKERS: kafka.brokers.join(), SVC_LOG_TOPIC: topic, SVC_RELATIONAL_URL: storeUrl }
  const proxied = { ...direct, SVC_LOG_BROKERS: kafka.proxied.join(), SVC_RELATIONAL_URL: proxiedUrl.href, ...environment }

  const writers: (WriterProcess | undefined)[] = Array.from({ length: places }, () => undefined)
  const unexpected: string[] = []
  const logEnds = async (): Promise<Map<number, number>> =>
    new Map((await tools.admin.fetchTopicOffsets(topic)).map(({ partition, high }) => [partition, Number(high)]))

  const site: Site = {
    kafka,
    postgres,
    storeProxy,
    storeUrl,
    store,
    topic,
    tools,
    writers,
    unexpected,
    logEnds,
    async start(place) {
      const writer = await startWriter(proxied)
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
    async untilStored(ends, msMax) {
      const untilMs = performance.now() + msMax
      while (performance.now() < untilMs) {
        // The server may be just coming back.
        const positions = await store.positions().catch(() => new Map<number, number>())
        if ([...ends].every(([partition, end]) => (positions.get(partition) ?? 0) >= end)) return true
        await wait(50)
      }
      return false
    },
    verify: () => runSluice(['verify', 'relational'], direct),
    async close() {
      await Promise.all(writers.map((_, place) => site.stop(place, 'SIGKILL')))
      await Promise.all([tools.close(), storeProxy.close()])
      await Promise.all([kafka.stop(), postgres.stop()])
    },
  }
  return site
}

async function admit(
  postgres: Postgres,
  store: StoreView,
  { name, password }: { name: string; password: string },
  database: string,
): Promise<void> {
  await store.query(
    `CREATE ROLE ${name} LOGIN PASSWORD '${password}'; ALTER DATABASE ${database} OWNER TO ${name}; GRANT ALL ON SCHEMA public TO ${name}`,
  )
  const rules = join(postgres.folder, 'data', 'pg_hba.conf')
  // The first rule that fits is the one that counts.
  await writeFile(rules, `host all ${name} all scram-sha-256\n${await readFile(rules, 'utf8')}`)
  await store.query('SELECT pg_reload_conf()')
}
