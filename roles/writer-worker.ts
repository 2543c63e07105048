// One worker of a writer, wired: source, transformer, sink and dead letters of its own. It opens when its log and store are there.

import { openLogger } from '../config/logger.ts'
import { openDeadLetters } from '../pipeline/dead-letters.ts'
import { messagesSource } from '../pipeline/kafka/confluent/index.ts'
import { type KafkaConnection, openAdmin } from '../pipeline/kafka/connection.ts'
import { openKafkaLog } from '../pipeline/kafka/log.ts'
import { openKafkaSource } from '../pipeline/kafka/source.ts'
import { describeTopic, openTopic, readCommitted } from '../pipeline/kafka/topics.ts'
import { lettersTopicConfig, replaysTopicConfig } from '../pipeline/letters/topic-config.ts'
import { LogUnavailableError } from '../pipeline/log.ts'
import { pipelineMetrics } from '../pipeline/metrics.ts'
import { deadLettersTopic, replaying, replaysGroup, replaysTopic } from '../pipeline/replays.ts'
import { defaultBackOff, retry } from '../pipeline/retry.ts'
import type { Source } from '../pipeline/source.ts'
import { SystemicError } from '../pipeline/systemic-error.ts'
import { openClosings } from '../pipeline/workers/closings.ts'
import type { OpenWorker, WorkerEvents } from '../pipeline/workers/worker.ts'
import { openWriter, type Writer } from '../pipeline/writer.ts'
import type { Sink } from '../sinks/sink.ts'
import { SinkError } from '../sinks/sink-error.ts'
import { flattening } from '../transformers/flattening.ts'
import { openTransformer } from '../transformers/select.ts'
import { storeKind } from './stores/index.ts'
import type { StoreName } from './stores/store.ts'
import { deadLetterQueueBytes, type FlowLimits, flowsOf } from './writer-flows.ts'
import type { WriterOptions } from './writer-options.ts'

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

/**
 * Of the four seconds that the workers have at a stop, for what this one has taken. A store that does not answer needs two more until the
 * write is given up, and then there is still the group to leave: who does not leave it holds its share for a session.
 */
const drainMsMax = 1_500
const replayDrainMsMax = 500

/** What the source of a flow is made of. */
interface FlowParts {
  readonly sink: Sink
  readonly logName: string
  readonly logId: string
  readonly group: string
  readonly limits: FlowLimits
  /** The flow's own, which is opened after its source, and told what the log has deleted unread. */
  readonly writer: () => Writer
}

/**
 * Opens a worker, waiting for a log or a store that is away.
 *
 * @throws SystemicError for what no waiting can mend
 */
