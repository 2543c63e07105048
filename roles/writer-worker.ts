// One worker of a writer, wired: source, transformer, sink and dead letters of its own. It opens when its log and store are there.

import { Registry } from 'prom-client'
import { openLogger } from '../config/logger.ts'
import { openDeadLetters } from '../pipeline/dead-letters.ts'
import { messagesSource } from '../pipeline/kafka/confluent/index.ts'
import type { KafkaConnection } from '../pipeline/kafka/connection.ts'
import { openKafkaLog } from '../pipeline/kafka/log.ts'
import { openKafkaSource } from '../pipeline/kafka/source.ts'
import { openTopic } from '../pipeline/kafka/topics.ts'
import { LogUnavailableError } from '../pipeline/log.ts'
import { pipelineMetrics } from '../pipeline/metrics.ts'
import { deadLettersTopic, replaying, replaysTopic } from '../pipeline/replays.ts'
import { defaultBackOff, retry } from '../pipeline/retry.ts'
import type { Source } from '../pipeline/source.ts'
import { SystemicError } from '../pipeline/systemic-error.ts'
import type { OnWaiting, OpenWorker } from '../pipeline/workers/worker.ts'
import { openWriter, type Writer } from '../pipeline/writer.ts'
import type { Sink } from '../sinks/sink.ts'
import { openTransformer } from '../transformers/select.ts'
import { openStore } from './stores.ts'
import { deadLetterQueueBytes, type StoreName, type WriterOptions } from './writer-options.ts'

/** Plain data: it is handed to a thread. */
export interface WorkerSettings {
  readonly worker: number
  readonly store: StoreName
  /** The writer's name: its consumer group, its part of the dead letters' topic, and whom the store belongs to. */
  readonly name: string
  readonly options: WriterOptions
  readonly connection: KafkaConnection
  readonly topicId: string
}

/** Of the five seconds that a stop may take, for what the worker has taken. */
const drainMsMax = 3_000
const replayDrainMsMax = 500

interface RunLimits {
  readonly runBytesMax: number
  readonly runMessagesMax: number
}

/** They stay until a person has settled them, and one is larger than its message by its headers. */
function deadLettersConfig(payloadBytes: number): Record<string, string> {
  return { 'retention.ms': '-1', 'max.message.bytes': String(payloadBytes + letterHeadersBytes) }
}
const letterHeadersBytes = 1024 * 1024

/**
 * Opens a worker, waiting for a log or a store that is away.
 *
 * @throws SystemicError for what no waiting can mend
 */
export async function openWriterWorker(
  { worker, store: storeName, name, options, connection, topicId }: WorkerSettings,
  onStateChange: () => void,
  onWaiting: OnWaiting,
  signal: AbortSignal,
): Promise<OpenWorker> {
  const logger = openLogger(options.logging).child({ worker })
  const closings: (() => Promise<void>)[] = []
  const close = async (): Promise<void> => {
    for (const closing of closings.toReversed()) await closing()
  }

  try {
    const store = await openStore(storeName, options.store, name)
    closings.push(() => store.close())
    /** Until it opens: what is away is waited for. */
    const opened = <Part>(open: () => Promise<Part>): Promise<Part> =>
      retry(
        open,
        {
          backOff: defaultBackOff,
          classify: error =>
            error instanceof LogUnavailableError ? 'transient' : error instanceof SystemicError ? 'systemic' : store.classify(error),
          onFailure(error, failures, waitMs) {
            onWaiting(error instanceof Error ? error : new Error(String(error)))
            logger.warn({ err: error, failures, wait_ms: Math.round(waitMs) }, 'the start waits for what is away')
          },
          onRecovery: () => logger.info('going on'),
        },
        signal,
      )

    const { topic, acceptNew, acceptLost } = options.log
    const sinkOf = async (logName: string, logId: string): Promise<Sink> => {
      const identity = { logName, logId, writer: name, acceptNewLog: acceptNew }
      const sink = await opened(() => store.openSink(identity, sentence => logger.warn(sentence)))
      closings.push(() => sink.close())
      return sink
    }
    let writer = undefined as Writer | undefined
    const sourceOf = (sink: Sink, logName: string, logId: string, group: string, limits: RunLimits): Source => {
      const source = openKafkaSource({
        client: options.log.client,
        connection,
        topic: logName,
        topicId: logId,
        group,
        ...(sink.positions === undefined ? {} : { startAt: (partitions: readonly number[]) => sink.positions!(partitions) }),
        consumer: options.consumer,
        ...limits,
        acceptLost,
        onLost: (partition, messages) => writer?.lost(partition, messages),
        logger,
      })
      closings.push(() => source.close())
      return messagesSource(source, options.log, logger)
    }

    const sink = await sinkOf(topic, topicId)
    const letters = await opened(() =>
      openKafkaLog(
        { ...options.log, topic: deadLettersTopic(topic, name), partitions: 1, queueBytes: deadLetterQueueBytes },
        logger,
        deadLettersConfig(options.message.payloadBytes),
      ),
    )
    closings.push(() => letters.close())
    const deadLetters = openDeadLetters({ log: letters, topic, logNumber: sink.logNumber, writer: name })
    const transformer = openTransformer(
      options.transformer,
      { timeMinUs: options.message.earliestSeconds * 1e6, timeAheadMaxUs: options.message.aheadDays * 86_400e6 },
      { payloadBytesMax: options.message.payloadBytes },
    )
    const registry = new Registry()
    const parts = { transformer, deadLetters, options, onStateChange, logger }

    const replays = replaysTopic(topic, name)
    const { id: replaysId } = await opened(() => openTopic(connection, { ...options.log, topic: replays, partitions: 1 }))
    const replaySink = await sinkOf(replays, replaysId)
    const replaySource = sourceOf(replaySink, replays, replaysId, `${name}.replays`, { runBytesMax: 256 * 1024, runMessagesMax: 100 })

    const source = sourceOf(sink, topic, topicId, name, { runBytesMax: options.batch.bytes, runMessagesMax: options.batch.rows })
    writer = openWriter({ ...parts, name, source, sink, metrics: pipelineMetrics(registry, name), drainMsMax })
    const replayWriter = openWriter({
      ...parts,
      name: `${name}.replays`,
      sink: replaySink,
      metrics: pipelineMetrics(registry, `${name}.replays`),
      drainMsMax: replayDrainMsMax,
      ...replaying({ source: replaySource, transformer, deadLetters, logNumber: replaySink.logNumber }),
    })
    return { writers: [writer, replayWriter], registry, close }
  } catch (error) {
    await close()
    throw error
  }
}
