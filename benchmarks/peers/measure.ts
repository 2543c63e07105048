// What is measured of a peer: a full topic, messages at a constant rate, and the same while the peer and the store are killed.

import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Ledger } from '../../roles/tools/bench/ledger.ts'
import type { Kafka } from '../../test/servers/kafka.ts'
import type { Postgres } from '../../test/servers/postgres.ts'
import { cpuSeconds, postgresCpuSeconds, residentMbMax } from '../process-figures.ts'
import { type Counts, lagsOf, stretchOf, type Waits, waitsOf } from './count.ts'
import { startLoad } from './load.ts'
import { type Peer, type Running, type Station, startPeer } from './peer.ts'
import { openStore, type Store } from './store.ts'

export interface Bench {
  readonly kafka: Kafka
  readonly postgres: Postgres
  /** For ledgers and the peers' own files. */
  readonly folder: string
}

type Cpu = Readonly<Record<'peer' | 'store' | 'broker', number>>

/** CPU seconds so far. */
export type Sample = Cpu & { readonly atMs: number }

/** A full topic, stored as fast as the peer can. */
export interface Throughput {
  readonly counts: Counts
  /** False if it was stopped before the end, because it was too slow: then what is lost is not known. */
  readonly isComplete: boolean
  readonly messagesPerSecond: number
  /** µs of CPU a message. */
  readonly cpuUs: Cpu
  readonly memoryMb: number
  /** On disk, with indexes. */
  readonly bytesARow: number
  readonly samples: readonly Sample[]
}

/** Messages that are sent at a constant rate. */
export interface Steady {
  readonly counts: Counts
  readonly rate: number
  readonly waits: Waits
}

export interface Killed {
  readonly counts: Counts
  /** As of `Throughput`. */
  readonly isComplete: boolean
  readonly rate: number
  /** Seconds until the lag was gone, after kills of the peer and of the store. */
  readonly lags: { readonly peer: readonly number[]; readonly store: readonly number[] }
  /** How often the peer ended without being killed. */
  readonly ended: number
}

/** The part of the messages that is not measured: code is compiled, tables and connections are new. */
const warmUpShare = 0.2
const warmUpSeconds = 10
/** Before a constant rate, so that the peer has its partitions and connections. */
const firstMessages = 1000
const faults = 12
const storeFaults: ReadonlySet<number> = new Set([3, 8])
/** A message is late that takes longer than any peer does without a fault. */
const lateMs = 3000
const catchUpMsMax = 240_000

let runs = 0

/** A new database, group and folder for the peer. */
async function withRun<T>(bench: Bench, peer: Peer, topic: string, use: (store: Store, station: Station) => Promise<T>): Promise<T> {
  const group = `${peer.name}-${++runs}`
  const folder = join(bench.folder, group)
  await mkdir(folder)
  const store = await openStore(bench.postgres, peer)
  try {
    return await use(store, { broker: bench.kafka.brokers[0]!, topic, group, url: store.url, folder })
  } finally {
    await store.close()
    await rm(folder, { recursive: true, force: true })
  }
}

function acknowledgedBy({ acknowledged }: Ledger): number {
  return acknowledged.reduce((sum, one) => sum + one, 0)
}

async function assertAlive(running: Running): Promise<void> {
  if (!running.alive) throw await running.failure('ended')
}

/** @param ledger of the topic's load */
export function measureThroughput(bench: Bench, peer: Peer, topic: string, ledger: Ledger, secondsMax: number): Promise<Throughput> {
  return withRun(bench, peer, topic, async (store, station) => {
    const samples: Sample[] = []
    const running = await startPeer(peer, station)
    // Its figures are gone a moment before it is known to have ended.
    const ended = async (): Promise<never> => {
      throw await running.failure('ended')
    }
    async function sample(): Promise<void> {
      await assertAlive(running)
      const seconds = [
        cpuSeconds(running.pid).catch(ended),
        postgresCpuSeconds(bench.postgres.folder),
        cpuSeconds(bench.kafka.pid),
      ] as const
      const [own, postgres, broker] = await Promise.all(seconds)
      samples.push({ atMs: Date.now(), peer: own, store: postgres, broker })
    }
    try {
      const isComplete = await store.whenStored(acknowledgedBy(ledger), sample, performance.now() + secondsMax * 1000)
      const memoryMb = await residentMbMax(running.pid).catch(ended)
      await running.end('TERM')
      const { counts, storedMs } = await store.counted(ledger)
      if (counts.rows === 0) throw await running.failure('stored nothing')
      const { fromMs, toMs, messages } = stretchOf(storedMs, warmUpShare)
      const cpuUs = (part: keyof Cpu): number => ((secondsAt(samples, toMs, part) - secondsAt(samples, fromMs, part)) * 1e6) / messages
      return {
        counts,
        isComplete,
        messagesPerSecond: (messages * 1000) / (toMs - fromMs),
        cpuUs: { peer: cpuUs('peer'), store: cpuUs('store'), broker: cpuUs('broker') },
        memoryMb,
        bytesARow: (await store.bytes()) / counts.rows,
        samples,
      }
    } finally {
      await running.end('KILL')
    }
  })
}

