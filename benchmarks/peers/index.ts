// Sluice beside what people would use instead, from one Kafka topic into PostgreSQL: `npm run bench -- peers`.
//
// In rounds, and in turns within a round, of which each begins with another peer, each peer (peer.ts has the contract) stores a full topic as fast as it can,
// and then messages that are sent at 50 and 80 % of its own median maximum. The tables have medians of all rounds, with the least and the most. Every row is
// counted in the store and compared with the ledger of the load, with its value; the rate and the waits come from the times at which the store committed. The
// first fifth of a topic, and the first ten seconds of a steady load, are the warm-up. CPU is that of the peer's process, of all of PostgreSQL's and of the
// broker's.
//
// --kills instead sends messages at a constant rate while the peer is killed ten times (SIGKILL) and the store twice, and says what was lost and doubled, and
// how long the lag lasted. --quick measures one peer beside Sluice, in one round: ten minutes. What cannot be had says why, and is left out;
// so is a peer that ends by itself.
//
// Figures, samples, versions and hardware go into a JSON file, and the chart into an SVG file beside it, in data/peers or --out. The first run builds the peers.
//
// node benchmarks/peers/index.ts [--quick] [--kills] [--peers sluice,telegraf] [--messages 1000000] [--rounds 3] [--seconds 20] [--rate 2000] [--every 25]
//   [--out data/peers]
// --seconds is the length of a steady load, and --rate the messages a second under kills, which come --every so many seconds.
//
// Example: npm run bench -- peers --peers sluice,telegraf --messages 200000 --rounds 1

import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { cpus, release, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startKafka } from '../../test/servers/kafka.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { median } from '../median-time.ts'
import { kafkaConnect } from './kafka-connect.ts'
import { type Limit, measureLimits } from './limits.ts'
import { startLoad } from './load.ts'
import { type Bench, measureKills, measureSteady, measureThroughput } from './measure.ts'
import { type Peer, PeerFailure } from './peer.ts'
import { chart, killsTable, type Result, steadyTable, throughputTable, whole } from './report.ts'
import { rowAtATime } from './row-at-a-time.ts'
import { sluice } from './sluice.ts'
import { telegraf } from './telegraf.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    kills: { type: 'boolean', default: false },
    /** Names; all by default. */
    peers: { type: 'string' },
    messages: { type: 'string' },
    rounds: { type: 'string' },
    /** Of a steady load, without its warm-up. */
    seconds: { type: 'string', default: '20' },
    /** Messages/s under kills, which every peer can store. */
    rate: { type: 'string', default: '2000' },
    /** Seconds from one kill to the next. */
    every: { type: 'string', default: '25' },
    out: { type: 'string', default: 'data/peers' },
  },
})
const all: readonly Peer[] = [sluice, ...telegraf, ...kafkaConnect, rowAtATime]
const quickNames = [sluice.name, 'telegraf']
const names = values.peers?.split(',') ?? (values.quick ? quickNames : all.map(({ name }) => name))
const messages = Number(values.messages ?? (values.quick ? 500_000 : 1_000_000))
const rounds = Number(values.rounds ?? (values.quick ? 1 : 3))
const shares = [50, 80]
/** For a full topic. */
const secondsMax = 90

/** Those that can be had, ready to start. */
async function install(): Promise<Peer[]> {
  const ready: Peer[] = []
  for (const name of names) {
    const peer = all.find(one => one.name === name)
    if (peer === undefined) throw new Error(`--peers: there is no ${name}, but ${all.map(one => one.name).join(', ')}`)
    try {
      await peer.install?.()
      ready.push(peer)
    } catch (error) {
      console.log(`${peer.title} is left out: ${(error as Error).message}`)
    }
  }
  return ready
}

const results: Result[] = (await install()).map(peer => ({ peer, throughput: [], steady: {} }))
const failures: string[] = []

