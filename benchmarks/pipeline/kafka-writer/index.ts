// A writer from Kafka into PostgreSQL, each message once, compared with the limits of the machine: `npm run bench -- kafka-writer`.
//
// The limits and the writer are measured in turns on one machine in one run, all with the same messages and rows, with fsync on and the settings that
// PostgreSQL and the writer have by default. The limits: Kafka's own ConsumerPerformance, which decodes nothing; a worker whose sink writes nothing;
// psql's \copy of prepared rows over one connection (raw-copy.ts). The writer stores messages of one record, and then packs of twelve, from a topic of
// eight partitions. CPU is that of the writer's process, of all of PostgreSQL's and of the broker's. A store that does not have every row fails the run.
//
// --write-heavy replaces the index (series, time) by BRIN, as docs/stores/postgres.md describes; --advised gives the server the settings of that page.
// With --foreign the topic is one of another producer, with nested JSON, and the writer is measured beside Telegraf as well. With --new-names 1000 each
// message has a name of its own, from a thousand things.
//
// node benchmarks/pipeline/kafka-writer/index.ts [--messages 1000000] [--turns 3] [--workers <n>] [--write-heavy] [--advised] [--foreign]
//   [--new-names <things>]
//
// Example: npm run bench -- kafka-writer --messages 200000 --turns 1 --advised

import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { openServer } from '../../../database/server.ts'
import { migrateStore } from '../../../sinks/postgres/schema.ts'
import { startKafka } from '../../../test/servers/kafka.ts'
import { startPostgres } from '../../../test/servers/postgres.ts'
import { median } from '../../median-time.ts'
import { measureForeign } from './foreign.ts'
import { fill, fillNewNames } from './load.ts'
import {
  advisedSettings,
  consumerPerformance,
  type Figures,
  type Load,
  nullSink,
  type Servers,
  type WriterFigures,
  writer,
} from './measure.ts'
import { bareCopy, bytesOf, type CopyFigures, type CopyName, copyNames, plainCopy, rawCopies } from './raw-copy.ts'

const { values } = parseArgs({
  options: {
    /** Rows; so many messages of one record, and a twelfth of packs. */
    messages: { type: 'string', default: '1000000' },
    turns: { type: 'string', default: '3' },
    /** The writer's default is one for each core. */
    workers: { type: 'string' },
    'write-heavy': { type: 'boolean', default: false },
    advised: { type: 'boolean', default: false },
    foreign: { type: 'boolean', default: false },
    'new-names': { type: 'string' },
  },
})
const [messages, turns] = [values.messages, values.turns].map(Number) as [number, number]
const workers = values.workers === undefined ? undefined : Number(values.workers)

interface Round {
  readonly consumer: number
  readonly nothing: Figures
  readonly writer: WriterFigures
  readonly bytesARow: number
  readonly series: number
  readonly bytesASeries: number
  readonly copies: Readonly<Record<CopyName, CopyFigures>>
}

async function measure(servers: Servers, load: Load, group: string): Promise<Round> {
  const { kafka, postgres } = servers
  const consumer = await consumerPerformance(kafka, load)
  const nothing = await nullSink(kafka, load)
  // A store belongs to one writer, so each turn has its own.
  const url = await postgres.createDatabase()
  const store = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
  try {
    if (values['write-heavy']) {
      await migrateStore(store)
      await store.execute(
        `DROP INDEX sluice.records_series_time;
         CREATE INDEX records_series_time ON sluice.records USING brin (series) WITH (pages_per_range = 8)`,
      )
    }
    // What the turn before left to write is not the writer's.
    await store.execute('CHECKPOINT')
    const written = await writer(servers, url, load, { group, workers })
    const bytes = await bytesOf(store, 'sluice.records', load.rows, 'public.messages')
    const [dictionary] = await store.query<{ series: number; bytes: number }>(
      `SELECT count(*)::float8 AS series, (pg_total_relation_size('sluice.series') + pg_total_relation_size('sluice.channels'))::float8 AS bytes
       FROM sluice.series`,
    )
    return {
      consumer,
      nothing,
      writer: written,
      bytesARow: bytes / load.rows,
      series: dictionary!.series,
      bytesASeries: dictionary!.bytes / dictionary!.series,
      copies: await rawCopies(postgres, url, file, load.rows),
    }
  } finally {
    await store.close()
  }
}

