// The hostile run: messages with any bytes in all their parts flow to writers with any layout of the envelope; at the end each message is stored
// or a dead letter, and tools can read both. Used by the suite in its short form, and by `npm run soak`.

import { sample } from 'fast-check'
import kafkajs from 'kafkajs'
import type { EnvelopeOptions } from '../../../pipeline/envelope/options.ts'
import { connectTo, openAdmin } from '../../../pipeline/kafka/connection.ts'
import { produce } from '../../../pipeline/kafka/producer/requests.ts'
import { describeTopic } from '../../../pipeline/kafka/topics.ts'
import { openRandom } from '../../fuzz/random.ts'
import { almostUsualMessage, hostileLayout, hostileMessage, hostileTimes, recordOf } from '../../pipeline/hostile-messages.ts'
import { connectionTo } from '../../pipeline/kafka/consumer/source-parts.ts'
import { bytesOf, encodeBatch, type RecordFields } from '../../pipeline/kafka/records/record-batches.ts'
import { type Environment, runSluice, untilReady } from '../process.ts'
import { openSite, type Site, shortWaits, sumOf } from '../site.ts'
import type { RelationalSite } from '../stores/relational.ts'
import { stopFault } from '../verdict.ts'

export interface HostilePlan {
  readonly seed: number
  /** Each has a writer with another layout of the envelope. */
  readonly rounds: number
  /** No further round begins after this time. */
  readonly msMax?: number
  readonly batchesPerRound: number
  readonly onProgress?: (line: string) => void
}

export interface HostileReport {
  readonly messages: number
  /** Of these, the ones with any bytes in all their parts. */
  readonly hostile: number
  readonly stored: number
  readonly deadLettered: number
  /** Empty if each message is stored or a dead letter, and no worker ended. */
  readonly faults: readonly string[]
}

const partitions = 3
const messagesPerBatch = 10
/** Of `sluice verify`. */
const verifyFlags: readonly string[] = ['--contents']
/** The writer's default. */
const payloadBytesMax = 256 * 1024
/** Its batch has usual times, so that the broker accepts it whatever the seed. */
const oversized: RecordFields = { key: 'plant', value: new Uint8Array(300_000) }

export async function hostileRun({ seed, rounds, msMax = Number.POSITIVE_INFINITY, ...plan }: HostilePlan): Promise<HostileReport> {
  const startedMs = performance.now()
  const sums = { messages: 0, hostile: 0, stored: 0, deadLettered: 0 }
  const faults: string[] = []
  for (let round = 0; round < rounds && performance.now() - startedMs < msMax; round++) {
    const roundSeed = openRandom(seed, 'hostile', round).below(2 ** 31)
    // The first has the envelope where Sluice writes it.
    const [layout] = round === 0 ? [{}] : sample(hostileLayout, { seed: roundSeed, numRuns: 1 })
    const environment = { ...environmentOf(layout!), SVC_TRANSFORMER_DEFAULT_FORMAT: 'events' }
    const site = await openSite({ partitions, layout: environment, environment: { ...shortWaits, SVC_WORKERS_COUNT: '2' } })
    try {
      const found = await settled(site, roundSeed, plan.batchesPerRound)
      for (const name of ['messages', 'hostile', 'stored', 'deadLettered'] as const) sums[name] += found[name]
      faults.push(...found.faults.map(fault => `round ${round}, ${JSON.stringify(environment)}: ${fault}`))
      plan.onProgress?.(
        `${String(round + 1).padStart(3)}  ${((performance.now() - startedMs) / 1000).toFixed(1)} s  ${found.messages} messages, ${found.hostile} hostile, ${found.stored} stored, ${found.deadLettered} dead letters, ${found.faults.length} faults  ${JSON.stringify(layout)}`,
      )
    } finally {
      await site.close()
    }
  }
  return { ...sums, faults }
}

/** As variables; a NUL cannot be in one. */
function environmentOf(layout: EnvelopeOptions): Environment {
  const variables: Record<string, string> = {}
  for (const [part, places] of Object.entries(layout)) {
    if (places === undefined) continue
    const name = part.replace(/[A-Z]/, letter => `_${letter}`).toUpperCase()
    variables[`SVC_ENVELOPE_${name}`] = places.map(text => text.replace('\0', 'plant')).join(',')
  }
  return variables
}