/** A peer that fails is left out from then on. */
async function unlessFailed(result: Result, measure: () => Promise<void>): Promise<void> {
  try {
    await measure()
  } catch (error) {
    if (!(error instanceof PeerFailure)) throw error
    console.log(`FAILED, and left out of the tables: ${error.message}`)
    failures.push(error.message)
    results.splice(results.indexOf(result), 1)
  }
}

/** Each round begins with another one, so that none always finds what the same peer has left to the machine. */
function inTurn(round: number): Result[] {
  const first = (round - 1) % results.length
  return [...results.slice(first), ...results.slice(0, first)]
}

async function measureAll(bench: Bench): Promise<Limit[]> {
  const topic = 'full'
  const ledger = await startLoad({ broker: bench.kafka.brokers[0]!, topic, ledger: join(bench.folder, `${topic}.ledger`), messages }).ledger
  const limits = await measureLimits(bench, topic, ledger)
  for (let round = 1; round <= rounds; round++) {
    for (const result of inTurn(round)) {
      await unlessFailed(result, async () => {
        const one = await measureThroughput(bench, result.peer, topic, ledger, secondsMax)
        result.throughput.push(one)
        console.log(`${result.peer.title}, round ${round}: ${whole(one.messagesPerSecond)} messages/s`)
      })
    }
  }
  for (let round = 1; round <= rounds; round++) {
    for (const result of inTurn(round)) {
      const { peer, throughput, steady } = result
      await unlessFailed(result, async () => {
        for (const share of shares) {
          const rate = Math.round((median(throughput.map(one => one.messagesPerSecond)) * share) / 100)
          const one = await measureSteady(bench, peer, rate, Number(values.seconds))
          ;(steady[share] ??= []).push(one)
          console.log(`${peer.title}, round ${round}, ${whole(rate)} messages/s: p99 ${whole(one.waits.p99)} ms`)
        }
      })
    }
  }
  return limits
}

const kafka = await startKafka({ tuning: 'load' })
const postgres = await startPostgres({ fsync: true, settings: { track_commit_timestamp: 'on' } })
const folder = await mkdtemp(join(tmpdir(), 'sluice-peers-'))
try {
  const bench = { kafka, postgres, folder }
  const machine = { cpu: cpus()[0]!.model, cores: cpus().length, memoryGb: Math.round(totalmem() / 2 ** 30), linux: release() }
  const kafkaVersion = kafka.classPath.match(/kafka-clients-([\d.]+)\.jar/)?.[1]
  const postgresVersion = execFileSync('psql', [postgres.url, '-Atc', 'SHOW server_version']).toString().trim()
  const versions = { node: process.version, postgres: postgresVersion, kafka: kafkaVersion }
  let limits: Limit[] = []
  if (values.kills) {
    for (const result of inTurn(1)) {
      await unlessFailed(result, async () => {
        result.killed = await measureKills(bench, result.peer, Number(values.rate), Number(values.every))
        const { lost, doubled } = result.killed.counts
        console.log(`${result.peer.title}: ${whole(lost)} lost, ${whole(doubled)} doubled`)
      })
    }
    console.log(`\n${killsTable(results)}`)
  } else {
    limits = await measureAll(bench)
    console.log(`\n${throughputTable(results, limits)}\n\n${steadyTable(results)}`)
  }
  const file = join(values.out, `${values.kills ? 'kills' : 'peers'}-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`)
  await mkdir(values.out, { recursive: true })
  await writeFile(`${file}.json`, JSON.stringify({ machine, versions, options: values, limits, results, failures }))
  if (!values.kills) await writeFile(`${file}.svg`, chart(results))
  console.log(
    `\n${machine.cores} cores of ${machine.cpu}, Linux ${machine.linux}; PostgreSQL ${postgresVersion}, Kafka ${kafkaVersion}; ${file}.json`,
  )
} finally {
  await postgres.stop()
  await kafka.stop()
  await rm(folder, { recursive: true, force: true })
}
