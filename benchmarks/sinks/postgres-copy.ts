// The PostgreSQL sink compared with `\copy` of the same rows into the same table, one connection each, in turns: `npm run bench -- postgres-copy`.
//
// node benchmarks/sinks/postgres-copy.ts [--rows 200000] [--batch 2000] [--turns 5] [--fsync] [--latency 0]

import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parseArgs, promisify } from 'node:util'
import { Value } from 'typebox/value'
import { openServer } from '../../database/server.ts'
import { sinkOptions } from '../../sinks/postgres/options.ts'
import { openSink } from '../../sinks/postgres/sink.ts'
import type { Sink } from '../../sinks/sink.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { openProxy } from '../../test/servers/process/proxy.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { median } from '../median-time.ts'
import { postgresCpuSeconds } from '../process-figures.ts'

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '200000' },
    batch: { type: 'string', default: '2000' },
    turns: { type: 'string', default: '5' },
    /** Each way, between the sink and the server. */
    latency: { type: 'string', default: '0' },
    fsync: { type: 'boolean', default: false },
  },
})
const rows = Number(values.rows)
const rowsPerBatch = Number(values.batch)
const publishers = 1000
const execute = promisify(execFile)

/** New strings, like those of a transformer. */
function fresh(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** One record for each message, like most devices send. */
function newBatch(first: number, timeUs: number): RecordBatch {
  const batch = new RecordBatch()
  for (let offset = first; offset < first + rowsPerBatch; offset++) {
    const device = String((offset * 7919) % publishers).padStart(12, '0')
    batch.beginMessage({
      at: logPartition(0, 0),
      offset,
      channel: fresh(`0a1b2c3d-4e5f-4a6b-8c7d-${device}`),
      subtopic: fresh('floor.3.room'),
      publisher: fresh(`f0e1d2c3-b4a5-4968-8778-${device}`),
      protocol: 'http',
    })
    batch.appendRecord(
      0,
      fresh('urn:dev:mac:0024befffe804ff1:temperature'),
      'Cel',
      timeUs + offset * 100,
      ValueKind.number,
      21.5 + offset,
      undefined,
      Number.NaN,
      Number.NaN,
    )
    batch.endMessage()
  }
  return batch
}

/** The same batch at another position of the log: many batches in memory would measure the garbage collector. */
function movedTo(batch: RecordBatch, from: number): RecordBatch {
  for (let message = 0; message < rowsPerBatch; message++) batch.messages.offset[message] = from + message
  batch.ranges.length = 0
  batch.cover(logPartition(0, 0), from, from + rowsPerBatch)
  return batch
}

const signal = new AbortController().signal
const reject = async (): Promise<void> => {
  throw new Error('no row of this benchmark is refused')
}

type Format = 'text' | 'binary'

interface Turn {
  readonly perSecond: number
  /** CPU time of this process, and of the server with all its backends, in µs for each row: on a busy machine they say more than the rate. */
  readonly cpuUs: number
  readonly serverCpuUs: number
}

async function serverCpuUs(): Promise<number> {
  return (await postgresCpuSeconds(postgres.folder)) * 1e6
}

/** Like the pipeline: the next batch is encoded while one is written. Decoding is not measured. */
async function bySink<Encoded>(sink: Sink<Encoded>, batches: readonly RecordBatch[]): Promise<Turn> {
  const serverCpu = await serverCpuUs()
  const cpu = process.cpuUsage()
  const startedMs = performance.now()
  const next = (from: number) => sink.encode(movedTo(batches[(from / rowsPerBatch) % batches.length]!, from))
  let encoded = next(0)
  for (let from = 0; from < rows; from += rowsPerBatch) {
    const written = sink.write(encoded, reject, signal)
    // Lets the sink send before the next batch occupies this turn of the event loop.
    await nextTurn()
    if (from + rowsPerBatch < rows) encoded = next(from + rowsPerBatch)
    await written
  }
  const elapsedMs = performance.now() - startedMs
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond: (rows / elapsedMs) * 1000, cpuUs: (user + system) / rows, serverCpuUs: ((await serverCpuUs()) - serverCpu) / rows }
}

