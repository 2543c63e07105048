// The options of the role `writer`: the log that is read, what is made of its messages, and the store that they go to.

import { availableParallelism } from 'node:os'
import { type Static, Type } from 'typebox'
import { httpOptions } from '../config/http/options.ts'
import { loggingOptions } from '../config/logger.ts'
import { loadOptions, noteFault, type OptionFault, type OptionSources, OptionsError } from '../config/options.ts'
import { environmentOption, knownSecretFaults, passwordOf } from '../config/production.ts'
import { checkKafkaConsumer, kafkaConsumerOptions, kafkaSourceBytesMax } from '../pipeline/kafka/consumer/options.ts'
import { kafkaFaults, kafkaSourceOptions } from '../pipeline/kafka/options.ts'
import { batchOptions, memoryBytesMax, messageOptions, subscriberOptions, workersOptions } from '../pipeline/options.ts'
import { subjectFilter } from '../pipeline/subject-filter.ts'
import { transformerOptions } from '../pipeline/transformer-options.ts'
import { sinkOptions } from '../sinks/postgres/options.ts'

/** The stores by the names of SPEC §2, and the database that each is here. */
export const storeNames = { relational: 'postgres' } as const
export type StoreName = keyof typeof storeNames

/** The store's name for either of its names; undefined for what is none. */
export function storeOf(name: string): StoreName | undefined {
  return Object.entries(storeNames).find(names => names.includes(name))?.[0] as StoreName | undefined
}

/** The variable that names the configuration file (SPEC §2, writer configuration). */
export function configPathVariable(store: StoreName): string {
  return `SVC_${store.toUpperCase()}_WRITER_CONFIG_PATH`
}

/** Of all four stores: a writer of one may be given the environment of another. */
export const configPathVariables = ['WIDECOLUMN', 'RELATIONAL', 'TIMESERIES', 'DOCUMENT'].map(store => `SVC_${store}_WRITER_CONFIG_PATH`)

const relationalOptions = Type.Object({
  url: Type.String({
    pattern: '^postgres(ql)?://.',
    secret: true,
    environment: 'SVC_RELATIONAL_URL',
    allowed: 'a URL such as postgres://user:password@host:5432/database',
    description: 'The PostgreSQL database that messages are stored in.',
  }),
  statementTimeoutMs: Type.Integer({
    default: 60_000,
    minimum: 1_000,
    maximum: 3_600_000,
    description: 'Milliseconds after which a statement is given up; its batch is written again.',
  }),
  ...sinkOptions.properties,
})

/**
 * Batches are larger than those of `up`, which hold up its main thread. A server is given 5,000 rows at once: PostgreSQL stores
 * 0.8 times as many a second then as by one raw COPY, and 0.6 times with 2,000.
 */
const largeBatchOptions = Type.Object({
  ...batchOptions.properties,
  rows: Type.Integer({ ...batchOptions.properties.rows, default: 5000 }),
  bytes: Type.Integer({ ...batchOptions.properties.bytes, default: 2 * 1024 * 1024 }),
})

const threadsOptions = Type.Object({
  count: Type.Integer({
    default: availableParallelism(),
    minimum: 0,
    maximum: 256,
    description: 'Worker threads; never more than the topic has partitions. 0 works in the main thread. The default is one for each core.',
  }),
  memoryBytes: workersOptions.properties.memoryBytes,
})

/** The options of `sluice writer relational`. */
export const writerOptions = Type.Object({
  env: environmentOption,
  http: Type.Object({ ...httpOptions.properties, port: Type.Integer({ ...httpOptions.properties.port, default: 9082 }) }),
  log: kafkaSourceOptions,
  consumer: kafkaConsumerOptions,
  subscriber: subscriberOptions,
  transformer: transformerOptions,
  message: messageOptions,
  batch: largeBatchOptions,
  workers: threadsOptions,
  store: relationalOptions,
  logging: loggingOptions,
})
export type WriterOptions = Static<typeof writerOptions>

/** What the dead letters of one worker may have waiting. */
export const deadLetterQueueBytes = 4 * 1024 * 1024

/** What queues and batches can hold at most, in bytes: the sum that is asserted at start. */
export function writerMemoryBytesMax({ batch, message, consumer, workers }: WriterOptions): number {
  const count = Math.max(workers.count, 1)
  const pipelines = memoryBytesMax({ batch, message, log: { queueBytes: 0, fetchBytes: batch.bytes }, workers: { ...workers, count } })
  return pipelines + count * (kafkaSourceBytesMax(consumer) + deadLetterQueueBytes)
}

function assertMemory(options: WriterOptions): void {
  const sum = writerMemoryBytesMax(options)
  const { memoryBytes, count } = options.workers
  if (sum <= memoryBytes) return
  const [needed, given] = [sum, memoryBytes].map(bytes => Math.ceil(bytes / 2 ** 20))
  throw new Error(
    `queues and batches of ${count} workers add up to ${needed} MiB, above ${given} MiB: lower workers.count, consumer.queue_bytes, batch.bytes or batch.rows, or raise the bound`,
  )
}

/**
 * The options of `sluice writer <store>`, and everything about them that can be known before the start.
 *
 * @throws OptionsError with every fault; those between options only where each is right by itself
 */
export function loadWriterOptions(sources: OptionSources): WriterOptions {
  const options = loadOptions(writerOptions, sources)
  const faults: OptionFault[] = kafkaFaults(options.log, options.env)
  noteFault(faults, 'subscriber.subjects', () => void subjectFilter(options.subscriber.subjects))
  noteFault(faults, 'consumer', () => checkKafkaConsumer(options.consumer))
  noteFault(faults, 'workers.memory_bytes', () => assertMemory(options))
  if (!URL.canParse(options.store.url)) {
    faults.push({ place: 'store.url', problem: 'cannot be read: give a URL such as postgres://user:password@host:5432/database' })
  }
  faults.push(...knownSecretFaults(options.env, { 'store.url': passwordOf(options.store.url) }))
  if (faults.length > 0) throw new OptionsError(faults)
  return options
}
