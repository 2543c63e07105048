// The memory run: many more messages wait than a slow store takes, and the writer's resident memory is measured. Used by the suite in its
// short form, and by `npm run soak`.

import { setTimeout as wait } from 'node:timers/promises'
import { openKafkaLog } from '../../pipeline/kafka/log.ts'
import { logSettings, silent } from '../pipeline/kafka/stored-messages.ts'
import { messageOf } from './messages.ts'
import { untilReady } from './process.ts'
import { openSite, type Site, sumOf } from './site.ts'
import type { RelationalSite } from './stores/relational.ts'

export interface MemoryPlan {
  readonly messages: number
  readonly workers: number
  readonly seconds: number
  readonly onProgress?: (line: string) => void
}

export interface MemoryReport {
  /** One each half second, from when all messages were in the log. */
  readonly samplesMib: readonly number[]
  readonly peakMib: number
  /** The mean of the last third minus that of the middle one. */
  readonly growthMib: number
  readonly settled: number
  readonly batchesPerSecond: number
}

const sampleMs = 500
/** Each way: a second for each batch. */
const storeLatencyMs = 500
const appendMessages = 2_000
/** Enough to hold each format. */
const firstMessages = 2_000
const appendsMax = 8

/** @throws Error if the writer ends */
export async function memoryRun({ messages, workers, seconds, onProgress }: MemoryPlan): Promise<MemoryReport> {
  // With its default limits, which are what is measured.
  const site = await openSite({ environment: { SVC_WORKERS_COUNT: String(workers) } })
  try {
    // What the first start compiles is in its cache for the next, as in the image: compiling takes 30 MB.
    await untilReady(await site.start(0))
    await site.stop(0)
    const writer = await site.start(0)
    await untilReady(writer)
    // Not earlier, because it would also slow down the writer's start, and what it does once for the first message of each log and format.
    await fill(site, firstMessages, undefined)
    if (!(await site.untilStored(await site.logEnds()))) throw new Error('the writer does not store the first messages')
    site.store.proxy.latency(storeLatencyMs)
    await fill(site, messages, onProgress)
    const samplesMib: number[] = []
    const before = await batchesOf(site)
    const startedMs = performance.now()
    const settledSince = async (): Promise<number> => sumOf(await site.positions()) - firstMessages
    // The names of the first batch are new, and take many turns with the store.
    for (let nth = 1; nth <= (seconds * 1000) / sampleMs || (await settledSince()) === 0; nth++) {
      await wait(startedMs + nth * sampleMs - performance.now())
      samplesMib.push(Math.round(await writer.residentMib()))
      if (nth % 20 === 0) onProgress?.(`${(nth * sampleMs) / 1000} s: ${samplesMib.at(-1)} MiB resident`)
    }
    const settled = await settledSince()
    const batches = (await batchesOf(site)) - before
    const tookSeconds = (performance.now() - startedMs) / 1000
    const third = Math.floor(samplesMib.length / 3)
    const mean = (some: readonly number[]): number => some.reduce((sum, one) => sum + one, 0) / some.length
    return {
      samplesMib,
      peakMib: Math.max(...samplesMib),
      growthMib: Math.round(mean(samplesMib.slice(-third)) - mean(samplesMib.slice(third, 2 * third))),
      settled,
      batchesPerSecond: batches / tookSeconds,
    }
  } finally {
    await site.close()
  }
}

async function fill(site: Site<RelationalSite>, messages: number, onProgress: MemoryPlan['onProgress']): Promise<void> {
  const log = await openKafkaLog(logSettings(site.kafka.brokers, site.topic, { queueBytes: 64 << 20, appendTimeoutMs: 60_000 }), silent)
  const epochSeconds = Math.floor(Date.now() / 1000)
  const underWay = new Set<Promise<unknown>>()
  for (let from = 0; from < messages; from += appendMessages) {
    const some = Array.from(
      { length: Math.min(appendMessages, messages - from) },
      (_, at) => messageOf(from + at, epochSeconds, undefined).outgoing,
    )
    const appending: Promise<unknown> = log.append(some).finally(() => underWay.delete(appending))
    underWay.add(appending)
    if (underWay.size >= appendsMax) await Promise.race(underWay)
    if (from % 200_000 === 0) onProgress?.(`${from} of ${messages} messages wait`)
  }
  await Promise.all(underWay)
  await log.close()
}

/** Number of transactions so far, nearly all of them batches. */
async function batchesOf(site: Site<RelationalSite>): Promise<number> {
  const [row] = await site.store.query<{ commits: number }>(
    'SELECT xact_commit::int AS commits FROM pg_stat_database WHERE datname = current_database()',
  )
  return row!.commits
}
