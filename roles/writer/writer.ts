// The role `writer`: a pool of workers that read messages from Kafka and store each exactly once; this thread supervises them and serves health.

import { Session } from 'node:inspector/promises'
import { Worker } from 'node:worker_threads'
import { Registry } from 'prom-client'
import { aborted } from '../../config/aborting.ts'
import { type Logger, openLogger } from '../../config/logger.ts'
import { factOf, openOutages } from '../../config/outage.ts'
import { openWhenThere, type ProcessScope, runProcess } from '../../config/run-process.ts'
import { warning } from '../../http/health/checks.ts'
import { kafkaConnection } from '../../pipeline/kafka/connection.ts'
import { consumerGroup, isPattern, wantedTopics } from '../../pipeline/kafka/topic-patterns.ts'
import type { Topic } from '../../pipeline/kafka/topics.ts'
import { workInMainThread } from '../../pipeline/writer/workers/main-thread.ts'
import { openWorkerPool, type WorkerPool, type WorkerThread } from '../../pipeline/writer/workers/pool.ts'
import { storeKind } from '../stores/index.ts'
import { databaseNames, type StoreName } from '../stores/store.ts'
import { workersOf, writerLogCheck } from './checks.ts'
import { type GroupWatch, openGroupWatch } from './group-watch.ts'
import { openHealth } from './health.ts'
import type { WriterOptions } from './options.ts'
import { openWriterTopics, watchTopics } from './topics.ts'
import type { WorkerSettings } from './worker.ts'

const maintenanceIntervalMs = 6 * 3600 * 1000
/** By then the workers have created the schema if it was missing. */
const firstMaintenanceMs = 60_000
/** After the start, which it would make longer, and before most of the work. */
const giveBackMemoryMs = 30_000
/** Part of the time that a stop may take: for components that close after the workers. */
const closeMsMax = 1_000
/**
 * Size of a worker's young generation: 16 MB stay resident with it, and 64 MB with V8's default. A message with three rows costs 10.9 µs of
 * CPU instead of 10.2, which is within the noise of two runs; two workers need 96 MB less.
 */
const youngGenerationMbMax = 24

/**
 * Starts a writer, prints the address of its health, and resolves when it has stopped after a signal and stored all messages it had read. If
 * its log or store is away it starts anyway, and becomes ready when they are available.
 *
 * @throws SystemicError, ListenError, SecretError: errors that an operator can fix, with a message that says how
 */
export async function writer(store: StoreName, options: WriterOptions, version: string): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, options.process, scope => serve(store, options, version, logger, scope))
}