export async function openWriterWorker(
  { worker, store: storeName, name, options, connection, topicId }: WorkerSettings,
  { registry, outages, onStateChange, onWaiting, onFailure }: WorkerEvents,
  signal: AbortSignal,
): Promise<OpenWorker> {
  const logger = openLogger(options.logging).child({ worker })
  const closings = openClosings(logger)

  try {
    const kind = await storeKind(storeName)
    const store = await kind.open(options.store, name)
    closings.add(() => store.close())
    /** Until it opens: what is away is waited for. */
    const opened = async <Part>(open: () => Promise<Part>): Promise<Part> => {
      try {
        return await retried(open)
      } catch (error) {
        if (signal.aborted || error instanceof SystemicError || error instanceof SinkError) throw error
        // In the words of a driver: it ends the writer with them, and not the worker again and again.
        throw new SystemicError(error instanceof Error ? error.message : String(error), { cause: error })
      }
    }
    const starting = { log: outages.report('log'), store: outages.report('store') }
    const retried = <Part>(open: () => Promise<Part>): Promise<Part> =>
      retry(
        open,
        {
          backOff: defaultBackOff,
          classify: error =>
            error instanceof LogUnavailableError ? 'transient' : error instanceof SystemicError ? 'systemic' : store.classify(error),
          onFailure(error, _failures, waitMs) {
            onWaiting(error instanceof Error ? error : new Error(String(error)))
            starting[error instanceof LogUnavailableError ? 'log' : 'store'].failed(error, { waitMs, meanwhile: 'the start waits for it' })
          },
          onRecovery() {
            starting.log.recovered()
            starting.store.recovered()
          },
        },
        signal,
      )

    const { topic, acceptNew, acceptLost } = options.log
    const sinkOf = async (logName: string, logId: string, group: string): Promise<Sink> => {
      const hasCommits = (): Promise<boolean> => isCommitted(connection, logName, group)
      const identity = { logName, logId, writer: name, acceptNewLog: acceptNew, hasCommits }
      const sink = await opened(() => store.openSink(identity, sentence => logger.warn(sentence)))
      closings.add(() => sink.close())
      return sink
    }
    const sourceOf = ({ sink, logName, logId, group, limits, writer }: FlowParts): Source => {
      const { consumer, runBytesMax, runMessagesMax } = limits
      const source = openKafkaSource({
        client: options.log.client,
        connection,
        topic: logName,
        topicId: logId,
        group,
        ...(sink.positions === undefined ? {} : { startAt: (partitions: readonly number[]) => sink.positions!(partitions) }),
        consumer,
        runBytesMax,
        runMessagesMax,
        acceptLost,
        onLost: (partition, messages) => writer().lost(partition, messages),
        logger,
      })
      closings.add(() => source.close())
      return messagesSource(source, options.log, logger)
    }

    const sink = await sinkOf(topic, topicId, name)
    const letters = await opened(() =>
      openKafkaLog(
        { ...options.log, topic: deadLettersTopic(topic, name), partitions: 1, queueBytes: deadLetterQueueBytes },
        logger,
        lettersTopicConfig(options.message.payloadBytes),
      ),
    )
    closings.add(() => letters.close())
    const deadLetters = openDeadLetters({ log: letters, topic, logNumber: sink.logNumber, writer: name })
    const decoding = openTransformer(
      options.transformer,
      { timeMinUs: options.message.earliestSeconds * 1e6, timeAheadMaxUs: options.message.aheadDays * 86_400e6 },
      { payloadBytesMax: options.message.payloadBytes },
    )
    const transformer = kind.takesFlat ? flattening(decoding) : decoding
    const parts = { transformer, deadLetters, outages, onStateChange, logger }
    const flows = flowsOf(options)

    const replaysName = replaysGroup(name)
    const replays = replaysTopic(topic, name)
    const { id: replaysId } = await opened(() =>
      openTopic(connection, { ...options.log, topic: replays, partitions: 1 }, replaysTopicConfig(options.message.payloadBytes)),
    )
    const replaySink = await sinkOf(replays, replaysId, replaysName)
    const ofReplays = { sink: replaySink, logName: replays, logId: replaysId, group: replaysName, limits: flows.replays }
    const replaySource = sourceOf({ ...ofReplays, writer: () => replayWriter })

    const ofMessages = { sink, logName: topic, logId: topicId, group: name, limits: flows.messages }
    const source = sourceOf({ ...ofMessages, writer: () => writer })
    const writer: Writer = openWriter({
      ...parts,
      name,
      source,
      sink,
      options: { ...options, batch: flows.messages.batch },
      metrics: pipelineMetrics(registry, name),
      drainMsMax,
    })
    const replayWriter: Writer = openWriter({
      ...parts,
      name: replaysName,
      sink: replaySink,
      options: { ...options, batch: flows.replays.batch },
      metrics: pipelineMetrics(registry, replaysName),
      drainMsMax: replayDrainMsMax,
      ...replaying({ source: replaySource, transformer, deadLetters, logNumber: replaySink.logNumber }),
    })
    return { writers: [writer, replayWriter], close: () => closings.close() }
  } catch (error) {
    onFailure(error)
    await closings.close()
    throw error
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
