// How long a page of the InfluxDB reader takes: `node benchmarks/readers/influxdb.ts [--rows 1000000] [--turns 15]`.
//
// One channel of 500 publishers has all the rows, and 1,000 channels have as many again. The reader alternates, over the same connection, with a query
// written by hand for the time range in which the page is known to be: all fields, pivoted into rows, sorted and limited.
//
// Example: npm run bench -- readers/influxdb --rows 100000 --turns 5

import { parseArgs } from 'node:util'
import { Value } from 'typebox/value'
import { type ReaderStoreOptions, readerStoreOptions } from '../../readers/influxdb/options.ts'
import { openInfluxdbReader } from '../../readers/influxdb/reader.ts'
import { keyOf, type PageQuery, type Row } from '../../readers/reader.ts'
import { fluxFrom, fluxWhere, openConnection } from '../../sinks/influxdb/connection.ts'
import { type SinkOptions, sinkOptions } from '../../sinks/influxdb/options.ts'
import { openSink } from '../../sinks/influxdb/sink.ts'
import { pageQuery } from '../../test/conformance/reader/index.ts'
import { startInflux } from '../../test/servers/influx.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { median } from '../median-time.ts'

const { values } = parseArgs({ options: { rows: { type: 'string', default: '1000000' }, turns: { type: 'string', default: '15' } } })
const rows = Number(values.rows)
const turns = Number(values.turns)
const limit = 100
const signal = new AbortController().signal
const endUs = Date.UTC(2026, 9, 31) * 1000
const stepUs = Math.floor((60 * 86_400_000_000) / rows)
const channel = 'busy'

const influx = await startInflux()
const address = { url: `${influx.url}/?org=${influx.org}&bucket=bench`, token: influx.token }
const forSink: SinkOptions = { ...(Value.Default(sinkOptions, {}) as SinkOptions), ...address }
const options: ReaderStoreOptions = { ...(Value.Default(readerStoreOptions, {}) as ReaderStoreOptions), ...address }
const writing = await openConnection(forSink, 'benchmark')
const connection = await openConnection(options, 'benchmark')
try {
  await store()
  await measure()
} finally {
  await Promise.all([writing.close(), connection.close()])
  await influx.stop()
}

async function store(): Promise<void> {
  const identity = { logName: 'messages', logId: 'bench', writer: 'bench' }
  const sink = await openSink({ connection: writing, options: forSink, logs: [identity] })
  await sink.takeNumbers([0])
  for (let from = 0; from < rows; from += 5_000) {
    const batch = new RecordBatch()
    for (let nth = from; nth < Math.min(rows, from + 5_000); nth++) {
      for (const [scope, of] of [channel, `other-${nth % 1000}`].entries()) {
        const thing = (nth * 7919) % 500
        const publisher = nth % 40_000 === 0 ? 'rare' : `7d5a2c1e-0000-4000-8000-${String(thing).padStart(12, '0')}`
        const offset = 2 * nth + scope
        batch.beginMessage({ at: logPartition(0, 0), offset, channel: of, subtopic: 'floor.3.room', publisher, protocol: 'http' })
        const name = `urn:dev:mac:0024befffe804ff1:${nth % 2 === 0 ? 'temperature' : 'humidity'}`
        batch.appendRecord(0, name, 'Cel', endUs - (rows - nth) * stepUs, ValueKind.number, 20 + (nth % 97) / 10, undefined, NaN, NaN)
        batch.endMessage()
      }
    }
    batch.cover(logPartition(0, 0), 2 * from, 2 * Math.min(rows, from + 5_000))
    const never = async (): Promise<void> => Promise.reject(new Error('no row of this benchmark is refused'))
    await sink.write(sink.encode(batch), never, signal)
  }
  await sink.close()
}

async function measure(): Promise<void> {
  const reader = openInfluxdbReader({ connection, options })
  const read = async (query: Partial<PageQuery>): Promise<readonly Row[]> => {
    const found = await reader.read(pageQuery({ channel, limit, ...query }), signal)
    if (found.length === 0) throw new Error('the page is empty')
    return found
  }
  const spanUs = (limit + 10) * stepUs
  /** By hand, for the time range before this timestamp. */
  const byHand = async (beforeUs: number): Promise<void> => {
    const range = { startNs: BigInt(beforeUs - spanUs) * 1000n, stopNs: BigInt(beforeUs) * 1000n }
    const pivoted = ' |> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
    const cut = ` |> group() |> sort(columns: ["_time"], desc: true) |> limit(n: ${limit})`
    let found = 0
    const flux = fluxFrom(connection.bucket, range) + fluxWhere({ _measurement: 'messages', channel }) + pivoted + cut
    for await (const page of connection.query(flux)) found += page.length
    if (found !== limit) throw new Error(`the stretch has ${found} rows`)
  }
  const depthUs = endUs - Math.floor(rows / 2) * stepUs
  const [first] = [await read({})]
  const [deep] = [await read({ toNs: BigInt(depthUs) * 1000n })]
  const pages: Readonly<Record<string, () => Promise<unknown>>> = {
    'by hand, the first page': () => byHand(endUs),
    'first page': () => read({}),
    'page behind it': () => read({ after: keyOf(first.at(-1)!) }),
    [`by hand, ${(rows / 2).toLocaleString('en')} rows deep`]: () => byHand(depthUs - limit * stepUs),
    [`page ${(rows / 2).toLocaleString('en')} rows deep, by cursor`]: () => read({ after: keyOf(deep.at(-1)!) }),
    'first page of the publisher with the fewest rows': () => read({ publisher: 'rare' }),
    'total up to 10,000': () => reader.count(pageQuery({ channel }), 10_000, signal),
    'the newest of 1,000 series, a page': () => reader.latest(pageQuery({ channel, limit }), signal),
  }
  const times = new Map(Object.keys(pages).map(name => [name, [] as number[]]))
  for (let turn = 0; turn < turns; turn++) {
    for (const [name, ask] of Object.entries(pages)) {
      const startedMs = performance.now()
      await ask()
      times.get(name)!.push(performance.now() - startedMs)
    }
  }
  for (const [name, ms] of times) console.log(`${name.padEnd(56)} ${median(ms).toFixed(1).padStart(8)} ms`)
}
