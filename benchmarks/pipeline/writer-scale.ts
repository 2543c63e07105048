// What a message costs a writer from Kafka into PostgreSQL when one thing at a time is larger or smaller: `npm run bench -- writer-scale`.
//
// CPU time a message of the writer, of all of PostgreSQL's processes and of the broker, with default settings and fsync on; it should stay within 1.2
// times that of the first row. First the number of workers, processes, partitions, series and formats is changed, each in a store of its own: medians of
// the turns, measured behind the messages that bring the series. Then one writer works through a topic of --rows messages, and the cost of each
// twentieth of it is printed: how it grows with the rows that the store has, and with the messages that wait in the topic.
//
// node benchmarks/pipeline/writer-scale.ts [--messages 500000] [--turns 3] [--rows 50000000] [--chart <file.svg>]
//
// Example: npm run bench -- writer-scale --messages 200000 --turns 1 --rows 2000000

import { writeFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startKafka } from '../../test/servers/kafka.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { median } from '../median-time.ts'
import { cpuSeconds, postgresCpuSeconds, residentMbMax } from '../process-figures.ts'
import { type Fleet, fillFleet, partitions } from './kafka-writer/load.ts'
import { startWriter } from './kafka-writer/measure.ts'

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '500000' },
    turns: { type: 'string', default: '3' },
    rows: { type: 'string', default: '50000000' },
    chart: { type: 'string' },
  },
})
const [messages, turns, rows] = [values.messages, values.turns, values.rows].map(Number) as [number, number, number]

interface Case extends Omit<Fleet, 'messages'> {
  readonly title: string
  readonly processes: number
  /** Of each process. */
  readonly workers: number
}

/** Of one part of the messages. */
interface Cost {
  readonly messagesPerSecond: number
  /** CPU time a message, in µs. */
  readonly writerUs: number
  readonly storeUs: number
  readonly brokerUs: number
  /** The most memory of all writers so far. */
  readonly memoryMb: number
}

const usual: Case = {
  title: 'two workers, eight partitions, 20,000 series',
  processes: 1,
  workers: 2,
  partitions,
  series: 20_000,
  formats: 0,
}
const documents: Case = { ...usual, title: 'JSON documents in one format', formats: 1 }
/** Each list is compared with its first. */
const lists: readonly (readonly Case[])[] = [
  [
    usual,
    { ...usual, title: 'one worker', workers: 1 },
    { ...usual, title: 'two processes of one worker', processes: 2, workers: 1 },
    { ...usual, title: 'one partition', partitions: 1 },
    { ...usual, title: '12 partitions', partitions: 12 },
    { ...usual, title: '48 partitions', partitions: 48 },
    { ...usual, title: '100 series', series: 100 },
    { ...usual, title: 'a million series', series: 1_000_000 },
  ],
  [documents, { ...documents, title: 'in 10 formats', formats: 10 }, { ...documents, title: 'in 1,000 formats', formats: 1000 }],
]

const kafka = await startKafka({ tuning: 'load' })
const postgres = await startPostgres({ fsync: true })
let topics = 0

/**
 * Stores a topic, in a database of its own.
 *
 * @param bounds ascending numbers of stored messages
 * @returns the cost between each two of them
 */
async function costs(each: Case, bounds: readonly number[]): Promise<Cost[]> {
  const topic = `scale-${topics++}`
  const total = bounds.at(-1)!
  await fillFleet(kafka.brokers, topic, { ...each, messages: total })
  const url = await postgres.createDatabase()
  const settings = { topic, group: topic, workers: each.workers }
  const writers = await Promise.all(Array.from({ length: each.processes }, () => startWriter({ kafka, postgres }, url, settings)))
  try {
    const found: Cost[] = []
    let before: Awaited<ReturnType<typeof figures>> | undefined
    for (const bound of bounds) {
      const now = await figures(bound)
      if (before !== undefined) {
        const [count, earlier] = [now.stored - before.stored, before]
        const [writerUs, storeUs, brokerUs] = now.cpu.map((seconds, at) => ((seconds - earlier.cpu[at]!) * 1e6) / count) as [
          number,
          number,
          number,
        ]
        found.push({ messagesPerSecond: (count / (now.atMs - before.atMs)) * 1000, writerUs, storeUs, brokerUs, memoryMb: now.memoryMb })
      }
      before = now
    }
    return found
  } finally {
    await Promise.all(writers.map(writer => writer.stop()))
  }

  async function figures(bound: number) {
    let stored: number
    while ((stored = await writers[0]!.stored()) < bound) await wait(20)
    const atMs = performance.now()
    const own = await Promise.all(writers.map(({ pid }) => cpuSeconds(pid)))
    const cpu = [sum(own), await postgresCpuSeconds(postgres.folder), await cpuSeconds(kafka.pid)]
    return { stored, atMs, cpu, memoryMb: sum(await Promise.all(writers.map(({ pid }) => residentMbMax(pid)))) }
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0)
}

