// Five questions of TSBS (github.com/timescale/tsbs, use case `iot`), asked through the HTTP API of the PostgreSQL reader and, in turns, in SQL on the same
// store. Both answers must be equal.
//
// node benchmarks/readers/trucks.ts [--rows 1000000] [--trucks 400] [--turns 50] [--seed 1]
//
// The trucks are those of `./sluice bench load --mix truck-senml`: readings (7 values) and diagnostics (3), in turn every ten seconds; entries are missing,
// late, or lack a value. They send SenML, of which each value is a row. A channel is a fleet, of which there are four, and the capacities are known beside
// the messages. Fleet, truck and time of a question are random, as there:
//
//   last place    where each truck of a fleet was last
//   low fuel      trucks of a fleet whose last fuel state is below a tenth
//   high load     trucks of a fleet whose last load is above nine tenths of their capacity
//   stationary    trucks of a fleet whose velocity over ten minutes was below 1 on average
//   by truck      where one truck was last
//
// What the API does not compare is compared here, within its time. Before the turns each question is asked with bounds that all trucks are within, so that
// not only empty answers are compared.
//
// Example: npm run bench -- readers trucks --rows 100000 --turns 10

import { parseArgs } from 'node:util'
import { Value } from 'typebox/value'
import { Pool } from 'undici'
import type { SqlValue } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { emptyMessage } from '../../pipeline/source.ts'
import { openDecoder } from '../../pipeline/writer/decode.ts'
import { openPostgresReader } from '../../readers/postgres/reader.ts'
import { openRandom } from '../../roles/tools/bench/measurement.ts'
import { messagesOf } from '../../roles/tools/bench/messages.ts'
import { sinkOptions } from '../../sinks/postgres/options.ts'
import { openSink } from '../../sinks/postgres/sink.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { openTransformer } from '../../transformers/select.ts'
import { median } from '../median-time.ts'
import { authorization, serveReader } from '../reader-server.ts'

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    trucks: { type: 'string', default: '400' },
    turns: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
  },
})
const [rows, trucks, turns, seed] = [Number(values.rows), Number(values.trucks), Number(values.turns), Number(values.seed)]
const fleets = 4
const batchRows = 10_000
const stepUs = 10_000_000 / trucks
const tenMinutesUs = 600_000_000
/** An entry has more than four values. */
const messagesMax = Math.ceil(rows / 4)
/** In the last days, at the start of ten minutes. */
const startUs = Math.floor((Date.now() * 1000 - messagesMax * stepUs * 1.2) / tenMinutesUs) * tenMinutesUs
const signal = new AbortController().signal

/** Trucks with their figures. */
type Answer = readonly (readonly [truck: string, ...figures: number[]])[]
type Given = Readonly<Record<'fleet' | 'truck' | 'from' | 'to', string> & Record<'fuelBelow' | 'loadAbove' | 'velocityBelow', number>>
type Ask = (given: Given) => Promise<Answer>
/** By its name: of the API, and in SQL. */
type Queries = Readonly<Record<string, readonly [api: Ask, sql: Ask]>>
/** A record or a bucket of an answer. */
interface Item {
  readonly Publisher: string
  readonly Name: string
  readonly Value: number
}

const postgres = await startPostgres({ settings: { shared_buffers: '2GB', max_wal_size: '8GB', work_mem: '64MB' } })
const database = await openServer({
  url: await postgres.createDatabase(),
  applicationName: 'benchmark',
  connectionsMax: 8,
  plansEach: true,
})
const trucksOf = new Map<string, Set<string>>()
try {
  const sent = await store()
  const server = await serveReader(openPostgresReader({ database }))
  const pool = new Pool(server.url)
  await measure(sent, await queriesTo(pool))
  await pool.close()
  await server.close()
} finally {
  await database.close()
  await postgres.stop()
}

