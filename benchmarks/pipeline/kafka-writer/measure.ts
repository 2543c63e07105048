// What is measured, each once: Kafka's own consumer, one worker into a null sink, \copy of ready rows, and the writer.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openServer } from '../../../config/postgres/server.ts'
import type { Kafka } from '../../../test/servers/kafka.ts'

const execute = promisify(execFile)
const here = new URL('.', import.meta.url).pathname
const root = new URL('../../..', import.meta.url).pathname

export interface Figures {
  readonly messagesPerSecond: number
  /** Of the process that is measured, µs a message. */
  readonly cpuUs: number
  readonly rssMb: number
}

/** A topic that holds so many messages. */
export interface Load {
  readonly topic: string
  readonly messages: number
  readonly rows: number
}

/** What Kafka's own consumer reads a second, which decodes nothing, its joining of the group left out. */
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

/** Rows a second of one connection into the table with its index, which is empty before and after. @param file of the rows, as text */
export async function copied(url: string, file: string, rows: number): Promise<number> {
  const operator = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
  try {
    await operator.execute('TRUNCATE public.messages; CHECKPOINT')
    const startedMs = performance.now()
    await execute('psql', [url, '-c', `\\copy public.messages FROM '${file}'`])
    const perSecond = (rows / (performance.now() - startedMs)) * 1000
    await operator.execute('TRUNCATE public.messages; CHECKPOINT')
    return perSecond
  } finally {
    await operator.close()
  }
}

/** CPU seconds of a process so far, all its threads. */
async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  return (fields[11]! + fields[12]!) / 100
}

/** `sluice writer relational` on a topic that is full, from its first stored message to its last. */
export async function writer(
  kafka: Kafka,
  url: string,
  { topic, messages }: Load,
  { group, workers }: { group: string; workers: number },
): Promise<Figures> {
  const child = spawn(process.execPath, [join(root, 'main.ts'), 'writer', 'relational', '--port', '0'], {
    env: {
      ...process.env,
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
  /** Before the writer has made it there is no table. */
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
    const status = await readFile(`/proc/${child.pid!}/status`, 'utf8')
    const rssMb = Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024
    return { messagesPerSecond: ((last - first) / (atMs - startedMs)) * 1000, cpuUs: (cpu * 1e6) / (last - first), rssMb }
  } finally {
    child.kill('SIGTERM')
    await exit
    await store.close()
  }
}

/** How often the store is asked: a query of 12 rows. */
function pause(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, 20))
}
