// The Kafka client of `send` and `tail`: kafkajs, with every codec and readable errors. It is another implementation than the client of
// writers, so that what these tools show is a second opinion.

import { type Command, Option } from 'commander'
import type { Kafka, SASLOptions } from 'kafkajs'
import { ToolError } from '../../bin/streams.ts'
import { type KafkaConnection, kafkaConnection } from '../../pipeline/kafka/connection.ts'
import { reasonOf, systemicFault } from '../../pipeline/kafka/failure.ts'
import { decompress } from '../../pipeline/kafka/records/codecs.ts'
import { isPattern, type TopicOptions, wantedTopics } from '../../pipeline/kafka/topic-patterns.ts'
import { openKafkaTopicReader } from '../../pipeline/kafka/topic-reader.ts'
import { LogUnavailableError } from '../../pipeline/log.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import type { TopicBounds } from '../../pipeline/topic-reader.ts'
import { storeNamesText } from '../stores/store.ts'
import type { WriterOptions } from '../writer/options.ts'
import { answered } from './failure.ts'
import { type Sources, storeNamed } from './target/flags.ts'

export interface ConnectionFlags {
  readonly config?: string
  readonly store: string
  readonly topic?: string
}

export interface TopicClient {
  readonly kafka: Kafka
  readonly connection: KafkaConnection
  /** The topic of the messages. */
  readonly topic: string
  /** By partition, as they were when the client was opened. */
  readonly bounds: ReadonlyMap<number, TopicBounds>
  readonly options: WriterOptions
}

/** Retries for about twenty seconds, in which a broker restarts, then fails. */
const retry = { retries: 13, initialRetryTime: 100, maxRetryTime: 2000 }

/** Options of a command that uses the topic of a writer. */
export function addConnectionOptions(command: Command): Command {
  return command
    .option('--config <file>', "the writer's TOML file (default: the path in SVC_<STORE>_WRITER_CONFIG_PATH)")
    .addOption(new Option('--store <name>', `the store of the writer whose options are used: ${storeNamesText}`).default('relational'))
    .option('--topic <name>', 'the topic, if the writer reads several (log.topics)')
}

/** As `answered`. Exits explicitly: after a broken connection, kafkajs leaves a timer that would keep the process alive. */
export async function answeredByKafkajs(work: () => Promise<boolean>): Promise<never> {
  await answered(work)
  process.exit()
}

/**
 * Opens the topic of the messages with the options of its writer.
 *
 * @throws OptionsError, SecretError
 * @throws SystemicError if there is no such topic, or access is denied
 * @throws LogUnavailableError while no broker answers
 */
export async function openTopicClient({ config, store, topic: named }: ConnectionFlags, sources: Sources): Promise<TopicClient> {
  const { loadTargetOptions } = await import('./target/target.ts')
  const options = await loadTargetOptions(storeNamed(store), config, sources)
  const { encoding } = options.log
  const topic = named ?? onlyTopic(options.log)
  if (encoding !== 'raw') {
    throw new ToolError(`the messages of ${topic} have the encoding ${encoding}: this tool works on the encoding raw only`)
  }
  const connection = await kafkaConnection(options.log)
  // Asked of the other client, which has an error message for each cause; and kafkajs would wait long for a topic that does not exist.
  const reader = await openKafkaTopicReader({ connection, topic, fetchBytes: options.consumer.fetchBytes })
  try {
    return { kafka: await openKafkajs(connection, topic), connection, topic, bounds: await reader.bounds(), options }
  } finally {
    await reader.close()
  }
}

/** @throws ToolError if the writer reads several */
export function onlyTopic(options: TopicOptions): string {
  const wanted = wantedTopics(options)
  const [topic] = wanted
  if (wanted.length === 1 && !isPattern(topic!)) return topic!
  throw new ToolError(`the writer reads several topics (${wanted.join(', ')}): name one with --topic`)
}

async function openKafkajs(connection: KafkaConnection, topic: string): Promise<Kafka> {
  muteTimerWarning()
  const { default: kafkajs } = await import('kafkajs')
  const { GZIP, Snappy, LZ4, ZSTD } = kafkajs.CompressionTypes
  const codecs: Record<number, () => object> = kafkajs.CompressionCodecs
  for (const codec of [GZIP, Snappy, LZ4, ZSTD]) {
    codecs[codec] = () => ({
      compress: () => Promise.reject(new Error('messages are sent uncompressed')),
      decompress: async (bytes: Buffer) => expanded(codec, bytes, topic),
    })
  }
  const { brokers, clientId, tls, sasl, connectTimeoutMs, requestTimeoutMs } = connection
  return new kafkajs.Kafka({
    brokers: [...brokers],
    clientId,
    ...(tls === undefined ? {} : { ssl: { ...tls } }),
    ...(sasl === undefined ? {} : { sasl: sasl as SASLOptions }),
    connectionTimeout: connectTimeoutMs,
    requestTimeout: requestTimeoutMs,
    retry,
    logLevel: kafkajs.logLevel.NOTHING,
  })
}

/** @throws SystemicError, also for a batch that expands too far; a codec is not told which batch it is */
function expanded(codec: number, bytes: Buffer, topic: string): Buffer {
  try {
    return decompress(codec, bytes, { topic, partition: -1, offset: -1 })
  } catch (cause) {
    throw new SystemicError(
      `a batch of the topic ${topic} cannot be decompressed, or expands to more than 64 MiB: run ./sluice verify to find it`,
      { cause },
    )
  }
}

/** kafkajs sets a timer with a negative delay, of which Node.js warns on standard error. */
function muteTimerWarning(): void {
  const emitWarning = process.emitWarning.bind(process) as (...warning: unknown[]) => void
  process.emitWarning = (...warning: unknown[]) => {
    if (warning[1] !== 'TimeoutNegativeWarning') emitWarning(...warning)
  }
}

/**
 * The error for one of kafkajs: SystemicError if an operator must act, else LogUnavailableError.
 *
 * @param what the consequence: `messages cannot be sent`
 */
export function kafkajsFailure(error: unknown, what: string): SystemicError | LogUnavailableError {
  for (let one = error; one instanceof Error; one = one.cause) {
    if (one instanceof SystemicError) return one
    const { code } = one as { code?: unknown }
    const coded = typeof code === 'number' ? Object.assign(new Error(one.message), { apiCode: code }) : one
    const fault = systemicFault(coded, what)
    if (fault !== undefined) return fault
  }
  return new LogUnavailableError(`${what} (${reasonOf(error)}): check the brokers`, { cause: error })
}