/** Sends the messages, waits until the writer has settled them, and asks the tools. */
async function settled(site: Site<RelationalSite>, seed: number, batches: number): Promise<HostileReport> {
  await acceptAnyTime(site)
  const writer = await site.start(0)
  await untilReady(writer)
  const accepted = await send(site, seed, batches)
  const ends = await site.logEnds()
  const faults: string[] = []
  // Without any the run would show nothing.
  for (const kind of ['hostile', 'oversized'] as const) if (accepted[kind] === 0) faults.push(`the broker accepted no ${kind} message`)
  if (!(await site.untilStored(ends))) faults.push(`the writer does not advance: ${writer.printed().slice(-3000)}`)
  faults.push(...site.unexpected)
  for (const line of writer.logged()) if (line['level'] === 'error') faults.push(`the writer logged ${JSON.stringify(line)}`)
  faults.push(...(await stopFault(site, 0)))
  let [received, stored, deadLettered] = [0, 0, 0]
  for (const books of await site.store.books()) {
    received += books.received - books.duplicate
    stored += books.stored
    deadLettered += books.dead_lettered
    if (books.filtered !== 0 || books.skipped !== 0 || books.lost !== 0) faults.push(`messages were passed over: ${JSON.stringify(books)}`)
  }
  if (received !== sumOf(ends)) faults.push(`${sumOf(ends)} messages are in the log, and ${received} were received`)
  const tools: [words: readonly string[], codes: readonly (number | string)[]][] = [
    [['verify', site.store.name, ...verifyFlags], [0]],
    // A dead letter that cannot be read, or replayed for another reason than its own, ends them with another code.
    [['dlq', 'ls', '--json'], [0]],
    [
      ['dlq', 'replay', '--all', '--dry-run'],
      [0, 1],
    ],
  ]
  for (const [words, codes] of tools) {
    const { code, printed } = await runSluice(words, site.direct)
    if (!codes.includes(code)) faults.push(`sluice ${words.join(' ')} ended with ${code}: ${printed.slice(-3000)}`)
  }
  return { messages: sumOf(ends), hostile: accepted.hostile, stored, deadLettered, faults }
}

/** By default brokers refuse times after the next hour, and delete old messages. */
async function acceptAnyTime({ tools, topic }: Site): Promise<void> {
  const sides = ['before', 'after'].map(side => ({ name: `message.timestamp.${side}.max.ms`, value: String(2n ** 63n - 1n) }))
  const configEntries = [...sides, { name: 'retention.ms', value: '-1' }]
  await tools.admin.alterConfigs({
    validateOnly: false,
    resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configEntries }],
  })
}

/** How many messages of a kind are in the log. */
interface Accepted {
  hostile: number
  oversized: number
}

/** Batches that no client would build. The broker may refuse one, which is then not in the log. */
async function send({ kafka, topic }: Site, seed: number, batches: number): Promise<Accepted> {
  const accepted: Accepted = { hostile: 0, oversized: 0 }
  const admin = await openAdmin(connectionTo(kafka.brokers))
  try {
    const { leaders } = (await describeTopic(admin, topic))!
    const kinds = [hostileMessage, almostUsualMessage].map(kind =>
      sample(kind, { seed, numRuns: batches * messagesPerBatch }).map(recordOf),
    )
    for (const [number, times] of sample(hostileTimes, { seed, numRuns: batches }).entries()) {
      const partition = number % partitions
      const isUsual = number % 2 === 1
      const kind = kinds[isUsual ? 1 : 0]!
      const messages = number === 1 ? [oversized] : kind.slice(number * messagesPerBatch, (number + 1) * messagesPerBatch)
      const now = BigInt(Date.now())
      const bytes = encodeBatch(messages, isUsual ? { baseTimestamp: now, maxTimestamp: now } : times)
      const [produced] = await produce(await connectTo(admin, leaders[partition]!), topic, [{ partition, bytes }], 10_000)
      if (produced?.errorCode !== 0) continue
      if (!isUsual) accepted.hostile += messages.length
      accepted.oversized += messages.filter(({ value = null }) => bytesOf(value).byteLength > payloadBytesMax).length
    }
    return accepted
  } finally {
    await admin.close()
  }
}
