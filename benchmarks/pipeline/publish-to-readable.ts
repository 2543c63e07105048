// How long a message takes from its publishing until it can be read in PostgreSQL, through Kafka and the writer, at half of what the writer can store:
// `npm run bench -- publish-to-readable`.
//
// First the writer stores a full topic, which gives its rate. Then, in each turn with a topic and a store of its own, messages of one record are
// published at half of that rate (or at --rate), each at an intended moment that does not depend on earlier ones: a publisher that falls behind, or a
// broker that stalls, counts for each message that should have been sent meanwhile. A message is readable when a query sees the offset behind it,
// which the writer commits together with the rows. Default settings and fsync on; --advised gives the server those of docs/stores/postgres.md.
//
// node benchmarks/pipeline/publish-to-readable.ts [--rate <messages/s>] [--messages 1000000] [--seconds 20] [--turns 3] [--advised]
//
// Example: npm run bench -- publish-to-readable --rate 2000 --seconds 10 --turns 1

import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openServer } from '../../database/server.ts'
import { startKafka } from '../../test/servers/kafka.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { median } from '../median-time.ts'
import { fill, fleetMessage, openTopic, partitions } from './kafka-writer/load.ts'
import { advisedSettings, type Servers, startWriter, writer } from './kafka-writer/measure.ts'
import { bytesOf } from './kafka-writer/raw-copy.ts'

const { values } = parseArgs({
  options: {
    /** Half of the measured rate if it is not given. */
    rate: { type: 'string' },
    /** To measure the rate. */
    messages: { type: 'string', default: '1000000' },
    seconds: { type: 'string', default: '20' },
    turns: { type: 'string', default: '3' },
    advised: { type: 'boolean', default: false },
  },
})
/** Before the messages that count: the writer starts, adds its series, and its code is compiled. */
const warmUpSeconds = 10
/** Between two queries of the store, and between two looks at what is due. */
const pauseMs = 2
const appendsInFlight = 16
const messagesOfAppend = 5000

/** Milliseconds that half of the messages took at most, and 99 of 100. */
interface Waits {
  readonly p50: number
  readonly p99: number
  readonly worst: number
}

interface Turn {
  readonly acknowledged: Waits
  readonly readable: Waits
}

/** What the store had at a moment of `performance.now()`: the next offset by partition. */
interface Look {
  readonly atMs: number
  readonly next: ReadonlyMap<number, number>
}

/** For each partition, by offset, when a message was to be published, as `performance.now()`. */
type Intended = readonly number[][]

async function measure(servers: Servers, rate: number, topic: string): Promise<Turn> {
  const { kafka, postgres } = servers
  const log = await openTopic(kafka.brokers, topic)
  const url = await postgres.createDatabase()
  const store = await openServer({ url, applicationName: 'reader', connectionsMax: 1 })
  const running = await startWriter(servers, url, { topic, group: topic })
  const intended: Intended = Array.from({ length: partitions }, () => [])
  const acknowledgedMs: number[] = []
  const looks: Look[] = []
  const total = Math.round(rate * (warmUpSeconds + Number(values.seconds)))
  const startMs = performance.now()
  const countsFromMs = startMs + warmUpSeconds * 1000
  const intendedAt = (at: number): number => startMs + (at * 1000) / rate

  async function append(first: number, count: number): Promise<void> {
    const messages = Array.from({ length: count }, (_, step) => {
      const createdUs = Math.round((performance.timeOrigin + intendedAt(first + step)) * 1000)
      return fleetMessage({ at: first + step, records: 1, createdUs })
    })
    const positions = await log.append(messages)
    const nowMs = performance.now()
    for (const [step, { partition, offset }] of positions.entries()) {
      const atMs = intendedAt(first + step)
      intended[partition]![offset] = atMs
      if (atMs >= countsFromMs) acknowledgedMs.push(nowMs - atMs)
    }
  }

  async function publish(): Promise<void> {
    const open = new Set<Promise<void>>()
    for (let sent = 0; sent < total; ) {
      const due = Math.min(total, Math.floor(((performance.now() - startMs) * rate) / 1000) + 1)
      const count = Math.min(due - sent, messagesOfAppend)
      if (count > 0) {
        const one = append(sent, count).finally(() => open.delete(one))
        open.add(one)
        sent += count
      }
      if (open.size >= appendsInFlight) await Promise.race(open)
      await wait(sent < due ? 0 : pauseMs)
    }
    await Promise.all(open)
  }

  async function look(): Promise<void> {
    // Until the writer has created the tables.
    while ((await running.stored()) === 0) await wait(pauseMs)
    for (let seen = 0; seen < total; ) {
      const rows = await store.query<{ partition: number; next: number }>(
        'SELECT partition, next_offset::float8 AS next FROM sluice.offsets',
      )
      const next = new Map(rows.map(row => [row.partition, row.next]))
      looks.push({ atMs: performance.now(), next })
      seen = rows.reduce((sum, row) => sum + row.next, 0)
      // Fails if the writer has ended or did not store a message: the end would never be seen.
      if (looks.length % 500 === 0) await running.stored()
      await wait(pauseMs)
    }
  }

  try {
    await Promise.all([publish(), look()])
    await bytesOf(store, 'sluice.records', total, 'public.messages')
    return { acknowledged: waitsOf(acknowledgedMs), readable: waitsOf(readableAfter(intended, looks, countsFromMs)) }
  } finally {
    await running.stop()
    await store.close()
    await log.close()
  }
}

