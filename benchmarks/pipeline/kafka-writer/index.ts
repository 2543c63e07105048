// A writer from Kafka into PostgreSQL, each message once, beside what the machine can do at most: `npm run bench -- kafka-writer`.
//
// Raw limits and the writer are measured in turns on one machine in one run, all on the same messages and rows: Kafka's own
// ConsumerPerformance, which decodes nothing; psql's \copy of ready rows over one connection into the same table with its index.
//
// node benchmarks/pipeline/kafka-writer/index.ts [--messages 1000000] [--turns 3] [--workers 2]

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { openServer } from '../../../config/postgres/server.ts'
import { type Kafka, startKafka } from '../../../test/servers/kafka.ts'
import { startPostgres } from '../../../test/servers/postgres.ts'
import { median } from '../../median-time.ts'
import { fill } from './load.ts'

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '1000000' },
    turns: { type: 'string', default: '3' },
    workers: { type: 'string', default: '2' },
    fsync: { type: 'boolean', default: false },
  },
})
const messages = Number(values.messages)
const turns = Number(values.turns)
const execute = promisify(execFile)
const here = new URL('.', import.meta.url).pathname
const root = new URL('../../..', import.meta.url).pathname

interface Figures {
  readonly perSecond: number
  /** Of the process that is measured, µs a message. */
  readonly cpuUs: number
  readonly rssMb: number
}

/** What Kafka's own consumer reads a second, its joining of the group left out. */
async function consumerPerformance(kafka: Kafka, topic: string): Promise<number> {
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
  const figures = printed
    .trim()
    .split('\n')
    .at(-1)!
    .split(',')
    .map(text => text.trim())
  return Number(figures.at(-1))
}

async function nullSink(kafka: Kafka, topic: string): Promise<Figures> {
  const { stdout } = await execute(process.execPath, [join(here, 'null-sink.ts'), kafka.brokers[0]!, topic, String(messages)])
  return JSON.parse(stdout) as Figures
}

async function copied(url: string, file: string): Promise<number> {
  const startedMs = performance.now()
  await execute('psql', [url, '-c', `\\copy public.messages FROM '${file}'`])
  return performance.now() - startedMs
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
async function writer(kafka: Kafka, url: string, topic: string, group: string): Promise<Figures> {
  const child = spawn(process.execPath, [join(root, 'main.ts'), 'writer', 'relational', '--port', '0'], {
    env: {
      ...process.env,
      SVC_LOG_BROKERS: kafka.brokers[0]!,
      SVC_LOG_TOPIC: topic,
      SVC_LOG_GROUP: group,
      SVC_RELATIONAL_URL: url,
      SVC_WORKERS_COUNT: values.workers,
      SVC_LOGGING_LEVEL: 'warn',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const store = await openServer({ url, applicationName: 'benchmark', connectionsMax: 1 })
  const settled = async (): Promise<number> => {
    const [row] = await store.query<{ settled: number }>(
      `SELECT coalesce(sum(stored), 0)::float8 AS settled FROM sluice.offsets WHERE writer = $1`,
      [group],
    )
    return row?.settled ?? 0
  }
  let first = 0
  while ((first = await settled().catch(() => 0)) === 0) await pause()
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
  child.kill('SIGTERM')
  await once(child, 'exit')
  await store.close()
  return { perSecond: ((last - first) / (atMs - startedMs)) * 1000, cpuUs: (cpu * 1e6) / (last - first), rssMb }
}

/** How often the store is asked: a query of 12 rows. */
function pause(): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, 20))
}

function line(what: string, perSecond: string, ratio: string, asked: string, cpu = '', rss = ''): void {
  console.log(what.padEnd(56) + perSecond.padStart(12) + ratio.padStart(8) + asked.padStart(10) + cpu.padStart(10) + rss.padStart(9))
}

const whole = (figure: number): string => Math.round(figure).toLocaleString('en')
const middle = (figures: readonly number[]): number => median(figures)

const kafka = await startKafka({ tuning: 'load' })
const postgres = await startPostgres({ fsync: values.fsync })
const file = join(tmpdir(), `sluice-benchmark-${process.pid}.copy`)
try {
  await fill(kafka.brokers, 'single', messages, 1)

  const rounds: { consumer: number; nothing: Figures; copy: number; writer: Figures }[] = []
  for (let turn = 0; turn < turns; turn++) {
    // A store belongs to one writer, so each turn has its own; \copy then takes the rows that the writer stored.
    const url = await postgres.createDatabase()
    const figures = await writer(kafka, url, 'single', `turn-${turn}`)
    await execute('psql', [url, '-c', `\\copy (SELECT * FROM public.messages) TO '${file}'`])
    const operator = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
    await operator.execute('TRUNCATE public.messages; CHECKPOINT')
    const copyMs = await copied(url, file)
    await operator.execute('TRUNCATE public.messages; CHECKPOINT')
    await operator.close()
    rounds.push({
      writer: figures,
      copy: (messages / copyMs) * 1000,
      consumer: await consumerPerformance(kafka, 'single'),
      nothing: await nullSink(kafka, 'single'),
    })
  }

  console.log(`${whole(messages)} messages of one record, medians of ${turns} turns, fsync ${values.fsync ? 'on' : 'off'}\n`)
  line('', 'messages/s', 'ratio', 'asked', 'CPU µs', 'MB')
  line("Kafka's ConsumerPerformance", whole(middle(rounds.map(round => round.consumer))), '', '')
  const nothing = (figure: (figures: Figures) => number): number => middle(rounds.map(round => figure(round.nothing)))
  const nothingRatio = middle(rounds.map(round => round.nothing.perSecond / round.consumer))
  line(
    'one worker into a null sink',
    whole(nothing(one => one.perSecond)),
    nothingRatio.toFixed(2),
    '≥ 0.4',
    nothing(one => one.cpuUs).toFixed(2),
    whole(nothing(one => one.rssMb)),
  )
  line('\\copy of ready rows, one connection', whole(middle(rounds.map(round => round.copy))), '', '')
  const written = (figure: (figures: Figures) => number): number => middle(rounds.map(round => figure(round.writer)))
  const writerRatio = middle(rounds.map(round => round.writer.perSecond / round.copy))
  line(
    `sluice writer relational, ${values.workers} workers`,
    whole(written(one => one.perSecond)),
    writerRatio.toFixed(2),
    '≥ 0.7',
    written(one => one.cpuUs).toFixed(2),
    whole(written(one => one.rssMb)),
  )
} finally {
  await rm(file, { force: true })
  await postgres.stop()
  await kafka.stop()
}