async function serve(store: StoreName, options: WriterOptions, version: string, logger: Logger, scope: ProcessScope): Promise<void> {
  const { signal, closeLater } = scope
  const name = options.log.group ?? store
  let pool = undefined as WorkerPool | undefined
  let groupWatch = undefined as GroupWatch | undefined
  let waitsFor: Error | undefined
  /** Why a worker is not running, if known. */
  const failure = (): Error | undefined => pool?.failure() ?? waitsFor
  /** Health reports what workers observe of the log and the store; it does not query them itself. */
  const unless = (concerns: (failure: Error) => boolean): undefined => {
    const met = failure()
    if (met !== undefined && concerns(met)) throw met
  }

  const checks = {
    writer: async () => {
      if (pool?.state() === 'running') return 'running'
      throw failure() ?? new Error('the writer is not running')
    },
    log: async () => unless(isOfLog),
    store: async () => unless(error => !isOfLog(error)),
    partitions: async () => (groupWatch?.isUnread() === true ? warning : undefined),
  }
  const ready = (): boolean => pool?.state() === 'running'
  const registry = new Registry()
  const outages = openOutages(logger, registry, name, {
    log: 'Kafka',
    store: databaseNames[store],
    dead_letters: 'the topic of dead letters',
  })
  const metrics = async (): Promise<string> => (await pool?.metrics(await registry.getMetricsAsJSON())) ?? (await registry.metrics())
  await openHealth({ options, version, logger, checks, ready, metrics }, closeLater)

  const connection = await kafkaConnection(options.log)
  const findTopics = (create: boolean): Promise<readonly Topic[]> => openWriterTopics(connection, name, options, create, logger)
  const outage = outages.report('log')
  const logCheck = writerLogCheck(store, options)
  const found = await openWhenThere({
    async open() {
      await logCheck.run(sentence => logger.warn(sentence))
      return await findTopics(options.log.create)
    },
    isAway: logCheck.isAway,
    outage: {
      ...outage,
      failed(error, next) {
        waitsFor = error as Error
        outage.failed(error, next)
      },
    },
    signal,
  })
  if (found === undefined) return
  /** By log: new ones are appended, so that the others keep their index. */
  let topics = found
  waitsFor = undefined
  const hasPattern = wantedTopics(options.log).some(isPattern)
  const partitions = topics.reduce((sum, topic) => sum + topic.partitions, 0)
  const { count, memoryBytes } = workersOf(options, topics)
  const group = consumerGroup(store, topics[0]!.name, options.log.group)
  const settings = { store, name, group, options, connection }
  // Opened before the pool and so closed after it: it cannot keep the workers from storing messages that they have read.
  await keepUp(store, options, name, logger, closeLater)
  pool = openWorkerPool({
    count: Math.max(count, 1),
    start: worker => startWorker({ ...settings, topics: topics.map(topic => ({ name: topic.name, id: topic.id })), worker }, count === 0),
    outages,
    logger,
    stopMsMax: options.process.stopSeconds * 1000 - closeMsMax,
  })
  const opened = pool
  const openWatch = (): GroupWatch =>
    openGroupWatch({ connection, topics, group, name, pool: opened, metadataMs: options.consumer.metadataMs, registry, logger })
  groupWatch = openWatch()
  closeLater(async () => groupWatch?.close())
  closeLater(() => opened.stop())
  logger.info({ workers: count, topics: topics.length, partitions, memory_bytes_max: memoryBytes, version }, 'starting workers')
  void pool.started.then(() => logger.info('ready'))
  const givingBack = setTimeout(() => void giveBackMemory(), giveBackMemoryMs)
  closeLater(async () => clearTimeout(givingBack))

  function addTopics(now: readonly Topic[]): void {
    const known = new Set(topics.map(topic => topic.name))
    const added = now.filter(topic => !known.has(topic.name))
    if (added.length === 0) return
    topics = [...topics, ...added]
    logger.info({ topics: added.map(topic => topic.name) }, 'new topics match log.topics: restarting the workers')
    opened.restart()
    groupWatch?.close()
    groupWatch = openWatch()
  }
  const ends = [aborted(signal), pool.done]
  // A topic that is deleted meanwhile stops the writer, and must not be created again.
  if (hasPattern) ends.push(watchTopics(() => findTopics(false), options.log.topicsRefreshMs, addTopics, logger, signal))
  await Promise.race(ends)
}

function startWorker(settings: WorkerSettings, inMainThread: boolean): WorkerThread {
  if (!inMainThread) {
    return new Worker(new URL('./thread.ts', import.meta.url), {
      workerData: settings,
      resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMbMax },
    })
  }
  return workInMainThread(async port => {
    const { serveWorker } = await import('../../pipeline/writer/workers/worker.ts')
    const { openWriterWorker } = await import('./worker.ts')
    await serveWorker(port, (events, signal) => openWriterWorker(settings, events, signal))
  })
}

/** Dead letters go to the log's brokers. */
function isOfLog({ name }: Error): boolean {
  return name === 'LogUnavailableError' || name === 'DeadLettersError'
}

/** Runs the store's periodic maintenance. A failure does not stop the workers; it is retried. */
async function keepUp(
  storeName: StoreName,
  options: WriterOptions,
  name: string,
  logger: Logger,
  closeLater: ProcessScope['closeLater'],
): Promise<void> {
  const kind = await storeKind(storeName)
  const store = await kind.open(options.store, name)
  let isUnderWay = false
  async function maintain(): Promise<void> {
    if (isUnderWay) return
    isUnderWay = true
    try {
      await store.maintain()
    } catch (error) {
      if (store.classify(error) !== 'transient') logger.error({ err: error }, 'maintenance of the store failed and will be retried')
      else logger.warn(`maintenance of the store will be retried later (${factOf(error)})`)
    } finally {
      isUnderWay = false
    }
  }
  const first = setTimeout(() => void maintain(), firstMaintenanceMs)
  const later = setInterval(() => void maintain(), maintenanceIntervalMs)
  closeLater(async () => {
    clearTimeout(first)
    clearInterval(later)
    // Maintenance may wait longer for a lock than a stop may take. Each of its steps is atomic, so the process can end in the middle.
    if (!isUnderWay) await store.close()
  })
}

/**
 * Collects all garbage of this thread and lets go of the room that is free then. V8 keeps what loading the modules took until a collection
 * that a thread with little to do has after minutes: 30 MB of a writer. It stands still meanwhile, for 0.15 s.
 */
async function giveBackMemory(): Promise<void> {
  const session = new Session()
  session.connect()
  try {
    await session.post('HeapProfiler.collectGarbage')
  } finally {
    session.disconnect()
  }
}