/** How long each message took from its intended moment to the first look that saw it. */
function readableAfter(intended: Intended, looks: readonly Look[], countsFromMs: number): number[] {
  const waits: number[] = []
  for (const [partition, times] of intended.entries()) {
    let at = 0
    for (const [offset, intendedMs] of times.entries()) {
      while ((looks[at]!.next.get(partition) ?? 0) <= offset) at++
      if (intendedMs >= countsFromMs) waits.push(looks[at]!.atMs - intendedMs)
    }
  }
  return waits
}

function waitsOf(milliseconds: readonly number[]): Waits {
  const sorted = Float64Array.from(milliseconds).sort()
  const share = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!
  return { p50: share(0.5), p99: share(0.99), worst: sorted.at(-1)! }
}

async function halfLoad(servers: Servers): Promise<number> {
  const { kafka, postgres } = servers
  const messages = Number(values.messages)
  const load = { topic: 'full', messages, rows: messages }
  await fill(kafka.brokers, load.topic, messages, 1)
  const rates: number[] = []
  // The first one does not count: the servers create their files, and the broker compiles its code.
  for (let turn = 0; turn < 3; turn++) {
    const { messagesPerSecond } = await writer(servers, await postgres.createDatabase(), load, { group: `full-${turn}` })
    if (turn > 0) rates.push(messagesPerSecond)
  }
  const rate = rates.reduce((sum, one) => sum + one, 0) / rates.length
  console.log(`a full topic: ${Math.round(rate).toLocaleString('en')} messages/s`)
  return Math.round(rate / 2)
}

const kafka = await startKafka({ tuning: 'load' })
const postgres = await startPostgres({ fsync: true, settings: values.advised ? advisedSettings : {} })
try {
  const servers = { kafka, postgres }
  const rate = values.rate === undefined ? await halfLoad(servers) : Number(values.rate)
  const turns: Turn[] = []
  for (let turn = 0; turn < Number(values.turns); turn++) turns.push(await measure(servers, rate, `turn-${turn}`))
  console.log(
    `${rate.toLocaleString('en')} messages/s of one record for ${values.seconds} s, fsync on, ` +
      `${values.advised ? 'advised' : 'default'} settings, medians of ${turns.length} turns, ms from the intended publishing`,
  )
  console.log(`${''.padEnd(26)}${['p50', 'p99', 'worst'].map(cell => cell.padStart(10)).join('')}`)
  for (const [name, waits] of [
    ['acknowledged by Kafka', (turn: Turn) => turn.acknowledged],
    ['readable in PostgreSQL', (turn: Turn) => turn.readable],
  ] as const) {
    const cells = (['p50', 'p99', 'worst'] as const).map(key =>
      median(turns.map(turn => waits(turn)[key]))
        .toFixed(1)
        .padStart(10),
    )
    console.log(name.padEnd(26) + cells.join(''))
  }
} finally {
  await postgres.stop()
  await kafka.stop()
}
