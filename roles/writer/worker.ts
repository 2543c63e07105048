// Opens one worker of a writer, with its own source, transformer, sink and dead letters, once its log and store are available.

import { type Logger, openLogger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import { openCleanup, openWhenThere } from '../../config/run-process.ts'
import { deadLettersTopicConfig } from '../../pipeline/dead-letters/topic-config.ts'
import { type KafkaConnection, openAdmin } from '../../pipeline/kafka/connection.ts'
import { type KafkaLog, openKafkaLog } from '../../pipeline/kafka/log.ts'
import { messagesSource } from '../../pipeline/kafka/messages.ts'
import { openKafkaSource } from '../../pipeline/kafka/source.ts'
import { wantedTopics } from '../../pipeline/kafka/topic-patterns.ts'
import { describeTopic, readCommitted } from '../../pipeline/kafka/topics.ts'
import { LogUnavailableError } from '../../pipeline/log.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { deadLettersTopic, openDeadLetters } from '../../pipeline/writer/dead-letters.ts'
import { pipelineMetrics } from '../../pipeline/writer/metrics.ts'
import type { OpenWorker, WorkerEvents } from '../../pipeline/writer/workers/worker.ts'
import { openWriter, type Writer } from '../../pipeline/writer/writer.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { flattening } from '../../transformers/flattening.ts'
import type { LogPartition } from '../../transformers/log-partition.ts'
import { configuredTransformer } from '../../transformers/select.ts'
import { storeKind } from '../stores/index.ts'
import type { StoreName } from '../stores/store.ts'
import { deadLetterQueueBytes } from './memory.ts'
import type { WriterOptions } from './options.ts'

/** Plain data, because it is sent to a thread. */
export interface WorkerSettings {
  readonly worker: number
  readonly store: StoreName
  /** The writer's name: suffix of the dead-letter topics, and owner of the rows. */
  readonly name: string
  readonly group: string
  readonly options: WriterOptions
  readonly connection: KafkaConnection
  /** By log. */
  readonly topics: readonly { readonly name: string; readonly id: string }[]
}

/**
 * Part of the four seconds that workers have to stop, for storing messages already read. If the store does not answer, aborting the
 * write takes two more. Then the worker must still leave the group: otherwise its partitions stay assigned to it until the session times out.
 */
const drainMsMax = 1_500

/**
 * Opens a worker; waits while its log or store is away.
 *
 * @throws SystemicError for an error that waiting cannot fix
 */
export async function openWriterWorker(
  { worker, store: storeName, name, group, options, connection, topics }: WorkerSettings,
  { registry, outages, onStateChange, onWaiting, onFailure }: WorkerEvents,
  signal: AbortSignal,
): Promise<OpenWorker> {
  const logger = openLogger(options.logging).child({ worker })
  const cleanup = openCleanup(logger)

  try {
    const kind = await storeKind(storeName)
    const store = await kind.open(options.store, name)
    cleanup.add(() => store.close())
    const isAway = (error: unknown): boolean =>
      error instanceof LogUnavailableError || (!(error instanceof SystemicError) && store.classify(error) === 'transient')
    const outage = { log: outages.report('log'), store: outages.report('store') }
    const starting: Pick<OutageReport, 'failed' | 'recovered'> = {
      failed(error, next) {
        onWaiting(error instanceof Error ? error : new Error(String(error)))
        outage[error instanceof LogUnavailableError ? 'log' : 'store'].failed(error, next)
      },
      recovered() {
        outage.log.recovered()
        outage.store.recovered()
      },
    }
    /** Opens a component, and retries while its dependency is away. */
    const opened = async <Part extends { close(): Promise<void> }>(open: () => Promise<Part>): Promise<Part> => {
      try {
        const part = await openWhenThere({ open, closeLate: late => late.close(), isAway, outage: starting, signal })
        if (part !== undefined) return part
        throw signal.reason
      } catch (error) {
        if (signal.aborted || error instanceof SystemicError || error instanceof SinkError) throw error
        // Wrapped, so that it ends the writer with the driver's message, instead of restarting the worker repeatedly.
        throw new SystemicError(error instanceof Error ? error.message : String(error), { cause: error })
      }
    }

    const { acceptNew, acceptLost, skipBatch, instance, numbers } = options.log
    const { contentTypes } = options.transformer
    const names = topics.map(topic => topic.name)
    const wanted = wantedTopics(options.log)
    const logs = topics.map(({ name: logName, id: logId }) => {
      const hasCommits = (): Promise<boolean> => isCommitted(connection, logName, group)
      const number = numbers?.[wanted.indexOf(logName)]
      return { logName, logId, writer: name, contentTypes, number, acceptNewLog: acceptNew, hasCommits }
    })
    const sink = await opened(() => store.openSink(logs, sentence => logger.warn(sentence)))
    cleanup.add(() => sink.close())
    const deadLetterLogs = openDeadLetterLogs(names, name, options, logger)
    cleanup.add(() => deadLetterLogs.close())
    // Of several topics most never have a dead letter: the main thread has created their dead-letter topics.
    if (names.length === 1) await opened(() => deadLetterLogs.logOf(0))
    const deadLetters = openDeadLetters({
      logOf: log => deadLetterLogs.logOf(log),
      topics: names,
      logIds: topics.map(({ id }) => id),
      logNumbers: sink.logNumbers,
      writer: name,
    })
    const decoding = configuredTransformer(options)
    const { consumer, batch } = options
    const source = openKafkaSource({
      connection,
      topics: names,
      topicIds: topics.map(({ id }) => id),
      group,
      ...(instance === undefined ? {} : { instance: `${instance}-${worker}` }),
      ...(sink.positions === undefined ? {} : { startAt: (of: readonly LogPartition[]) => sink.positions!(of) }),
      consumer,
      chunkBytesMax: batch.bytes,
      chunkMessagesMax: batch.rows,
      acceptLost,
      skipBatch,
      onLost: (at, messages) => writer.lost(at, messages),
      logger,
    })
    cleanup.add(() => source.close())
    const writer: Writer = openWriter({
      name,
      topics: names,
      source: messagesSource(source, names, options, logger),
      sink,
      transformer: kind.takesFlat ? flattening(decoding) : decoding,
      deadLetters,
      options,
      metrics: pipelineMetrics(registry, name, names),
      drainMsMax,
      outages,
      onStateChange,
      logger,
    })
    return { writer, close: async () => void (await cleanup.close()) }
  } catch (error) {
    onFailure(error)
    await cleanup.close()
    throw error
  }
}

/** The logs of dead letters, each opened with the first letter of its topic. */
function openDeadLetterLogs(topics: readonly string[], writer: string, { log, message }: WriterOptions, logger: Logger) {
  const opened = new Map<number, Promise<KafkaLog>>()
  return {
    logOf(index: number): Promise<KafkaLog> {
      const present = opened.get(index)
      if (present !== undefined) return present
      const settings = { ...log, topic: deadLettersTopic(topics[index]!, writer), partitions: 1, queueBytes: deadLetterQueueBytes }
      const opening = openKafkaLog(settings, logger, deadLettersTopicConfig(message.payloadBytes))
      opened.set(index, opening)
      // The next dead letter tries again.
      opening.catch(() => opened.delete(index))
      return opening
    },
    async close(): Promise<void> {
      const logs = await Promise.allSettled(opened.values())
      await Promise.all(logs.flatMap(log => (log.status === 'fulfilled' ? [log.value.close()] : [])))
    },
  }
}

/** Whether the group has read from the topic before. */
async function isCommitted(connection: KafkaConnection, topic: string, group: string): Promise<boolean> {
  const admin = await openAdmin(connection)
  try {
    const described = await describeTopic(admin, topic)
    if (described === undefined) return false
    const committed = await readCommitted(admin, group, topic, [...described.leaders.keys()])
    return [...committed.values()].some(offset => offset > 0)
  } finally {
    await admin.close()
  }
}