const columns = [12, 12, 12, 12, 9, 12, 8, 8, 9] as const
function line(what: string, ...cells: readonly string[]): void {
  console.log(what.padEnd(42) + columns.map((width, at) => (cells[at] ?? '').padStart(width)).join(''))
}
const whole = (figure: number): string => Math.round(figure).toLocaleString('en')

function print({ messages: count, rows }: Load, rounds: readonly Round[]): void {
  const middle = (figure: (round: Round) => number): number => median(rounds.map(figure))
  const records = rows / count
  /** Rows/s, compared with the plain \copy and with the bare one. */
  const rates = (rowsPerSecond: (round: Round) => number): string[] => [
    whole(middle(rowsPerSecond)),
    middle(round => rowsPerSecond(round) / round.copies[plainCopy].rowsPerSecond).toFixed(2),
    middle(round => rowsPerSecond(round) / round.copies[bareCopy].rowsPerSecond).toFixed(2),
  ]
  const perRow = (cpuUs: (round: Round) => number): string => (middle(cpuUs) / records).toFixed(2)
  console.log(`\n${whole(count)} messages of ${records} ${records === 1 ? 'record' : 'records'}`)
  line('', 'messages/s', 'rows/s', 'of \\copy', 'of \\copy', 'CPU µs', 'of a row', '', 'bytes', 'MB')
  line('', '', '', 'into texts', 'into series', 'writer', 'PostgreSQL', 'Kafka', 'a row', 'at most')
  line("Kafka's ConsumerPerformance", whole(middle(round => round.consumer)))
  line(
    'one worker into a null sink',
    whole(middle(round => round.nothing.messagesPerSecond)),
    ...rates(round => round.nothing.messagesPerSecond * records),
    perRow(round => round.nothing.cpuUs),
    '',
    '',
    '',
    whole(middle(round => round.nothing.rssMb)),
  )
  for (const name of copyNames) {
    const copy = (figure: keyof CopyFigures): number => middle(round => round.copies[name][figure])
    line(name, '', ...rates(round => round.copies[name].rowsPerSecond), '', copy('cpuUsARow').toFixed(2), '', whole(copy('bytesARow')))
  }
  line(
    `./sluice writer relational, ${workers ?? 'default'} workers`,
    whole(middle(round => round.writer.messagesPerSecond)),
    ...rates(round => round.writer.messagesPerSecond * records),
    perRow(round => round.writer.cpuUs),
    perRow(round => round.writer.postgresCpuUs),
    perRow(round => round.writer.kafkaCpuUs),
    whole(middle(round => round.bytesARow)),
    whole(middle(round => round.writer.rssMb)),
  )
  const all = (key: keyof WriterFigures): string => middle(round => round.writer[key]).toFixed(2)
  console.log(
    `a message: ${all('cpuUs')} µs of the writer's CPU, ${all('postgresCpuUs')} of PostgreSQL's, ${all('kafkaCpuUs')} of the broker's`,
  )
  console.log(
    `${whole(middle(round => round.series))} series of ${whole(middle(round => round.bytesASeries))} bytes each, with their indexes`,
  )
}

const kafka = await startKafka({ tuning: 'load' })
const postgres = await startPostgres({ fsync: true, settings: values.advised ? advisedSettings : {} })
const file = join(tmpdir(), `sluice-benchmark-${process.pid}.copy`)
try {
  const settings = values.advised ? Object.entries(advisedSettings).map(([name, value]) => `${name} ${value}`) : ['default settings']
  const index = values['write-heavy'] && !values.foreign ? ', BRIN in place of the index (series, time)' : ''
  console.log(`medians of ${turns} turns, fsync on, ${settings.join(', ')}${index}`)
  if (values.foreign) await measureForeign({ kafka, postgres, file, messages, turns, workers })
  const newNames = values['new-names']
  for (const records of values.foreign ? [] : newNames === undefined ? [1, 12] : [1]) {
    const count = Math.ceil(messages / records)
    const load = { topic: `of-${records}`, messages: count, rows: count * records }
    if (newNames === undefined) await fill(kafka.brokers, load.topic, load.messages, records)
    else await fillNewNames(kafka.brokers, load.topic, load.messages, Number(newNames))
    const rounds: Round[] = []
    // The first turn does not count: the servers create their files, and the broker compiles its code.
    for (let turn = 0; turn <= turns; turn++) {
      const round = await measure({ kafka, postgres }, load, `${load.topic}-${turn}`)
      if (turn > 0) rounds.push(round)
    }
    print(load, rounds)
  }
} finally {
  await rm(file, { force: true })
  await postgres.stop()
  await kafka.stop()
}