const whole = (figure: number): string => Math.round(figure).toLocaleString('en')
function line(title: string, ...cells: readonly string[]): void {
  console.log(title.padEnd(46) + cells.map(cell => cell.padStart(12)).join(''))
}
const all = ({ writerUs, storeUs, brokerUs }: Cost): number => writerUs + storeUs + brokerUs

function print(title: string, cost: Cost, first: Cost): void {
  const { messagesPerSecond, writerUs, storeUs, brokerUs, memoryMb } = cost
  const times = [writerUs, storeUs, brokerUs, all(cost)].map(us => us.toFixed(2))
  line(title, whole(messagesPerSecond), ...times, (all(cost) / all(first)).toFixed(2), whole(memoryMb))
}

try {
  console.log(`CPU µs a message: medians of ${turns} turns of ${whole(messages)} messages, default settings, fsync on`)
  line('', 'messages/s', 'writer', 'PostgreSQL', 'Kafka', 'together', 'of the first', 'MB')
  for (const list of lists) {
    let first: Cost | undefined
    for (const each of list) {
      // Each series is stored before it counts.
      const warmUp = Math.max(100_000, each.series)
      const taken: Cost[] = []
      for (let turn = 0; turn < turns; turn++) taken.push(...(await costs(each, [warmUp, warmUp + messages])))
      const middle = (figure: keyof Cost): number => median(taken.map(cost => cost[figure]))
      const cost: Cost = {
        messagesPerSecond: middle('messagesPerSecond'),
        writerUs: middle('writerUs'),
        storeUs: middle('storeUs'),
        brokerUs: middle('brokerUs'),
        memoryMb: middle('memoryMb'),
      }
      print(each.title, cost, (first ??= cost))
    }
  }
  const parts = 20
  const bounds = [Math.min(100_000, rows / parts / 2), ...Array.from({ length: parts }, (_, at) => (rows * (at + 1)) / parts)]
  const curve = await costs(usual, bounds)
  for (const [at, cost] of curve.entries()) print(`${whole(bounds[at + 1]!)} rows in the store`, cost, curve[0]!)
  if (values.chart !== undefined) await writeFile(values.chart, chart(bounds.slice(1), curve))
} finally {
  await postgres.stop()
  await kafka.stop()
}

/** CPU a message, by the rows in the store: the broker's, the writer's and PostgreSQL's one upon the other. */
function chart(ends: readonly number[], found: readonly Cost[]): string {
  const [width, height, left, bottom] = [560, 220, 60, 40]
  const most = Math.max(...found.map(all)) * 1.15
  const layers = [
    { title: 'PostgreSQL', color: '#9fbfd7', top: all },
    { title: 'writer', color: '#2f6f9f', top: ({ writerUs, brokerUs }: Cost) => writerUs + brokerUs },
    { title: 'Kafka', color: '#d08a2e', top: ({ brokerUs }: Cost) => brokerUs },
  ]
  const x = (at: number): string => (left + (at / ends.length) * width).toFixed(1)
  const y = (us: number): string => (10 + height - (us / most) * height).toFixed(1)
  const drawn = layers.map(({ color, top }) => {
    const steps = found.map((cost, at) => `V${y(top(cost))}H${x(at + 1)}`).join('')
    return `<path d="M${left} ${y(0)}${steps}V${y(0)}Z" fill="${color}"/>`
  })
  const names = layers.map(
    ({ title, color }, at) =>
      `<rect x="${left + 10 + at * 110}" y="14" width="12" height="12" fill="${color}"/><text x="${left + 28 + at * 110}" y="25">${title}</text>`,
  )
  const times = Array.from({ length: Math.floor(most / 2) + 1 }, (_, at) => at * 2)
  const marks = times.map(
    us => `<text x="${left - 8}" y="${y(us)}" dy="4" text-anchor="end">${us}</text><path d="M${left} ${y(us)}h${width}" stroke="#0002"/>`,
  )
  const rowsAt = [0, 0.2, 0.4, 0.6, 0.8, 1].map(
    share => `<text x="${left + share * width}" y="${height + 28}" text-anchor="middle">${(share * ends.at(-1)!) / 1e6}</text>`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + width + 30} ${height + bottom + 20}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="#fff"/>
${[...drawn, ...marks, ...names, ...rowsAt].join('\n')}
<text x="${left + width / 2}" y="${height + 48}" text-anchor="middle">million rows in the store</text>
<text transform="translate(16 ${10 + height / 2}) rotate(-90)" text-anchor="middle">µs of CPU a message</text>
</svg>
`
}
