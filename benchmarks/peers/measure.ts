// One run of a peer: the way that is the same for all of them.

import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openServer } from '../../database/server.ts'
import type { Ledger } from '../../roles/tools/bench/ledger.ts'
import type { Kafka } from '../../test/servers/kafka.ts'
import type { Postgres } from '../../test/servers/postgres.ts'
import { cpuSeconds, postgresCpuSeconds, residentMbMax } from '../process-figures.ts'
import { type Counted, countStore, lagsOf, stretchOf, type Waits, waitsOf } from './count.ts'
import { startLoad } from './load.ts'
import { type Peer, type Running, type Station, startPeer } from './peer.ts'

export interface Bench {
  readonly kafka: Kafka
  readonly postgres: Postgres
  /** For ledgers and the peers' own files. */
  readonly folder: string
}

/** CPU seconds so far. */
export interface Sample {
  readonly atMs: number
  readonly peer: number
  readonly store: number
  readonly broker: number
}

export type CountedRows = Omit<Counted, 'storedMs'>

/** A full topic, stored as fast as the peer can. */
export interface Throughput {
  readonly counted: CountedRows
  /** False if it was stopped before the end, because it was too slow: then what is lost is not known. */
  readonly isComplete: boolean
  readonly messagesPerSecond: number
  /** µs of CPU a message. */
  readonly cpuUs: { readonly peer: number; readonly store: number; readonly broker: number }
  readonly memoryMb: number
  /** On disk, with indexes. */
  readonly bytesARow: number
  readonly samples: readonly Sample[]
}

/** Messages that are sent at a constant rate. */
export interface Steady {
  readonly counted: CountedRows
  readonly rate: number
  readonly waits: Waits
}

export interface Killed {
  readonly counted: CountedRows
  readonly rate: number
  /** Seconds until the lag was gone. */
  readonly lags: { readonly peer: readonly number[]; readonly store: readonly number[] }
  /** How often the peer ended without being killed. */
  readonly ended: number
}

/** The part of the messages that is not measured: code is compiled, tables and connections are new. */
const warmUpShare = 0.2
export const warmUpSeconds = 10
const sampleMs = 500
/** As long as rows may wait for a flush or a rebalance. */
const stillMsMax = 60_000
/** Before the rows are counted, which costs the server too much to do it often. */
const stillMs = 2000
const storeKills: ReadonlySet<number> = new Set([3, 8])
const faults = 12
/** A message is late that takes longer than any peer does without a fault. */
export const lateMs = 3000

let runs = 0

interface Opened {
  readonly station: Station
  /** Bytes of the table without its indexes; 0 as long as it, or the server, is not there. */
  size(): Promise<number>
  query(sql: string): Promise<number>
  close(): Promise<void>
}

