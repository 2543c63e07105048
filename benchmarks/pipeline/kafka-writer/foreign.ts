// A topic of another producer, with nested JSON: `\copy` of the rows, the writer, and Telegraf, in turns on one machine.

import { openServer } from '../../../database/server.ts'
import type { Kafka } from '../../../test/servers/kafka.ts'
import type { Postgres } from '../../../test/servers/postgres.ts'
import { median } from '../../median-time.ts'
import { fillForeign } from './load.ts'
import { consumerPerformance, type Figures, writer } from './measure.ts'
import { bytesOf, copied, dump } from './raw-copy.ts'
import { telegraf } from './telegraf.ts'

const layout = {
  SVC_TRANSFORMER_FORMAT: 'json',
  SVC_ENVELOPE_CHANNEL: 'field:plant.id',
  SVC_ENVELOPE_PUBLISHER: 'key',
  SVC_ENVELOPE_SUBTOPIC: 'const:readings',
  SVC_ENVELOPE_CREATED: 'field:sent',
}

export interface ForeignRun {
  readonly kafka: Kafka
  readonly postgres: Postgres
  /** For the rows as text. */
  readonly file: string
  readonly messages: number
  readonly turns: number
  readonly workers: number | undefined
}

interface Turn {
  readonly consumer: number
  readonly copyRows: number
  readonly writer: Figures
  readonly telegraf: Figures
}

export async function measureForeign({ kafka, postgres, file, messages, turns, workers }: ForeignRun): Promise<void> {
  const load = { topic: 'foreign', messages, rows: messages }
  await fillForeign(kafka.brokers, load.topic, messages)
  const measured: Turn[] = []
  // The first turn does not count: the servers create their files, and the broker compiles its code.
  for (let turn = 0; turn <= turns; turn++) {
    const consumer = await consumerPerformance(kafka, load)
    const url = await postgres.createDatabase()
    const written = await writer({ kafka, postgres }, url, load, { group: `foreign-${turn}`, workers, layout })
    const copyRows = await copyAgain(postgres, url, file, messages)
    const telegrafRates = await telegraf(kafka, await postgres.createDatabase(), load, `telegraf-${turn}`)
    if (turn > 0) measured.push({ consumer, copyRows, writer: written, telegraf: telegrafRates })
  }
  print(messages, workers, measured)
}

/** Rows/s of \copy of the writer's rows, as text, into their own table. */
async function copyAgain(postgres: Postgres, url: string, file: string, rows: number): Promise<number> {
  const database = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
  const table = 'formats.readings'
  try {
    await bytesOf(database, table, rows)
    // Without `time`, which is generated.
    const columns = 'created, channel, subtopic, publisher, protocol, payload, position, index'
    await dump(url, `SELECT ${columns} FROM ${table}`, { file, format: 'text' })
    return (await copied(postgres, { database, url, table }, { file, format: 'text', rows })).rowsPerSecond
  } finally {
    await database.close()
  }
}

function print(messages: number, workers: number | undefined, turns: readonly Turn[]): void {
  const whole = (figure: number): string => Math.round(figure).toLocaleString('en')
  const middle = (figure: (turn: Turn) => number): number => median(turns.map(figure))
  const line = (what: string, ...cells: readonly string[]): void =>
    console.log(what.padEnd(44) + cells.map(cell => cell.padStart(14)).join(''))
  const process = (what: string, figures: (turn: Turn) => Figures): void =>
    line(
      what,
      whole(middle(turn => figures(turn).messagesPerSecond)),
      middle(turn => figures(turn).messagesPerSecond / turn.copyRows).toFixed(2),
      middle(turn => figures(turn).cpuUs).toFixed(2),
      whole(middle(turn => figures(turn).rssMb)),
    )
  console.log(`\n${whole(messages)} nested documents of another producer`)
  line('', 'rows/s', 'of \\copy', 'CPU µs a row', 'MB')
  line("Kafka's ConsumerPerformance", whole(middle(turn => turn.consumer)))
  line('\\copy of ready rows, one connection', whole(middle(turn => turn.copyRows)))
  process(`./sluice writer relational, ${workers ?? 'default'} workers`, turn => turn.writer)
  process('Telegraf', turn => turn.telegraf)
}