/** @returns how many messages have the rows */
async function store(): Promise<number> {
  const startedMs = performance.now()
  const logs = [{ logName: 'messages', logId: 'bench', writer: 'bench' }]
  const sink = await openSink({ database, options: Value.Create(sinkOptions), logs })
  await sink.takeNumbers([0])
  const message = { payloadBytes: 262_144, earliestSeconds: 2 ** 28, aheadDays: 366 }
  const decoder = openDecoder({ transformer: openTransformer({ format: 'auto', timeFields: [] }), subscribed: () => true, message })
  const refuse = (): Promise<never> => Promise.reject(new Error('no row of this benchmark is refused'))
  const plan = {
    seed,
    messages: messagesMax,
    devices: trucks,
    channels: fleets,
    mix: { 'truck-senml': 1 },
    invalidShare: 0,
    startUs,
    stepUs,
    protocol: 'http',
  }
  const batch = new RecordBatch()
  let [stored, offset, from] = [0, 0, 0]
  for (const sent of messagesOf(plan)) {
    trucksOf.set(sent.channel, (trucksOf.get(sent.channel) ?? new Set()).add(sent.publisher))
    if (decoder.decode({ ...emptyMessage(), ...sent, offset: offset++ }, logPartition(0, 0), batch) !== undefined) await refuse()
    const count = batch.records.length
    if (count < batchRows && stored + count < rows) continue
    batch.cover(logPartition(0, 0), from, offset)
    await sink.write(sink.encode(batch), refuse, signal)
    batch.clear()
    stored += count
    from = offset
    if (stored >= rows) break
  }
  await sink.close()
  // As after autovacuum.
  await database.execute('VACUUM ANALYZE')
  const [hours, seconds] = [(offset * stepUs) / 3.6e9, (performance.now() - startedMs) / 1000]
  const counts = `${stored.toLocaleString('en-US')} rows of ${trucks} trucks in ${offset.toLocaleString('en-US')} messages`
  console.log(`${counts} over ${hours.toFixed(1)} hours, stored in ${seconds.toFixed(0)} s`)
  return offset
}

/** All items of an answer, page after page: buckets by offset, others by cursor. */
async function read(pool: Pool, channel: string, query: Readonly<Record<string, string>>): Promise<Item[]> {
  const items: Item[] = []
  for (let more: Record<string, string> | undefined = {}; more !== undefined; ) {
    const path = `/channels/${channel}/messages?${new URLSearchParams({ limit: '1000', count: 'none', ...query, ...more }).toString()}`
    const { statusCode, body } = await pool.request({ method: 'GET', path, headers: { authorization } })
    if (statusCode !== 200) throw new Error(`${path}: ${statusCode} ${await body.text()}`)
    const { messages, next_cursor: cursor } = (await body.json()) as { messages: Item[]; next_cursor?: string }
    items.push(...messages)
    const offset = query['aggregation'] !== undefined && messages.length === 1000 ? { offset: String(items.length) } : undefined
    more = cursor === undefined || query['limit'] !== undefined ? offset : { cursor }
  }
  return items
}

async function sql(text: string, given: readonly SqlValue[] = []): Promise<Answer> {
  return (await database.query(text, given)).map(row => Object.values(row) as [string, ...number[]])
}

function only(answer: Answer, isWanted: (figure: number, truck: string) => boolean): Answer {
  return answer.filter(([truck, figure]) => isWanted(figure!, truck))
}

async function queriesTo(pool: Pool): Promise<Queries> {
  await database.execute(`CREATE TABLE trucks AS SELECT publisher AS truck, (ARRAY[1500, 2000, 5000])[1 + right(publisher, 12)::int % 3] AS capacity
    FROM sluice.series GROUP BY 1; ANALYZE trucks`)
  const capacities = new Map((await sql('SELECT truck, capacity FROM trucks')).map(([truck, capacity]) => [truck, capacity!] as const))
  const figures = (items: readonly Item[], field: string): Answer =>
    items.filter(({ Name }) => Name.endsWith(`:${field}`)).map(({ Publisher, Value: figure }) => [Publisher, figure] as const)
  const diagnostics = (fleet: string) => read(pool, fleet, { latest: 'true', subtopic: 'bench.diagnostics' })
  function places(items: readonly Item[]): Answer {
    const longitudes = new Map(figures(items, 'longitude').map(([truck, longitude]) => [truck, longitude!]))
    return figures(items, 'latitude').map(([truck, latitude]) => [truck, latitude!, longitudes.get(truck)!])
  }
  const units = (fleet: string) => Promise.all(['lat', 'lon'].map(unit => read(pool, fleet, { latest: 'true', unit })))
  const [latitude, longitude] = ['lat', 'lon'].map(unit => `max(value) FILTER (WHERE unit = '${unit}') AS ${unit}`)
  const placesSql = `SELECT publisher, ${latitude}, ${longitude} FROM sluice.latest_of($1) WHERE unit IN ('lat', 'lon')`
  const lastSql = 'SELECT publisher, value FROM sluice.latest_of($1)'
  return {
    'last place': [async ({ fleet }) => places((await units(fleet)).flat()), ({ fleet }) => sql(`${placesSql} GROUP BY 1`, [fleet])],
    'low fuel': [
      async ({ fleet, fuelBelow }) => only(figures(await diagnostics(fleet), 'fuel_state'), fuel => fuel < fuelBelow),
      ({ fleet, fuelBelow }) => sql(`${lastSql} WHERE name LIKE '%:fuel_state' AND value < $2`, [fleet, fuelBelow]),
    ],
    'high load': [
      async ({ fleet, loadAbove }) =>
        only(figures(await diagnostics(fleet), 'current_load'), (load, truck) => load / capacities.get(truck)! > loadAbove),
      ({ fleet, loadAbove }) =>
        sql(`${lastSql} JOIN trucks ON truck = publisher WHERE name LIKE '%:current_load' AND value / capacity > $2`, [fleet, loadAbove]),
    ],
    stationary: [
      async ({ fleet, from, to, velocityBelow }) => {
        const asked = { subtopic: 'bench.readings', aggregation: 'avg', interval: '10m', from, to }
        return only(figures(await read(pool, fleet, asked), 'velocity'), velocity => velocity < velocityBelow)
      },
      ({ fleet, from, to, velocityBelow }) =>
        sql(
          `SELECT publisher, avg(value) FROM sluice.of_channel($1) WHERE name LIKE '%:velocity' AND time >= $2 AND time < $3
           GROUP BY 1 HAVING avg(value) < $4`,
          [fleet, from, to, velocityBelow],
        ),
    ],
    'by truck': [
      async ({ fleet, truck }) => places(await read(pool, fleet, { latest: 'true', subtopic: 'bench.readings', publisher: truck })),
      ({ fleet, truck }) => sql(`${placesSql} AND publisher = $2 GROUP BY 1`, [fleet, truck]),
    ],
  }
}

