// Pages of the Cassandra reader compared with the driver's bare statement, in turns on one connection: `node benchmarks/readers/cassandra.ts [--rows 1000000]`.
//
// One channel with these rows by 500 publishers on a separate node, over four days and over 240 days. The bare statement is given the day of the page's
// first row, which the reader has to look up. First pages of one publisher are compared with the channel's, with the index and without it. Requests
// that read more than a page are measured over four days, without a comparison.
//
// Example: npm run bench -- readers/cassandra --rows 100000

import { parseArgs } from 'node:util'
import { defaultBackOff, retry } from '../../pipeline/writer/retry.ts'
import { openCassandraReader } from '../../readers/cassandra/reader.ts'
import { type Direction, keyOf, noFilters, type PageQuery, type Reader, type RowKey } from '../../readers/reader.ts'
import { type Connection, openConnection } from '../../sinks/cassandra/connection.ts'
import { dateBytes } from '../../sinks/cassandra/day-registry.ts'
import { classify } from '../../sinks/cassandra/errors.ts'
import { openSink } from '../../sinks/cassandra/sink.ts'
import { startCassandra } from '../../test/servers/cassandra.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { median } from '../median-time.ts'

const rows = Number(parseArgs({ options: { rows: { type: 'string', default: '1000000' } } }).values.rows)
const pageRows = 100
const turns = 30
const batchRows = 10_000
const publishers = 500
/** A publisher that has sent four rows. */
const rarest = 'rarest'
const usual = publisherNamed(publishers - 1)
const startDay = 20_000
const dayUs = 86_400_000_000
const never = new AbortController().signal
const spreads = { 'over-4-days': 4, 'over-240-days': 240 }

const everything = {
  format: 'messages',
  ...noFilters,
  direction: 'desc' as Direction,
  offset: 0,
  after: undefined,
}

function publisherNamed(nth: number): string {
  return `f0e1d2c3-b4a5-4968-8778-${String(nth).padStart(12, '0')}`
}

function timeUs(nth: number, days: number): number {
  return startDay * dayUs + Math.floor((nth * days * dayUs) / rows)
}