async function open(bench: Bench, peer: Peer, topic: string): Promise<Opened> {
  const group = `${peer.name}-${++runs}`
  const folder = join(bench.folder, group)
  await mkdir(folder)
  const url = await bench.postgres.createDatabase()
  const store = await openServer({ url, applicationName: 'benchmark', connectionsMax: 1 })
  for (const statement of peer.schema) await store.execute(statement)
  // What the run before left to write is not this peer's.
  await store.execute('CHECKPOINT')
  const query = async (sql: string): Promise<number> => (await store.query<{ found: number }>(sql))[0]!.found
  return {
    station: { broker: bench.kafka.brokers[0]!, topic, group, url, folder },
    size: () => query(`SELECT ${sumOf(peer.table, 'pg_relation_size')} AS found`).catch(() => 0),
    query,
    async close() {
      await store.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Of a table and its partitions. */
function sumOf(table: string, size: string): string {
  const parts = `SELECT to_regclass('${table}')::oid UNION SELECT relid FROM pg_partition_tree(to_regclass('${table}'))`
  return `(SELECT coalesce(sum(${size}(oid)), 0)::float8 FROM pg_class WHERE oid IN (${parts}))`
}

/** Resolves when the table has every message, with true; with false if it has not grown for a long time, or at `deadlineMs`. */
async function whenStored(
  { size, query }: Opened,
  { rows }: Peer,
  messages: number,
  deadlineMs: number,
  each: () => Promise<void>,
): Promise<boolean> {
  let [grown, grownMs, counted] = [0, performance.now(), 0]
  while (performance.now() < deadlineMs) {
    await each()
    const [bytes, nowMs] = [await size(), performance.now()]
    if (bytes > grown) [grown, grownMs] = [bytes, nowMs]
    if (nowMs - grownMs > stillMsMax) return false
    if (nowMs - grownMs > stillMs && counted < nowMs - stillMs) {
      if (grown > 0 && (await query(`SELECT count(DISTINCT sent_us)::float8 AS found FROM (${rows}) AS stored`)) >= messages) return true
      counted = performance.now()
    }
    await wait(sampleMs)
  }
  return false
}

const acknowledgedBy = ({ acknowledged }: Ledger): number => acknowledged.reduce((sum, one) => sum + one, 0)

function assertAlive({ title }: Peer, running: Running): void {
  if (!running.alive) throw new Error(`${title} ended:\n${running.printed}`)
}

/** @param ledger of the topic's load */
export async function measureThroughput(bench: Bench, peer: Peer, topic: string, ledger: Ledger, secondsMax: number): Promise<Throughput> {
  const opened = await open(bench, peer, topic)
  const { station } = opened
  const samples: Sample[] = []
  try {
    const running = await startPeer(peer, station)
    let [isComplete, memoryMb] = [false, 0]
    try {
      isComplete = await whenStored(opened, peer, acknowledgedBy(ledger), performance.now() + secondsMax * 1000, async () => {
        assertAlive(peer, running)
        const [own, store, broker] = [cpuSeconds(running.pid), postgresCpuSeconds(bench.postgres.folder), cpuSeconds(bench.kafka.pid)]
        samples.push({ atMs: Date.now(), peer: await own, store: await store, broker: await broker })
      })
      memoryMb = await residentMbMax(running.pid)
    } finally {
      await running.end('SIGTERM')
    }
    const bytes = await opened.query(`SELECT ${sumOf(peer.table, 'pg_total_relation_size')} AS found`)
    const { storedMs, ...counted } = await countStore(station.url, peer.rows, ledger)
    const { fromMs, toMs, messages } = stretchOf(storedMs, warmUpShare)
    const cpuUs = (of: 'peer' | 'store' | 'broker') => ((secondsAt(samples, toMs, of) - secondsAt(samples, fromMs, of)) * 1e6) / messages
    return {
      counted,
      isComplete,
      messagesPerSecond: (messages * 1000) / (toMs - fromMs),
      cpuUs: { peer: cpuUs('peer'), store: cpuUs('store'), broker: cpuUs('broker') },
      memoryMb,
      bytesARow: bytes / counted.rows,
      samples,
    }
  } finally {
    await opened.close()
  }
}

/** Between two samples, in proportion. */
export function secondsAt(samples: readonly Sample[], atMs: number, of: 'peer' | 'store' | 'broker'): number {
  const next = samples.findIndex(sample => sample.atMs >= atMs)
  if (next <= 0) return samples.at(next)?.[of] ?? Number.NaN
  const [before, after] = [samples[next - 1]!, samples[next]!]
  return before[of] + ((after[of] - before[of]) * (atMs - before.atMs)) / (after.atMs - before.atMs)
}

/** Starts the peer on a new topic with a few messages, and resolves when they are stored. */
async function startReady(bench: Bench, peer: Peer): Promise<{ opened: Opened; running: Running; topic: string }> {
  const topic = `${peer.name}-${runs + 1}`
  const [broker] = bench.kafka.brokers
  const first = await startLoad({ broker: broker!, topic, ledger: join(bench.folder, `${topic}.first`), messages: 1000 }).ledger
  const opened = await open(bench, peer, topic)
  const running = await startPeer(peer, opened.station)
  await whenStored(opened, peer, acknowledgedBy(first), performance.now() + 2 * stillMsMax, async () => assertAlive(peer, running))
  return { opened, running, topic }
}

export async function measureSteady(bench: Bench, peer: Peer, rate: number, seconds: number): Promise<Steady> {
  const { opened, running, topic } = await startReady(bench, peer)
  try {
    const messages = Math.round(rate * (warmUpSeconds + seconds))
    const load = startLoad({ broker: opened.station.broker, topic, ledger: join(bench.folder, `${topic}.ledger`), messages, rate })
    const ledger = await load.ledger
    await whenStored(opened, peer, acknowledgedBy(ledger) + 1000, Number.POSITIVE_INFINITY, async () => assertAlive(peer, running))
    const { storedMs, ...counted } = await countStore(opened.station.url, peer.rows, ledger)
    return { counted, rate, waits: waitsOf(ledger, storedMs, rate * warmUpSeconds) }
  } finally {
    await running.end('SIGTERM')
    await opened.close()
  }
}

/** Ten kills of the peer and two of the store, each so many seconds after the one before. A peer that ends is started again, as a supervisor would. */
export async function measureKills(bench: Bench, peer: Peer, rate: number, everySeconds: number): Promise<Killed> {
  const { opened, running: first, topic } = await startReady(bench, peer)
  let [running, ended] = [first, 0]
  const restart = async (): Promise<void> => void (running = await startPeer(peer, opened.station))
  const revive = async (): Promise<void> => {
    if (running.alive) return
    ended++
    await restart()
  }
  try {
    const messages = Math.round(rate * everySeconds * (faults + 2) * 1.2)
    const load = startLoad({ broker: opened.station.broker, topic, ledger: join(bench.folder, `${topic}.ledger`), messages, rate })
    const faultsMs: number[] = []
    for (let fault = 0; fault < faults; fault++) {
      for (const endMs = performance.now() + everySeconds * 1000; performance.now() < endMs; await wait(1000)) await revive()
      faultsMs.push(Date.now())
      if (storeKills.has(fault)) await bench.postgres.restart('immediate')
      else {
        await running.end('SIGKILL')
        await restart()
      }
    }
    for (const endMs = performance.now() + everySeconds * 1000; performance.now() < endMs; await wait(1000)) await revive()
    load.stop()
    const ledger = await load.ledger
    await whenStored(opened, peer, acknowledgedBy(ledger) + 1000, performance.now() + 4 * stillMsMax, revive)
    const { storedMs, ...counted } = await countStore(opened.station.url, peer.rows, ledger)
    const lags = lagsOf(ledger, storedMs, faultsMs, lateMs)
    const of = (isStore: boolean): number[] => lags.filter((_, fault) => storeKills.has(fault) === isStore)
    return { counted, rate, lags: { peer: of(false), store: of(true) }, ended }
  } finally {
    await running.end('SIGKILL')
    await opened.close()
  }
}
