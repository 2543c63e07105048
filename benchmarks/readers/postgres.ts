// The PostgreSQL reader compared with bare statements for the same data, in turns on one connection: `npm run bench -- readers postgres`.
//
// node benchmarks/readers/postgres.ts [--rows 10000000] [--turns 300] [--limit 10]
//
// A fifth of the rows are in one channel of 500 publishers, one of which sends a hundredth of what the others do, the rest in 1,000 channels of ten; all
// are spread over thirty days. The sink stores them in batches like a writer's. The reader's side is everything behind the HTTP server: request, statement,
// rows, total, next cursor and the answer's text. The bare side only gets the rows of its statement from the driver. The newest rows of 100 channels in one
// request are compared with a page of each, as many at once.
//
// Example: npm run bench -- readers/postgres --rows 1000000 --turns 50

import { parseArgs } from 'node:util'
import { Value } from 'typebox/value'
import { eachAtOnce } from '../../config/each-at-once.ts'
import type { Database, SqlValue } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { pageBytes } from '../../readers/answers/record-json.ts'
import { channelsAtOnceMax } from '../../readers/channels/merge.ts'
import { openCursors } from '../../readers/cursor.ts'
import { answerRows } from '../../readers/paging.ts'
import { openPostgresReader } from '../../readers/postgres/reader.ts'
import { canonicalRequest, requestOf } from '../../readers/request.ts'
import { sinkOptions } from '../../sinks/postgres/options.ts'
import { openSink } from '../../sinks/postgres/sink.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { median } from '../median-time.ts'

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000000' },
    turns: { type: 'string', default: '300' },
    limit: { type: 'string', default: '10' },
  },
})
const rows = Number(values.rows)
const turns = Number(values.turns)
const limit = Number(values.limit)
const depth = rows / 10
const batchRows = 10_000
const spanUs = 30 * 86_400_000_000
const startUs = Date.now() * 1000 - spanUs
const publisherOf = (nth: number): string => `f0e1d2c3-b4a5-4968-8778-${String(nth).padStart(12, '0')}`
const rarest = publisherOf(499)
const channelOf = (nth: number): string => `0a1b2c3d-4e5f-4a6b-8c7d-${String(nth).padStart(12, '0')}`
const busy = channelOf(0)
const hundred = Array.from({ length: 100 }, (_, nth) => channelOf(1 + nth))
const signal = new AbortController().signal

/** Every fifth row is in the busy channel. Multiplying by a prime mixes its publishers. */
function append(batch: RecordBatch, offset: number): void {
  const isBusy = offset % 5 === 0
  const nth = isBusy ? offset / 5 : offset
  const turn = (nth * 7919) % 500
  const [channel, publisher] = isBusy
    ? [busy, turn === 499 && Math.floor(nth / 500) % 100 !== 0 ? publisherOf(nth % 499) : publisherOf(turn)]
    : [channelOf(1 + ((nth * 7919) % 1000)), publisherOf(1000 + ((nth * 7919) % 1000) * 10 + (nth % 10))]
  batch.beginMessage({ at: logPartition(0, 0), offset, channel, subtopic: 'floor.3.room', publisher, protocol: 'http' })
  const timeUs = startUs + Math.floor((offset / rows) * spanUs)
  batch.appendRecord(0, 'temperature', 'Cel', timeUs, ValueKind.number, 20 + (offset % 97) / 10, undefined, Number.NaN, Number.NaN)
  batch.endMessage()
}

async function fill(database: Database): Promise<void> {
  const options = Value.Create(sinkOptions)
  const sink = await openSink({ database, options, logs: [{ logName: 'messages', logId: 'bench', writer: 'bench' }] })
  await sink.takeNumbers([0])
  const batch = new RecordBatch()
  const refuse = async (): Promise<never> => {
    throw new Error('no row of this benchmark is refused')
  }
  for (let from = 0; from < rows; from += batchRows) {
    batch.clear()
    for (let offset = from; offset < from + batchRows; offset++) append(batch, offset)
    batch.cover(logPartition(0, 0), from, from + batchRows)
    await sink.write(sink.encode(batch), refuse, signal)
    if (process.stderr.isTTY) process.stderr.write(`\r${(from + batchRows).toLocaleString('en-US')} rows stored `)
  }
  await sink.close()
  // As after autovacuum.
  await database.execute('VACUUM ANALYZE sluice.records, sluice.series, sluice.channels')
}

const columns =
  'channel, subtopic, publisher, protocol, name, unit, time, value, string_value, bool_value, data_value, sum, update_time, position, index'
const newestFirst = 'ORDER BY time DESC, position DESC, index DESC'
interface Row {
  readonly name: string
  readonly ours: () => Promise<unknown>
  readonly bare?: () => Promise<unknown>
  readonly turns?: number
}
async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

