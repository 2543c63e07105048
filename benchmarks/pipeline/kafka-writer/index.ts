// A writer from Kafka into PostgreSQL, each message once, compared with the limits of the machine: `npm run bench -- kafka-writer`.
//
// The limits and the writer are measured in turns on one machine in one run, all with the same messages and rows: Kafka's own
// ConsumerPerformance, which decodes nothing; psql's \copy of prepared rows over one connection into the same table with its index.
//
// With --foreign the topic is one of another producer, with nested JSON, and the writer is measured beside Telegraf as well.
//
// node benchmarks/pipeline/kafka-writer/index.ts [--messages 1000000] [--turns 3] [--workers 2] [--fsync] [--foreign]

import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { startKafka } from '../../../test/servers/kafka.ts'
import { startPostgres } from '../../../test/servers/postgres.ts'
import { median } from '../../median-time.ts'
import { measureForeign } from './foreign.ts'
import { fill } from './load.ts'
import { consumerPerformance, copied, type Figures, type Load, nullSink, writer } from './measure.ts'

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '1000000' },
    turns: { type: 'string', default: '3' },
    workers: { type: 'string', default: '2' },
    fsync: { type: 'boolean', default: false },
    foreign: { type: 'boolean', default: false },
  },
})
const [messages, turns, workers] = [values.messages, values.turns, values.workers].map(Number) as [number, number, number]
const execute = promisify(execFile)

/** The loads, each with its target: a share of the limits, and µs of CPU for each message and row. */
interface Asked {
  readonly records: number
  readonly nullSinkMin?: number
  readonly copyMin?: number
  readonly cpuUsMax: number
}
const loads: readonly Asked[] = [
  { records: 1, nullSinkMin: 0.4, copyMin: 0.7, cpuUsMax: 4 },
  { records: 12, cpuUsMax: 24 },
]

interface Round {
  readonly consumer: number
  readonly nothing: Figures
  readonly copyRows: number
  readonly writer: Figures
}

const columns = [12, 12, 8, 8, 10, 10, 8, 8] as const
function line(what: string, ...cells: readonly string[]): void {
  console.log(what.padEnd(40) + columns.map((width, at) => (cells[at] ?? '').padStart(width)).join(''))
}

const whole = (figure: number): string => Math.round(figure).toLocaleString('en')
const atLeast = (figure: number | undefined): string => (figure === undefined ? '' : `≥ ${figure}`)

function print(load: Load, { records, nullSinkMin, copyMin, cpuUsMax }: Asked, rounds: readonly Round[]): void {
  const middle = (figure: (round: Round) => number): number => median(rounds.map(figure))
  const process = (
    what: string,
    figures: (round: Round) => Figures,
    ratio: (round: Round) => number,
    ratioMin: number | undefined,
    cpu = '',
  ): void =>
    line(
      what,
      whole(middle(round => figures(round).messagesPerSecond)),
      whole(middle(round => figures(round).messagesPerSecond) * records),
      middle(ratio).toFixed(2),
      atLeast(ratioMin),
      middle(round => figures(round).cpuUs).toFixed(2),
      (middle(round => figures(round).cpuUs) / records).toFixed(2),
      cpu,
      whole(middle(round => figures(round).rssMb)),
    )
  console.log(`\n${whole(load.messages)} messages of ${records} ${records === 1 ? 'record' : 'records'}`)
  line('', 'messages/s', 'rows/s', 'ratio', 'asked', 'CPU µs', 'CPU µs', 'asked', 'MB')
  line('', '', '', '', '', 'a message', 'a row')
  line("Kafka's ConsumerPerformance", whole(middle(round => round.consumer)))
  process(
    'one worker into a null sink',
    round => round.nothing,
    round => round.nothing.messagesPerSecond / round.consumer,
    nullSinkMin,
  )
  line('\\copy of ready rows, one connection', '', whole(middle(round => round.copyRows)))
  process(
    `./sluice writer relational, ${workers} workers`,
    round => round.writer,
    round => (round.writer.messagesPerSecond * records) / round.copyRows,
    copyMin,
    records === 1 ? `≤ ${cpuUsMax}` : `≤ ${cpuUsMax / records}`,
  )
}

const kafka = await startKafka({ tuning: 'load' })
const postgres = await startPostgres({ fsync: values.fsync })
const file = join(tmpdir(), `sluice-benchmark-${process.pid}.copy`)
try {
  console.log(`medians of ${turns} turns, fsync ${values.fsync ? 'on' : 'off'}`)
  if (values.foreign) await measureForeign({ kafka, postgres, file, messages, turns, workers })
  for (const asked of values.foreign ? [] : loads) {
    const { records } = asked
    const load = { topic: `of-${records}`, messages: Math.ceil(messages / records), rows: Math.ceil(messages / records) * records }
    await fill(kafka.brokers, load.topic, load.messages, records)
    const rounds: Round[] = []
    // The first turn does not count: the servers create their files, and the broker compiles its code.
    for (let turn = 0; turn <= turns; turn++) {
      const consumer = await consumerPerformance(kafka, load)
      const nothing = await nullSink(kafka, load)
      // A store belongs to one writer, so each turn has its own; \copy then writes the rows that the writer stored.
      const url = await postgres.createDatabase()
      const written = await writer(kafka, url, load, { group: `${load.topic}-${turn}`, workers })
      await execute('psql', [url, '-c', `\\copy (SELECT * FROM public.messages) TO '${file}'`])
      const copyRows = await copied(url, file, load.rows)
      if (turn > 0) rounds.push({ consumer, nothing, writer: written, copyRows })
    }
    print(load, asked, rounds)
  }
} finally {
  await rm(file, { force: true })
  await postgres.stop()
  await kafka.stop()
}