/** Between two samples, in proportion. */
export function secondsAt(samples: readonly Sample[], atMs: number, of: keyof Cpu): number {
  const next = samples.findIndex(sample => sample.atMs >= atMs)
  if (next <= 0) return samples.at(next)?.[of] ?? Number.NaN
  const [before, after] = [samples[next - 1]!, samples[next]!]
  return before[of] + ((after[of] - before[of]) * (atMs - before.atMs)) / (after.atMs - before.atMs)
}

/** A peer that has stored its first messages, and a load that begins. */
interface Started {
  readonly store: Store
  readonly running: Running
  readonly load: ReturnType<typeof startLoad>
  readonly start: () => Promise<Running>
}

function withLoad<T>(bench: Bench, peer: Peer, rate: number, seconds: number, use: (started: Started) => Promise<T>): Promise<T> {
  const topic = `${peer.name}-${runs + 1}`
  return withRun(bench, peer, topic, async (store, station) => {
    const { broker, folder } = station
    await startLoad({ broker, topic, ledger: join(folder, 'first.ledger'), messages: firstMessages }).ledger
    const running = await startPeer(peer, station)
    await store.whenStored(firstMessages, () => assertAlive(running))
    const load = startLoad({ broker, topic, ledger: join(folder, 'steady.ledger'), messages: Math.round(rate * seconds), rate })
    return use({ store, running, load, start: () => startPeer(peer, station) })
  })
}

export function measureSteady(bench: Bench, peer: Peer, rate: number, seconds: number): Promise<Steady> {
  return withLoad(bench, peer, rate, warmUpSeconds + seconds, async ({ store, running, load }) => {
    try {
      const ledger = await load.ledger
      await store.whenStored(firstMessages + acknowledgedBy(ledger), () => assertAlive(running))
      const { counts, storedMs } = await store.counted(ledger)
      return { counts, rate, waits: waitsOf(ledger, storedMs, rate * warmUpSeconds) }
    } finally {
      await running.end('TERM')
    }
  })
}

/** Ten kills of the peer and two of the store, each so many seconds after the one before. A peer that ends is started again, as a supervisor would. */
export function measureKills(bench: Bench, peer: Peer, rate: number, everySeconds: number): Promise<Killed> {
  // Longer than the kills take, with the restarts of the store; then it is stopped.
  return withLoad(bench, peer, rate, everySeconds * (faults + 4), async ({ store, running: first, start, load }) => {
    let [running, ended] = [first, 0]
    const revive = async (): Promise<void> => {
      if (running.alive) return
      ended++
      running = await start()
    }
    const pass = async (): Promise<void> => {
      for (const endMs = performance.now() + everySeconds * 1000; performance.now() < endMs; await wait(1000)) await revive()
    }
    try {
      const faultsMs: number[] = []
      for (let fault = 0; fault < faults; fault++) {
        await pass()
        faultsMs.push(Date.now())
        if (storeFaults.has(fault)) await bench.postgres.restart('immediate')
        else {
          await running.end('KILL')
          running = await start()
        }
      }
      await pass()
      load.stop()
      const ledger = await load.ledger
      const isComplete = await store.whenStored(firstMessages + acknowledgedBy(ledger), revive, performance.now() + catchUpMsMax)
      const { counts, storedMs } = await store.counted(ledger)
      const lags = lagsOf(ledger, storedMs, faultsMs, lateMs)
      const those = (isStore: boolean): number[] => lags.filter((_, fault) => storeFaults.has(fault) === isStore)
      return { counts, isComplete, rate, lags: { peer: those(false), store: those(true) }, ended }
    } finally {
      load.stop()
      await running.end('KILL')
    }
  })
}
