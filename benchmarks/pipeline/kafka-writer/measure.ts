// The measured processes: Kafka's own consumer, one worker with a null sink, and the writer.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { openServer } from '../../../database/server.ts'
import type { Kafka } from '../../../test/servers/kafka.ts'
import type { Postgres } from '../../../test/servers/postgres.ts'
import { cpuSeconds, postgresCpuSeconds, residentMbMax } from '../../process-figures.ts'

const execute = promisify(execFile)
const here = new URL('.', import.meta.url).pathname
const root = new URL('../../..', import.meta.url).pathname

/** What `--advised` sets: the values of docs/stores/postgres.md. Otherwise the server has PostgreSQL's defaults, and fsync on. */
export const advisedSettings = { max_wal_size: '16GB', wal_compression: 'lz4', checkpoint_timeout: '30min' } as const

export interface Servers {
  readonly kafka: Kafka
  readonly postgres: Postgres
}

export interface Figures {
  readonly messagesPerSecond: number
  /** CPU time of the measured process for each message, in µs. */
  readonly cpuUs: number
  /** The most memory that it had. */
  readonly rssMb: number
}

export interface WriterFigures extends Figures {
  /** CPU time for each message, in µs, of all processes of the server. */
  readonly postgresCpuUs: number
  readonly kafkaCpuUs: number
}

/** A filled topic. */
export interface Load {
  readonly topic: string
  readonly messages: number
  readonly rows: number
}

/** Messages/s of Kafka's own consumer, which decodes nothing; without the time for joining the group. */
export async function consumerPerformance(kafka: Kafka, { topic, messages }: Load): Promise<number> {
  const printed = await kafka.tool('ConsumerPerformance', [
    '--bootstrap-server',
    kafka.brokers[0]!,
    '--topic',
    topic,
    '--num-records',
    String(messages),
    '--timeout',
    '60000',
    '--hide-header',
  ])
  return Number(printed.trim().split('\n').at(-1)!.split(',').at(-1))
}

export async function nullSink(kafka: Kafka, { topic, messages }: Load): Promise<Figures> {
  const { stdout } = await execute(process.execPath, [join(here, 'null-sink.ts'), kafka.brokers[0]!, topic, String(messages)])
  return JSON.parse(stdout) as Figures
}

export interface WriterSettings {
  readonly topic: string
  readonly group: string
  /** Worker threads; the writer's default if undefined. */
  readonly workers?: number | undefined
  /** Variables of the writer besides those of its servers. */
  readonly layout?: Readonly<Record<string, string>>
}

export interface RunningWriter {
  readonly pid: number
  /**
   * Messages that it has stored; 0 as long as it has not created its tables.
   *
   * @throws Error if it has ended, or if it received a message that it did not store
   */
  stored(): Promise<number>
  stop(): Promise<void>
}

/** Starts `./sluice writer relational` with default options. */
export async function startWriter(
  { kafka }: Servers,
  url: string,
  { topic, group, workers, layout = {} }: WriterSettings,
): Promise<RunningWriter> {
  const store = await openServer({ url, applicationName: 'benchmark', connectionsMax: 1 })
  const child = spawn(process.execPath, [join(root, 'main.ts'), 'writer', 'relational', '--port', '0'], {
    env: {
      ...process.env,
      ...layout,
      SVC_LOG_BROKERS: kafka.brokers[0]!,
      SVC_LOG_TOPIC: topic,
      SVC_LOG_GROUP: group,
      SVC_RELATIONAL_URL: url,
      ...(workers === undefined ? {} : { SVC_WORKERS_COUNT: String(workers) }),
      SVC_INTERNAL_LISTEN: '127.0.0.1:0',
      SVC_LOGGING_LEVEL: 'warn',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  let exited = false
  const exit = once(child, 'exit').then(() => void (exited = true))
  let hasTables = false
  return {
    pid: child.pid!,
    async stored() {
      if (exited) throw new Error(`the writer ended with code ${child.exitCode}: what it printed is above`)
      if (!hasTables) {
        const [found] = await store.query<{ there: boolean }>(`SELECT to_regclass('sluice.offsets') IS NOT NULL AS there`)
        if (found?.there !== true) return 0
        hasTables = true
      }
      // Duplicates are stored: a partition that goes to another worker is read again from its position.
      const [row] = await store.query<{ stored: number; other: number; counts: string }>(
        `SELECT coalesce(sum(stored), 0)::float8 AS stored, coalesce(sum(received - stored - duplicate), 0)::float8 AS other,
           concat_ws(', ', 'empty ' || sum(empty), 'filtered ' || sum(filtered), 'dead-lettered ' || sum(dead_lettered)) AS counts FROM sluice.offsets`,
      )
      if (row!.other > 0) throw new Error(`the writer received ${row!.other} messages that it did not store: ${row!.counts}`)
      return row!.stored
    },
    async stop() {
      child.kill('SIGTERM')
      await exit
      await store.close()
    },
  }
}

/** Runs the writer on a full topic, and measures from its first stored message to its last. */
export async function writer(
  servers: Servers,
  url: string,
  { topic, messages }: Load,
  settings: Omit<WriterSettings, 'topic'>,
): Promise<WriterFigures> {
  const running = await startWriter(servers, url, { topic, ...settings })
  const cpu = async (): Promise<[number, number, number]> => [
    await cpuSeconds(running.pid),
    await postgresCpuSeconds(servers.postgres.folder),
    await cpuSeconds(servers.kafka.pid),
  ]
  try {
    let first = 0
    while ((first = await running.stored()) === 0) await pause()
    const startedMs = performance.now()
    const started = await cpu()
    let last = first
    let atMs = startedMs
    while (last < messages) {
      await pause()
      last = await running.stored()
      atMs = performance.now()
    }
    const [cpuUs, postgresCpuUs, kafkaCpuUs] = (await cpu()).map((seconds, at) => ((seconds - started[at]!) * 1e6) / (last - first)) as [
      number,
      number,
      number,
    ]
    const rssMb = await residentMbMax(running.pid)
    return { messagesPerSecond: ((last - first) / (atMs - startedMs)) * 1000, cpuUs, postgresCpuUs, kafkaCpuUs, rssMb }
  } finally {
    await running.stop()
  }
}

/** Between two queries of the store, each of a row a partition. */
function pause(): Promise<void> {
  return wait(20)
}