function batchFrom(from: number, channel: string, days: number, partition: number): RecordBatch {
  const batch = new RecordBatch()
  for (let nth = from; nth < from + batchRows; nth++) {
    const publisher = nth % (rows / 4) === 1_234 ? rarest : publisherNamed(nth % publishers)
    batch.beginMessage({ at: logPartition(0, partition), offset: nth, channel, subtopic: 'floor.3.room', publisher, protocol: 'http' })
    const name = `urn:dev:ow:10e2073a0108${nth % publishers}:temperature`
    batch.appendRecord(0, name, 'Cel', timeUs(nth, days), ValueKind.number, nth / 7, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  batch.cover(logPartition(0, partition), from, from + batchRows)
  return batch
}

const columns =
  'time_us, position, "index", subtopic, publisher, protocol, name, unit, value, string_value, bool_value, data_value, sum, update_time'

/** The page as someone who knows the tables would query it; the key gives the day. */
async function bare(connection: Connection, channel: string, days: number, after: RowKey | undefined): Promise<number> {
  const client = await connection.client()
  const from = `SELECT ${columns} FROM ${connection.table('messages')} WHERE channel = ? AND day = ?`
  if (after === undefined) {
    const result = await client.execute(`${from} LIMIT ${pageRows}`, [channel, dateBytes(startDay + days - 1)])
    return result.rowLength
  }
  const us = after.timeNs / 1000n
  const day = dateBytes(Math.floor(Number(us) / dayUs))
  const behind = `${from} AND (time_us, position, "index") < (?, ?, ?) LIMIT ${pageRows}`
  return (await client.execute(behind, [channel, day, us, after.position, after.index])).rowLength
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

const figure = (ms: number): string => `${ms.toFixed(ms < 100 ? 2 : 0)} ms`.padStart(12)

const node = await startCassandra()
const options = {
  url: `cassandra://${node.contactPoint}/sluice_benchmark`,
  tls: false,
  consistency: 'LOCAL_QUORUM' as const,
  serialConsistency: 'SERIAL' as const,
  replication: "{'class': 'SimpleStrategy', 'replication_factor': 1}",
  bucketDays: 1,
  retentionDays: 0,
  publisherIndex: true,
  requestsInFlightMax: 256,
  connectTimeoutMs: 5_000,
  requestTimeoutMs: 60_000,
  formatsMax: 10,
  formatsPerChannelMax: 10,
}
const untilStored = { backOff: defaultBackOff, classify, onFailure: () => undefined, onRecovery: () => undefined }
const connection = await openConnection(options, 'benchmark')
try {
  const sink = await openSink({ connection, options, logs: [{ logName: 'messages', logId: 'b', writer: 'b' }] })
  await sink.takeNumbers([0])
  for (const [nth, [channel, days]] of Object.entries(spreads).entries()) {
    for (let from = 0; from < rows; from += batchRows) {
      const encoded = sink.encode(batchFrom(from, channel, days, nth))
      // Like a writer, retries what the node was too slow for.
      await retry(() => sink.write(encoded, async () => undefined, never), untilStored, never)
    }
  }
  await sink.close()
  const reader = openCassandraReader({ connection, options: { queryTimeoutMs: 60_000 } })
  for (const [channel, days] of Object.entries(spreads)) {
    console.log(`\n${rows.toLocaleString('en')} rows ${channel.replaceAll('-', ' ')}, pages of ${pageRows}, medians of ${turns} turns`)
    const query = (some: Partial<PageQuery>): PageQuery => ({ ...everything, channel, limit: pageRows, ...some })
    const deepest = await reader.read(query({ direction: 'asc', limit: pageRows * 10 }), never)
    const ends: Record<string, RowKey | undefined> = { 'first page': undefined, 'page at the depth of the channel': keyOf(deepest.at(-1)!) }
    for (const [name, after] of Object.entries(ends)) {
      const [ours, theirs]: [number[], number[]] = [[], []]
      for (let turn = -10; turn < turns; turn++) {
        const their = await timed(() => bare(connection, channel, days, after))
        const our = await timed(() => reader.read(query({ after }), never))
        if (turn < 0) continue
        theirs.push(their)
        ours.push(our)
      }
      const ratio = (median(ours) / median(theirs)).toFixed(2)
      console.log(`${name.padEnd(50)} reader ${figure(median(ours))}   bare ${figure(median(theirs))}   ${ratio}`)
    }
    if (days > 4) continue
    await firstPages(reader, channel, 10)
    const publisher = usual
    const otherQueries: Record<string, () => Promise<unknown>> = {
      'page of one of 500 publishers': () => reader.read(query({ publisher }), never),
      'count up to 10,000': () => reader.count(query({}), 10_000, never),
      'count of that publisher': () => reader.count(query({ publisher }), 10_000, never),
      'count of all': () => reader.count(query({}), Number.MAX_SAFE_INTEGER - 1, never),
      'the newest of each series': () => reader.latest(query({}), never),
      'averages by hours': () =>
        reader.aggregate({ ...query({}), aggregation: 'avg', intervalUs: 3_600_000_000, fromNs: lastDaysNs(days) }, never),
    }
    for (const [name, ask] of Object.entries(otherQueries)) {
      const times: number[] = []
      for (let turn = 0; turn < 3; turn++) times.push(await timed(ask))
      console.log(`${name.padEnd(50)} reader ${figure(median(times))}`)
    }
  }
  await connection.change(`DROP INDEX ${connection.table('messages_publisher_idx')}`)
  console.log('\nwithout the index by publisher')
  await firstPages(openCassandraReader({ connection, options: { queryTimeoutMs: 60_000 } }), Object.keys(spreads)[0]!, 3)
} finally {
  await connection.close()
  await node.stop()
}

/** First pages of the default size: of the channel and of one publisher, alternately. */
async function firstPages(reader: Reader, channel: string, turns: number): Promise<void> {
  const times = new Map<string | undefined, number[]>([undefined, usual, rarest].map(publisher => [publisher, []]))
  for (let turn = -1; turn < turns; turn++) {
    for (const [publisher, some] of times) {
      const ms = await timed(() => reader.read({ ...everything, channel, publisher, limit: 10 }, never))
      if (turn >= 0) some.push(ms)
    }
  }
  const [wholeMs, usualMs, rarestMs] = [...times.values()].map(median) as [number, number, number]
  const withRatio = (ms: number): string => `${figure(ms)} (${(ms / wholeMs).toFixed(1)} of it)`
  console.log(
    `first page of 10`.padEnd(50),
    `channel ${figure(wholeMs)}   usual publisher ${withRatio(usualMs)}   rarest ${withRatio(rarestMs)}`,
  )
}

/** The start of the last days, which have a quarter of the rows, in nanoseconds. */
function lastDaysNs(days: number): bigint {
  return BigInt((startDay + (days * 3) / 4) * dayUs) * 1000n
}
