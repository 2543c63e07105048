// How many requests one reader process serves, compared with a bare fastify route that sends the same bytes: `npm run bench -- readers requests`.
//
// node benchmarks/readers/requests.ts [--connections 16] [--seconds 5] [--turns 3]
//
// Each request returns 100 SenML records. The routes are in this process, and another process sends the load. Two loads: all connections read the same
// page, like those of a dashboard, or each reads the page of a different channel. Three sources of rows: memory, which measures everything except the
// store, without changes and with a new record for each query, so that no page was printed before; and a PostgreSQL server with its driver, where the
// server occupies a core of the machine, so CPU time for each request says more than requests/s.
//
// Example: npm run bench -- readers/requests --seconds 1 --turns 1

import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { fastify } from 'fastify'
import { Value } from 'typebox/value'
import { openServer } from '../../database/server.ts'
import { openPostgresReader } from '../../readers/postgres/reader.ts'
import { noFilters, type Reader, type Row, type SenmlRow } from '../../readers/reader.ts'
import { sinkOptions } from '../../sinks/postgres/options.ts'
import { openSink } from '../../sinks/postgres/sink.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { httpLoad } from '../http-load.ts'
import { median } from '../median-time.ts'
import { authorization, serveReader } from '../reader-server.ts'

const { values } = parseArgs({
  options: {
    connections: { type: 'string', default: '16' },
    seconds: { type: 'string', default: '5' },
    turns: { type: 'string', default: '3' },
  },
})
const turns = Number(values.turns)
const connections = Number(values.connections)
const records = 100
const storedRows = 100_000
const signal = new AbortController().signal
const channels = Array.from({ length: connections }, (_, nth) => `0a1b2c3d-4e5f-4a6b-8c7d-${String(nth).padStart(12, '0')}`)
const loads = { 'all ask for one page': channels.slice(0, 1), 'each asks for its own': channels }

function batchOf(from: number): RecordBatch {
  const batch = new RecordBatch()
  const startUs = Date.now() * 1000 - storedRows * 1000
  for (let offset = from; offset < from + 10_000; offset++) {
    const publisher = `f0e1d2c3-b4a5-4968-8778-${String((offset * 7919) % 500).padStart(12, '0')}`
    const channel = channels[offset % channels.length]!
    batch.beginMessage({ at: logPartition(0, 0), offset, channel, subtopic: 'floor.3.room', publisher, protocol: 'http' })
    const value = 20 + (offset % 97) / 10
    batch.appendRecord(0, 'temperature', 'Cel', startUs + offset * 1000, ValueKind.number, value, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
  }
  batch.cover(logPartition(0, 0), from, from + 10_000)
  return batch
}

/** Creates the rows again for each answer, like a store's driver. */
function fromMemory(rows: readonly Row[], isAtRest: boolean): Reader {
  let asked = 0
  const nothing = async (): Promise<never> => {
    throw new Error('no query of this benchmark')
  }
  return {
    read: async ({ limit }) => {
      const from = isAtRest ? 0 : asked++ % (rows.length - limit)
      return rows.slice(from, from + limit).map(row => ({ ...(row as SenmlRow) }))
    },
    count: async (_selection, max) => max + 1,
    latest: nothing,
    aggregate: nothing,
    formats: nothing,
    check: async () => undefined,
    close: async () => undefined,
  }
}

function pageOf(channel: string): string {
  return `/channels/${channel}/messages?limit=${records}`
}

/** The same bytes and headers, from memory. */
async function serveBare(url: string): Promise<{ url: string; close(): Promise<void> }> {
  const answer = await fetch(url + pageOf(channels[0]!), { headers: { authorization } })
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`)
  const headers = Object.fromEntries([...answer.headers].filter(([name]) => !/^(connection|keep-alive|date|content-length)$/.test(name)))
  const text = await answer.text()
  const app = fastify()
  app.get('/channels/:channel/messages', (_request, reply) => reply.headers(headers).send(text))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() }
}

interface Load {
  readonly perSecond: number
  /** CPU time of this process. */
  readonly cpuUs: number
  readonly answerBytes: number
}

async function load(url: string, asked: readonly string[]): Promise<Load> {
  const options = { url, paths: asked.map(pageOf), connections, seconds: Number(values.seconds), headers: { authorization } }
  const cpu = process.cpuUsage()
  const { perSecond, total, bytes } = await httpLoad(options)
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond, cpuUs: (user + system) / total, answerBytes: bytes / total }
}

async function compare(name: string, reader: Reader): Promise<void> {
  const ours = await serveReader(reader)
  const bare = await serveBare(ours.url)
  for (const [of, asked] of Object.entries(loads)) {
    const turnsOf = { ours: [] as Load[], bare: [] as Load[] }
    // The first turn of each is a warm-up.
    for (let turn = 0; turn <= turns; turn++) {
      turnsOf.bare.push(await load(bare.url, asked))
      turnsOf.ours.push(await load(ours.url, asked))
    }
    print(`${name}, ${of}`, turnsOf.ours.slice(1), turnsOf.bare.slice(1))
  }
  await Promise.all([ours.close(), bare.close()])
}

function print(name: string, ours: readonly Load[], bare: readonly Load[]): void {
  const of = (some: readonly Load[], figure: 'perSecond' | 'cpuUs'): number => median(some.map(one => one[figure]))
  const ratios = ours.map(({ perSecond }, turn) => perSecond / bare[turn]!.perSecond)
  const line = (what: string, some: readonly Load[]): string =>
    `  ${what.padEnd(22)} ${Math.round(of(some, 'perSecond')).toLocaleString('en-US').padStart(8)} requests/s  ${of(some, 'cpuUs').toFixed(0).padStart(5)} us of this process each`
  console.log(`\n${name}: ${records} records an answer, ${Math.round(ours[0]!.answerBytes).toLocaleString('en-US')} bytes`)
  console.log(line('bare route', bare))
  console.log(line('reader', ours))
  console.log(
    `  ratio                  ${median(ratios).toFixed(2)} of the requests (0.6 is asked where no database is the limit), ${(of(bare, 'cpuUs') / of(ours, 'cpuUs')).toFixed(2)} by this process's time`,
  )
}

const postgres = await startPostgres({ settings: { shared_buffers: '512MB' } })
try {
  const database = await openServer({
    url: await postgres.createDatabase(),
    applicationName: 'benchmark',
    connectionsMax: 8,
    plansEach: true,
  })
  const options = Value.Create(sinkOptions)
  const sink = await openSink({ database, options, logs: [{ logName: 'messages', logId: 'bench', writer: 'bench' }] })
  await sink.takeNumbers([0])
  const refuse = async (): Promise<never> => {
    throw new Error('no row of this benchmark is refused')
  }
  for (let from = 0; from < storedRows; from += 10_000) await sink.write(sink.encode(batchOf(from)), refuse, signal)
  await sink.close()
  await database.execute('VACUUM ANALYZE sluice.records, sluice.series, sluice.channels')
  const stored = openPostgresReader({ database })
  const filter = { ...noFilters, channel: channels[0]!, format: 'messages' }
  const rows = await stored.read({ ...filter, direction: 'desc', limit: 5 * records, offset: 0, after: undefined }, signal)
  await compare('rows from memory, at rest', fromMemory(rows, true))
  await compare('rows from memory, a new one each time', fromMemory(rows, false))
  await compare('rows from PostgreSQL', stored)
  await database.close()
} finally {
  await postgres.stop()
}
