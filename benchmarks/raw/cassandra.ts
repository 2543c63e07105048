// The raw loop for comparison with the Cassandra sink: prepared inserts by the driver, either single inserts with 256 in flight or unlogged batches of
// 30 rows of one partition, whichever is faster on this machine.
//
// Values are prepared before the measurement, as bytes and numbers that the driver takes unchanged. Each way of sending is tried once with the
// first batches, and both results are printed.

import type { Client, QueryOptions } from 'cassandra-driver'
import { openAudit } from '../../sinks/cassandra/audit.ts'
import { openConnection } from '../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../sinks/cassandra/options.ts'
import { insertStatement, prepareIndexes } from '../../sinks/cassandra/schema.ts'
import { openSink } from '../../sinks/cassandra/sink.ts'
import { positionHighAt, positionLow } from '../../sinks/sink.ts'
import { startCassandra } from '../../test/servers/cassandra.ts'
import { type RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import type { RawStore } from '../stores/raw-store.ts'

const insertsInFlight = 256
const batchRows = 30
/** More are not faster. */
const batchesInFlight = 64
/** The sink registers its log as the first one. */
const logNumber = 1
const keyspace = 'sluice_benchmark'
const dayUs = 86_400_000_000
const insert = insertStatement(keyspace, 'messages')

type Values = unknown[]
interface Query {
  readonly query: string
  readonly params: Values
}
interface Ready {
  readonly singles: readonly Values[]
  readonly batches: readonly Query[][]
}
type Way = 'singles' | 'batches'

const names: Readonly<Record<Way, string>> = {
  singles: `single prepared inserts, ${insertsInFlight} in flight`,
  batches: `unlogged batches of ${batchRows} of one partition, ${batchesInFlight} in flight`,
}

export async function openRaw(): Promise<RawStore> {
  const { default: driver } = await import('cassandra-driver')
  const server = await startCassandra()
  const options: SinkOptions = {
    url: `cassandra://${server.contactPoint}/${keyspace}`,
    tls: false,
    consistency: 'LOCAL_QUORUM',
    serialConsistency: 'SERIAL',
    replication: "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    bucketDays: 1,
    retentionDays: 0,
    publisherIndex: true,
    requestsInFlightMax: insertsInFlight,
    connectTimeoutMs: 5_000,
    requestTimeoutMs: 60_000,
    formatsMax: 1000,
    formatsPerChannelMax: 32,
  }
  const connection = await openConnection(options, 'benchmark')
  const open = () => openSink({ connection, options, logs: [{ logName: 'messages', logId: 'benchmark', writer: 'benchmark' }] })
  // Creates the tables.
  await (await open()).close()
  const client: Client = new driver.Client({
    contactPoints: [server.contactPoint],
    localDataCenter: 'datacenter1',
    queryOptions: { prepare: true, isIdempotent: true, consistency: driver.types.consistencies.localQuorum },
    socketOptions: { readTimeout: 60_000 },
  })
  await client.connect()
  const batched: QueryOptions = { prepare: true, logged: false }
  let better: Way | undefined
  const rates = new Map<Way, number>()

  async function inParallel(count: number, most: number, send: (at: number) => Promise<unknown>): Promise<void> {
    let taken = 0
    const worker = async (): Promise<void> => {
      while (taken < count) await send(taken++)
    }
    await Promise.all(Array.from({ length: most }, worker))
  }

  function send({ singles, batches }: Ready, way: Way): Promise<void> {
    return way === 'singles'
      ? inParallel(singles.length, insertsInFlight, at => client.execute(insert, singles[at]))
      : inParallel(batches.length, batchesInFlight, at => client.batch(batches[at]!, batched))
  }

  /** Empties the table without its index: a node keeps an index of a truncated table in memory until it has none left. */
  async function empty(): Promise<void> {
    await connection.change(`DROP INDEX IF EXISTS ${connection.table('messages_publisher_idx')}`)
    for (const table of ['messages', 'sluice_channel_days', 'sluice_publisher_days'])
      await connection.change(`TRUNCATE ${connection.table(table)}`)
    await prepareIndexes(connection)
  }

  /** Runs each twice, because the first run is a warm-up. */
  async function chooseWay(ready: Ready): Promise<Way> {
    for (const way of ['singles', 'batches', 'singles', 'batches'] as const) {
      const startedMs = performance.now()
      await send(ready, way)
      rates.set(way, (ready.singles.length / (performance.now() - startedMs)) * 1000)
      await empty()
    }
    for (const [way, rate] of rates) console.log(`  ${names[way]}: ${Math.round(rate).toLocaleString('en-US')} rows/s`)
    return rates.get('batches')! >= rates.get('singles')! ? 'batches' : 'singles'
  }

  return {
    server: 'Cassandra 5.0.9',
    get parameters() {
      return better === undefined ? `the better of ${names.singles}, and ${names.batches}` : names[better]
    },
    ready(batches): Ready {
      const rows = batches.flatMap(batch => valuesOf(batch, driver.types.unset))
      const partitions = Map.groupBy(
        rows,
        ([channel, day]) => `${(channel as Buffer).toString('latin1')} ${(day as Buffer).toString('hex')}`,
      )
      const grouped: Query[][] = []
      for (const some of partitions.values()) {
        for (let at = 0; at < some.length; at += batchRows)
          grouped.push(some.slice(at, at + batchRows).map(params => ({ query: insert, params })))
      }
      return { singles: rows, batches: grouped }
    },
    async run(ready) {
      // The benchmark does not count its first turn.
      better ??= await chooseWay(ready as Ready)
      await send(ready as Ready, better)
    },
    empty,
    openSink: open,
    openAudit: () => openAudit(connection, options),
    async count() {
      let rows = 0
      for await (const page of connection.pages(`SELECT position FROM ${connection.table('messages')}`)) rows += page.length
      return rows
    },
    async close() {
      await connection.close()
      await client.shutdown()
      await server.stop()
    },
  }
}

/** In column order; numbers stay numbers. */
function valuesOf({ messages, records }: RecordBatch, unset: unknown): Values[] {
  return Array.from({ length: records.length }, (_, at) => {
    const message = records.message[at]!
    const offset = messages.offset[message]!
    const timeUs = records.timeUs[at]!
    const day = Buffer.allocUnsafe(4)
    day.writeUInt32BE(Math.floor(timeUs / dayUs) + 0x8000_0000)
    const time = Buffer.allocUnsafe(8)
    time.writeBigInt64BE(BigInt(timeUs))
    const position = Buffer.allocUnsafe(8)
    position.writeUInt32BE(positionHighAt([logNumber], messages.at[message]!, offset), 0)
    position.writeUInt32BE(positionLow(offset), 4)
    const index = Buffer.allocUnsafe(4)
    index.writeInt32BE(records.index[at]!)
    const unit = records.unit[at]
    return [
      Buffer.from(messages.channel[message]!),
      day,
      time,
      position,
      index,
      Buffer.from(messages.subtopic[message]!),
      Buffer.from(messages.publisher[message]!),
      Buffer.from(messages.protocol[message]!),
      Buffer.from(records.name[at]!),
      unit === undefined ? unset : Buffer.from(unit),
      records.valueKind[at] === ValueKind.number ? records.number[at]! : unset,
      unset,
      unset,
      unset,
      unset,
      unset,
    ]
  })
}
