// The four measurements: Kafka's own consumer, one worker with a null sink, \copy of prepared rows, and the writer.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openServer } from '../../../database/server.ts'
import type { Kafka } from '../../../test/servers/kafka.ts'

const execute = promisify(execFile)
const here = new URL('.', import.meta.url).pathname
const root = new URL('../../..', import.meta.url).pathname

export interface Figures {
  readonly messagesPerSecond: number
  /** CPU time of the measured process for each message, in µs. */
  readonly cpuUs: number
  readonly rssMb: number
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

/** Rows/s of one connection into the table with its indexes, which is empty before and after. @param file the rows as text */
export async function copied(url: string, file: string, rows: number, table = 'public.messages'): Promise<number> {
  const operator = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
  try {
    await operator.execute(`TRUNCATE ${table}; CHECKPOINT`)
    const startedMs = performance.now()
    await execute('psql', [url, '-c', `\\copy ${table} FROM '${file}'`])
    const perSecond = (rows / (performance.now() - startedMs)) * 1000
    await operator.execute(`TRUNCATE ${table}; CHECKPOINT`)
    return perSecond
  } finally {
    await operator.close()
  }
}

/** CPU seconds of a process so far, in all its threads. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  return (fields[11]! + fields[12]!) / 100
}

/** The most memory that a process had so far. */
export async function residentMbMax(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024
}

/** Runs `./sluice writer relational` on a full topic, and measures from its first stored message to its last. */
export async function writer(
  kafka: Kafka,
  url: string,
  { topic, messages }: Load,
  { group, workers, layout = {} }: { group: string; workers: number; layout?: Readonly<Record<string, string>> },
): Promise<Figures> {
  const child = spawn(process.execPath, [join(root, 'main.ts'), 'writer', 'relational', '--port', '0'], {
    env: {
      ...process.env,
      ...layout,
      SVC_LOG_BROKERS: kafka.brokers[0]!,
      SVC_LOG_TOPIC: topic,
      SVC_LOG_GROUP: group,
      SVC_RELATIONAL_URL: url,
      SVC_WORKERS_COUNT: String(workers),
      SVC_INTERNAL_LISTEN: '127.0.0.1:0',
      SVC_LOGGING_LEVEL: 'warn',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  let exited = false
  const exit = once(child, 'exit').then(() => void (exited = true))
  const store = await openServer({ url, applicationName: 'benchmark', connectionsMax: 1 })
  const settled = async (): Promise<number> => {
    if (exited) throw new Error(`the writer ended with code ${child.exitCode}: what it printed is above`)
    const [row] = await store.query<{ settled: number }>(
      `SELECT coalesce(sum(stored), 0)::float8 AS settled FROM sluice.offsets WHERE writer = $1`,
      [group],
    )
    return row?.settled ?? 0
  }
  /** The table does not exist until the writer has created it. */
  const settledYet = (): Promise<number> =>
    settled().catch((error: unknown) => {
      if (exited) throw error
      return 0
    })
  try {
    let first = 0
    while ((first = await settledYet()) === 0) await pause()
    const startedMs = performance.now()
    const startedCpu = await cpuSeconds(child.pid!)
    let last = first
    let atMs = startedMs
    while (last < messages) {
      await pause()
      last = await settled()
      atMs = performance.now()
    }
    const cpu = (await cpuSeconds(child.pid!)) - startedCpu
    const rssMb = await residentMbMax(child.pid!)
    return { messagesPerSecond: ((last - first) / (atMs - startedMs)) * 1000, cpuUs: (cpu * 1e6) / (last - first), rssMb }
  } finally {
    child.kill('SIGTERM')
    await exit
    await store.close()
  }
}

/** Between two queries of the store, each of 12 rows. */
function pause(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, 20))
}
