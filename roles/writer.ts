// The role `writer`: a pool of workers that take messages from Kafka and store them, each once; this thread supervises and tells its health.

import { Worker } from 'node:worker_threads'
import { Registry } from 'prom-client'
import { type Logger, openLogger } from '../config/logger.ts'
import { factOf, type OutageReport, openOutages } from '../config/outage.ts'
import { aborted, type ProcessScope, runProcess } from '../config/run-process.ts'
import { kafkaConnection } from '../pipeline/kafka/connection.ts'
import { openTopic, type Topic } from '../pipeline/kafka/topics.ts'
import { LogUnavailableError } from '../pipeline/log.ts'
import { defaultBackOff, retry } from '../pipeline/retry.ts'
import { SystemicError } from '../pipeline/systemic-error.ts'
import { workInMainThread } from '../pipeline/workers/main-thread.ts'
import { openWorkerPool, type WorkerPool, type WorkerThread } from '../pipeline/workers/pool.ts'
import { serveWorker } from '../pipeline/workers/worker.ts'
import { giveBackMemory } from './spare-memory.ts'
import { storeKind } from './stores/index.ts'
import { databaseNames, type StoreName } from './stores/store.ts'
import { assertWriterMemory, writerMemoryBytesMax } from './writer-flows.ts'
import { openHealth } from './writer-health.ts'
import type { WriterOptions } from './writer-options.ts'
import { openWriterWorker, type WorkerSettings } from './writer-worker.ts'

const maintenanceIntervalMs = 6 * 3600 * 1000
/** By then the workers have made the schema, where it was missing. */
const firstMaintenanceMs = 60_000
/** Of the five seconds that a stop may take; the rest is for what closes after the workers. */
const stopMsMax = 4_000
/**
 * Of a worker's heap, where new objects are made: 16 MB stay of these, and 64 of what V8 would take. A message with three rows costs 10.9 µs of
 * the processor and not 10.2, which is less than two runs differ by; two workers are 96 MB smaller.
 */
const youngGenerationMbMax = 24

/**
 * Starts a writer, prints where its health is told, and resolves when it has stopped after a signal, with everything it took stored. It
 * starts also while its log or its store is away, and is not ready until they are there.
 *
 * @throws SystemicError, ListenError, SecretError: what a person can mend, with a message that says how
 */
export async function writer(store: StoreName, options: WriterOptions, version: string): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, scope => serve(store, options, version, logger, scope))
}

async function serve(store: StoreName, options: WriterOptions, version: string, logger: Logger, scope: ProcessScope): Promise<void> {
  const { signal, closeLater } = scope
  const name = options.log.group ?? store
  let pool = undefined as WorkerPool | undefined
  let waitsFor: Error | undefined
  /** Why not every worker runs, where that is known. */
  const failure = (): Error | undefined => pool?.failure() ?? waitsFor
  /** What a worker met is what is told of the log and of the store: health asks neither by itself. */
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
  }
  const ready = (): boolean => pool?.state() === 'running'
  const registry = new Registry()
  const outages = openOutages(logger, registry, name, {
    log: 'Kafka',
    store: databaseNames[store],
    dead_letters: 'the topic of dead letters',
  })
  const metrics = async (): Promise<string> => (await registry.metrics()) + ((await pool?.metrics()) ?? '')
  await openHealth({ options, version, logger, checks, ready, metrics }, closeLater)

  const connection = await kafkaConnection(options.log)
  const topic = await whenLogIsThere(
    () => openTopic(connection, options.log),
    error => (waitsFor = error),
    outages.report('log'),
    signal,
  )
  if (topic === undefined) return
  waitsFor = undefined
  const settings = { store, name, options, connection, topicId: topic.id }
  const count = Math.min(options.workers.count, topic.partitions)
  const memoryBytes = memoryOf({ ...options, workers: { ...options.workers, count } }, topic)
  // Before the pool, and so closed after it: nothing keeps the workers from storing what they took.
  await keepUp(store, options, name, logger, closeLater)
  pool = openWorkerPool({
    count: Math.max(count, 1),
    start: worker => startWorker({ ...settings, worker }, count === 0),
    outages,
    logger,
    stopMsMax,
  })
  const opened = pool
  closeLater(() => opened.stop())
  logger.info({ workers: count, partitions: topic.partitions, memory_bytes_max: memoryBytes, version }, 'workers are starting')
  void pool.started.then(() => logger.info('ready'))
  await giveBackMemory()
  await Promise.race([aborted(signal), pool.done])
}

function startWorker(settings: WorkerSettings, inMainThread: boolean): WorkerThread {
  if (!inMainThread) {
    return new Worker(new URL('./writer-thread.ts', import.meta.url), {
      workerData: settings,
      resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMbMax },
    })
  }
  return workInMainThread(port => serveWorker(port, (events, signal) => openWriterWorker(settings, events, signal)))
}

/** Dead letters go to the log's brokers. */
function isOfLog({ name }: Error): boolean {
  return name === 'LogUnavailableError' || name === 'DeadLettersError'
}

/** @returns undefined when the process is to stop before */
async function whenLogIsThere<Topic>(
  open: () => Promise<Topic>,
  onWaiting: (failure: Error) => void,
  outage: OutageReport,
  signal: AbortSignal,
): Promise<Topic | undefined> {
  try {
    return await retry(
      open,
      {
        backOff: defaultBackOff,
        classify: error => (error instanceof LogUnavailableError ? 'transient' : 'systemic'),
        onFailure(error, _failures, waitMs) {
          onWaiting(error as Error)
          outage.failed(error, { waitMs, meanwhile: 'the start waits for it' })
        },
        onRecovery: () => outage.recovered(),
      },
      signal,
    )
  } catch (error) {
    if (signal.aborted) return undefined
    throw error
  }
}

/** @throws SystemicError where it is above the bound: the options alone do not say how many brokers lead partitions */
function memoryOf(options: WriterOptions, { leaders }: Topic): number {
  // A partition without a leader gets one that leads another, or one more broker.
  const count = new Set(leaders.map(leader => `${leader?.host}:${leader?.port}`)).size
  try {
    assertWriterMemory(options, count)
  } catch (error) {
    throw new SystemicError((error as Error).message, { cause: error })
  }
  return writerMemoryBytesMax(options, count)
}

/** What the store needs beside writing, now and then. Its workers do without where it fails, and it is tried again. */
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
    isUnderWay = true
    try {
      await store.maintain()
    } catch (error) {
      if (store.classify(error) !== 'transient') logger.error({ err: error }, 'upkeep of the store failed, and is tried again')
      else logger.warn(`upkeep of the store is tried again later (${factOf(error)})`)
    } finally {
      isUnderWay = false
    }
  }
  const first = setTimeout(() => void maintain(), firstMaintenanceMs)
  const later = setInterval(() => void maintain(), maintenanceIntervalMs)
  closeLater(async () => {
    clearTimeout(first)
    clearInterval(later)
    // It may wait for a lock for longer than a stop may take. Each of its steps is done or not at all, and the process ends now.
    if (!isUnderWay) await store.close()
  })
}