async function measure(database: Database): Promise<void> {
  const parts = { reader: openPostgresReader({ database }), cursors: openCursors(Buffer.alloc(32, 7)), countMax: 10_000 }

  /** A request as the route passes it on. */
  async function ours(parameters: Readonly<Record<string, string>>, publisher?: string, channels = [busy]): Promise<string> {
    const { request } = requestOf(parameters, channels, publisher, 1000)
    if (request.kind === 'export' || request.kind === 'aggregate') throw new Error('no request of this benchmark')
    const { items, total, nextCursor } = await answerRows(parts, request, signal)
    const frame = { total, offset: request.offset, limit: request.limit, format: request.filter.format, nextCursor }
    return pageBytes(frame, items).toString()
  }

  const bare = (sql: string, given: readonly SqlValue[]) => async (): Promise<void> => {
    await database.query(sql, given)
  }
  const page = bare(`SELECT ${columns} FROM sluice.of_channel($1) ${newestFirst} LIMIT ${limit + 1}`, [busy])
  const counted = bare(`SELECT count(*) FROM (SELECT 1 FROM sluice.of_channel($1) LIMIT 10001) AS seen`, [busy])

  // Where the page at that depth begins, found once like a client does: page after page.
  const first = JSON.parse(await ours({ limit: '1000' })) as { next_cursor: string }
  let cursor = first.next_cursor
  for (let seen = 1000; seen < depth; seen += 1000)
    cursor = (JSON.parse(await ours({ limit: '1000', cursor })) as { next_cursor: string }).next_cursor
  const { key } = parts.cursors.decode(cursor, canonicalRequest(requestOf({}, [busy], undefined, 1000).request))!
  const deep = bare(
    `SELECT ${columns} FROM sluice.of_channel($1) WHERE time <= timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
     AND (time, position, index) < (timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3::bigint, $4::integer) ${newestFirst} LIMIT ${limit + 1}`,
    [busy, key.timeNs / 1000n, key.position, key.index],
  )
  const latest = bare(
    `SELECT * FROM (SELECT DISTINCT ON (publisher, subtopic, name) ${columns} FROM sluice.of_channel($1)
     ORDER BY publisher, subtopic, name, time DESC, position DESC, index DESC) AS newest ${newestFirst} LIMIT ${limit + 1}`,
    [busy],
  )

  const asked = { limit: String(limit) }
  const all: readonly Row[] = [
    { name: 'first page, count=none', ours: () => ours({ ...asked, count: 'none' }), bare: page },
    { name: 'first page with its total', ours: () => ours(asked), bare: async () => [await page(), await counted()] },
    { name: `page behind ${depth.toLocaleString('en-US')} by cursor`, ours: () => ours({ ...asked, cursor }), bare: deep },
    { name: 'latest', ours: () => ours({ ...asked, latest: 'true' }), bare: latest, turns: 7 },
    { name: 'first page of the rarest publisher', ours: () => ours(asked, rarest) },
    { name: 'first page of a usual publisher', ours: () => ours(asked, publisherOf(7)) },
  ]

  const times = all.map(() => ({ ours: [] as number[], bare: [] as number[] }))
  for (let turn = 0; turn < turns + 5; turn++) {
    for (const [at, row] of all.entries()) {
      if (turn >= (row.turns ?? turns) + 5) continue
      // The first one finds the processor's caches as the previous request left them, so they take turns in being first.
      const isOursFirst = turn % 2 === 0
      let one = isOursFirst ? await milliseconds(row.ours) : Number.NaN
      const other = row.bare === undefined ? Number.NaN : await milliseconds(row.bare)
      if (!isOursFirst) one = await milliseconds(row.ours)
      // The first turns are a warm-up.
      if (turn < 5) continue
      times[at]!.ours.push(one)
      times[at]!.bare.push(other)
    }
  }
  console.log(`pages of ${limit}, medians of ${turns} turns (latest: 7), ms`)
  const medians = times.map(({ ours: mine, bare: theirs }) => [median(mine), median(theirs)] as const)
  for (const [at, { name }] of all.entries()) {
    const [mine, theirs] = medians[at]!
    const against = Number.isNaN(theirs)
      ? ''
      : `   bare ${theirs.toFixed(3).padStart(9)}   ratio ${(mine / theirs).toFixed(2)} (1.5 is allowed)`
    console.log(`  ${name.padEnd(38)} ${mine.toFixed(3).padStart(9)}${against}`)
  }
  const [none, whole, far, , rare] = medians.map(([mine]) => mine)
  console.log(
    `  depth against the first page: ${(far! / none!).toFixed(2)} without its total, ${(far! / whole!).toFixed(2)} with it (1.2 is allowed)`,
  )
  console.log(`  the rarest publisher against the first page: ${(rare! / whole!).toFixed(2)} (5 is allowed)`)

  for (const latest of ['false', 'true']) {
    const newest = { limit: '100', count: 'none', latest }
    const [together, apart]: [number[], number[]] = [[], []]
    for (let turn = 0; turn < 10; turn++) {
      together.push(await milliseconds(() => ours(newest, undefined, hundred)))
      apart.push(
        await milliseconds(() => eachAtOnce(hundred, channelsAtOnceMax, async channel => void (await ours(newest, undefined, [channel])))),
      )
    }
    const what = latest === 'true' ? 'the newest of each series' : 'the newest 100 rows'
    console.log(
      `  ${what} of 100 channels: ${median(together).toFixed(1)} ms in one request, ${median(apart).toFixed(1)} ms in 100 requests`,
    )
  }
}

const postgres = await startPostgres({ settings: { shared_buffers: '2GB', max_wal_size: '8GB', work_mem: '64MB' } })
try {
  const database = await openServer({
    url: await postgres.createDatabase(),
    applicationName: 'benchmark',
    connectionsMax: 1,
    plansEach: true,
  })
  const filledMs = performance.now()
  await fill(database)
  console.log(`\n${rows.toLocaleString('en-US')} rows stored in ${Math.round((performance.now() - filledMs) / 1000)} s`)
  await measure(database)
  await database.close()
} finally {
  await postgres.stop()
}
