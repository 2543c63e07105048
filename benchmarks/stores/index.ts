// Each sink compared with a raw loop of the same driver over the same prepared rows, in turns within one run: `npm run bench -- stores`.
//
// node benchmarks/stores/index.ts [cassandra|influxdb|mongodb …] [--turns 5] [--records 1] [--rows N]
//
// The raw loops and their parameters are in benchmarks/raw. Their requests are prepared before the measurement; the sink gets record batches like from
// the pipeline, and encodes one while the previous one is written. After each turn the rows in the store are counted.
//
// Example: npm run bench -- stores --turns 1 mongodb

import { setImmediate as nextTurn } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Sink } from '../../sinks/sink.ts'
import type { RecordBatch } from '../../transformers/record-batch.ts'
import { median } from '../median-time.ts'
import { batchesOf } from './batches.ts'
import type { RawStore, StoreToMeasure } from './raw-store.ts'

const stores: readonly StoreToMeasure[] = [
  { name: 'cassandra', rows: 100_000 },
  { name: 'influxdb', rows: 400_000 },
  { name: 'mongodb', rows: 20_000 },
]
const open: Readonly<Record<StoreToMeasure['name'], () => Promise<RawStore>>> = {
  cassandra: async () => (await import('../raw/cassandra.ts')).openRaw(),
  influxdb: async () => (await import('../raw/influxdb.ts')).openRaw(),
  mongodb: async () => (await import('../raw/mongodb.ts')).openRaw(),
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    turns: { type: 'string', default: '5' },
    records: { type: 'string', default: '1' },
    /** Overrides each store's own number. */
    rows: { type: 'string' },
  },
})
const turns = Number(values.turns)
const records = Number(values.records)
const signal = new AbortController().signal
const never = async (): Promise<void> => {
  throw new Error('no row of this benchmark is refused')
}

async function bySink(sink: Sink, batches: readonly RecordBatch[]): Promise<void> {
  let encoded = sink.encode(batches[0]!)
  for (let at = 0; at < batches.length; at++) {
    const before = encoded
    const written = sink.write(before, never, signal)
    written.catch(() => undefined)
    // Lets the sink send before the next batch occupies this turn of the event loop.
    await nextTurn()
    if (at + 1 < batches.length) encoded = sink.encode(batches[at + 1]!)
    await written
    sink.release?.(before)
  }
}

interface Turn {
  readonly perSecond: number
  /** CPU time of this process for each row, in µs. */
  readonly cpuUs: number
}

async function measured(store: RawStore, rows: number, work: () => Promise<void>): Promise<Turn> {
  globalThis.gc?.()
  const cpu = process.cpuUsage()
  const startedMs = performance.now()
  await work()
  const elapsedMs = performance.now() - startedMs
  const { user, system } = process.cpuUsage(cpu)
  const found = await store.count()
  if (found !== rows) throw new Error(`the store has ${found} rows, and ${rows} were written`)
  await store.empty()
  return { perSecond: (rows / elapsedMs) * 1000, cpuUs: (user + system) / rows }
}

const figure = (number: number): string => Math.round(number).toLocaleString('en-US')

async function measure({ name, rows: usual }: StoreToMeasure): Promise<void> {
  const store = await open[name]()
  try {
    const batches = batchesOf(Number(values.rows ?? usual), records, Date.now() * 1000)
    const rows = batches.reduce((sum, batch) => sum + batch.rowCount, 0)
    const sink = await store.openSink()
    await sink.takeNumbers([0])
    const raw: Turn[] = []
    const ours: Turn[] = []
    // The first turn of each is a warm-up.
    for (let turn = 0; turn <= turns; turn++) {
      const ready = store.ready(batches)
      raw.push(await measured(store, rows, () => store.run(ready)))
      ours.push(await measured(store, rows, () => bySink(sink, batches)))
    }
    await sink.close()
    print(store, rows, raw.slice(1), ours.slice(1))
  } finally {
    await store.close()
  }
}

function print({ server, parameters }: RawStore, rows: number, raw: readonly Turn[], ours: readonly Turn[]): void {
  const rate = (some: readonly Turn[]): number => median(some.map(({ perSecond }) => perSecond))
  const cpu = (some: readonly Turn[]): string => median(some.map(({ cpuUs }) => cpuUs)).toFixed(1)
  const ratios = ours.map(({ perSecond }, turn) => perSecond / raw[turn]!.perSecond)
  console.log(`\n${server}: ${figure(rows)} rows, ${records} a message, ${turns} turns of each, medians`)
  console.log(`  bare loop   ${figure(rate(raw)).padStart(9)} rows/s  ${cpu(raw)} us of this process a row   (${parameters})`)
  console.log(`  sink        ${figure(rate(ours)).padStart(9)} rows/s  ${cpu(ours)} us of this process a row`)
  console.log(
    `  ratio       ${median(ratios).toFixed(2)}   (turn by turn ${ratios.map(ratio => ratio.toFixed(2)).join(' ')}; 0.8 is asked)`,
  )
}

const chosen = positionals.length === 0 ? stores : stores.filter(({ name }) => positionals.includes(name))
for (const store of chosen) await measure(store)