/** @param sent how many messages there are */
async function measure(sent: number, queries: Queries): Promise<void> {
  const random = openRandom(seed)
  const pick = <One>(some: readonly One[]): One => some[Math.floor(random() * some.length)]!
  const iso = (us: number): string => new Date(us / 1000).toISOString()
  function given(): Given {
    const [fleet, known] = pick([...trucksOf])
    const fromUs = startUs + Math.floor((random() * sent * stepUs) / tenMinutesUs) * tenMinutesUs
    const time = { from: iso(fromUs), to: iso(fromUs + tenMinutesUs) }
    return { fleet, truck: pick([...known]), ...time, fuelBelow: 0.1, loadAbove: 0.9, velocityBelow: 1 }
  }
  console.log(`medians of ${turns} turns      trucks   API ms   SQL ms  ratio`)
  for (const [name, [api, bare]] of Object.entries(queries)) {
    const all = { ...given(), fuelBelow: 2, loadAbove: -1, velocityBelow: 101 }
    if (equal(name, await api(all), await bare(all)) === 0) throw new Error(`${name}: no truck is within the widest bounds`)
    const [apiMs, bareMs, found]: [number[], number[], number[]] = [[], [], []]
    // The first turns are a warm-up.
    for (let turn = -5; turn < turns; turn++) {
      const some = given()
      const answers: Answer[] = []
      const sides = [[api, apiMs] as const, [bare, bareMs] as const]
      // The first one finds the caches as the question before left them, so they take turns in being first.
      for (const [ask, times] of turn % 2 === 0 ? sides : sides.toReversed()) {
        const startedMs = performance.now()
        answers.push(await ask(some))
        if (turn >= 0) times.push(performance.now() - startedMs)
      }
      found.push(equal(name, answers[0]!, answers[1]!))
    }
    const [ours, theirs, mean] = [median(apiMs), median(bareMs), found.reduce((sum, one) => sum + one, 0) / found.length]
    const figures = [mean.toFixed(1), ours.toFixed(2), theirs.toFixed(2)].map(figure => figure.padStart(8)).join(' ')
    console.log(`  ${name.padEnd(22)} ${figures} ${(ours / theirs).toFixed(2).padStart(6)}`)
  }
}

/** @returns how many trucks both answers have @throws Error if they differ by more than the order in which numbers were added */
function equal(name: string, one: Answer, other: Answer): number {
  const lines = (answer: Answer): string[] =>
    answer.map(([truck, ...figures]) => `${truck} ${figures.map(figure => figure.toPrecision(12)).join(' ')}`)
  const [first, second] = [one, other].map(answer => lines(answer).sort().join('\n'))
  if (first !== second) throw new Error(`${name}: the answers differ:\n${first}\n\n${second}`)
  return one.length
}