async function byCopy(url: string, format: Format): Promise<Turn> {
  const serverCpu = await serverCpuUs()
  const startedMs = performance.now()
  await execute('psql', [url, '-c', `\\copy sluice.records FROM '${file}.${format}' (FORMAT ${format})`])
  const elapsedMs = performance.now() - startedMs
  return { perSecond: (rows / elapsedMs) * 1000, cpuUs: Number.NaN, serverCpuUs: ((await serverCpuUs()) - serverCpu) / rows }
}

const postgres = await startPostgres({ fsync: values.fsync })
const file = join(tmpdir(), `sluice-benchmark-${process.pid}.copy`)
try {
  const url = await postgres.createDatabase()
  const proxy = await openProxy({ port: Number(new URL(url).port) })
  proxy.latency(Number(values.latency))
  const near = Number(values.latency) === 0 ? url : url.replace(/:\d+\//, `:${proxy.port}/`)
  const database = await openServer({ url: near, applicationName: 'benchmark', connectionsMax: 2 })
  const operator = await openServer({ url, applicationName: 'operator', connectionsMax: 1 })
  const options = Value.Create(sinkOptions)
  const sink = await openSink({
    database,
    options,
    logs: [{ logName: 'messages', logId: 'benchmark', writer: 'benchmark' }],
  })
  await sink.takeNumbers([0])
  const timeUs = Date.now() * 1000
  const batches = Array.from({ length: 16 }, (_, nth) => newBatch(nth * rowsPerBatch, timeUs))
  const empty = () => operator.execute('TRUNCATE sluice.records; UPDATE sluice.offsets SET next_offset = 0; CHECKPOINT')

  await bySink(sink, batches)
  for (const format of ['text', 'binary'] as const) {
    const all = '(SELECT * FROM sluice.records)'
    await execute('psql', [url, '-c', `\\copy ${all} TO '${file}.${format}' (FORMAT ${format})`])
  }
  const turns: Record<'sink' | 'text' | 'binary', Turn>[] = []
  for (let turn = 0; turn < Number(values.turns); turn++) {
    await empty()
    const text = await byCopy(url, 'text')
    await empty()
    const binary = await byCopy(url, 'binary')
    await empty()
    turns.push({ text, binary, sink: await bySink(sink, batches) })
  }
  const [stored] = await operator.query<{ count: number }>('SELECT count(*)::int FROM sluice.records')
  if (stored?.count !== rows) throw new Error(`${stored?.count} rows were stored of ${rows}`)
  console.log(
    `${rows.toLocaleString('en')} rows, batches of ${rowsPerBatch}, fsync ${values.fsync ? 'on' : 'off'}, latency ${values.latency} ms, medians of ${turns.length} turns`,
  )
  const of = (who: 'sink' | Format, figure: (turn: Turn) => number, digits: number) =>
    median(turns.map(turn => figure(turn[who])))
      .toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
      .padStart(9)
  for (const who of ['text', 'binary', 'sink'] as const) {
    const name = (who === 'sink' ? 'the sink' : `\\copy, ${who}`).padEnd(14)
    const here = who === 'sink' ? `, and ${of(who, turn => turn.cpuUs, 2).trim()} µs of this process, encoding included` : ''
    const ratio = median(turns.map(turn => turn[who].perSecond / turn.text.perSecond)).toFixed(2)
    console.log(
      `${name} ${of(who, turn => turn.perSecond, 0)} rows/s (${ratio}) ${of(who, turn => turn.serverCpuUs, 2)} µs of the server's CPU a row${here}`,
    )
  }
  await sink.close()
  await database.close()
  await operator.close()
  await proxy.close()
} finally {
  for (const format of ['text', 'binary']) await rm(`${file}.${format}`, { force: true })
  await postgres.stop()
}
