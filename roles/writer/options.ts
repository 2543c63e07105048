// The options of the role `writer`: the log, how its messages are decoded and batched, and the store.

import { availableParallelism } from 'node:os'
import { type Static, type TObject, Type } from 'typebox'
import { loggingOptions } from '../../config/logging-options.ts'
import { loadOptions, noteFault, type OptionFault, type OptionSources, OptionsError } from '../../config/options/options.ts'
import { processOptions } from '../../config/process-options.ts'
import { environmentOption, knownSecretFaults } from '../../config/production.ts'
import { listenAddressOption } from '../../http/listen-address.ts'
import { httpFaults, httpOptions } from '../../http/options.ts'
import { envelopeOptions } from '../../pipeline/envelope/options.ts'
import { checkKafkaConsumer } from '../../pipeline/kafka/consumer/limits.ts'
import { kafkaConsumerOptions } from '../../pipeline/kafka/consumer/options.ts'
import { kafkaFaults, kafkaSourceOptions } from '../../pipeline/kafka/options.ts'
import { groupFault, isPattern, wantedTopics } from '../../pipeline/kafka/topic-patterns.ts'
import { batchOptions, messageOptions, subscriberOptions, workersOptions } from '../../pipeline/options.ts'
import { transformerFaults, transformerOptions } from '../../pipeline/transformer-options.ts'
import { subjectFilter } from '../../pipeline/writer/subject-filter.ts'
import type { StoreOptions } from '../stores/options.ts'
import type { StoreName } from '../stores/store.ts'
import { assertWriterMemory } from './memory.ts'

/**
 * Batches are larger than those of `up`, where they would block the main thread. With 10,000 rows per batch PostgreSQL stores
 * 0.8 times as many rows per second as with one raw COPY; with 2,000 rows, 0.6 times. What does not come fast enough to fill one waits less than in `up`,
 * where each batch takes time from the main thread: at half load 99 of 100 messages are readable within 276 ms, and with 100 ms within 514.
 */
const largeBatchOptions = Type.Object({
  ...batchOptions.properties,
  rows: Type.Integer({ ...batchOptions.properties.rows, default: 10_000 }),
  bytes: Type.Integer({ ...batchOptions.properties.bytes, default: 4 * 1024 * 1024 }),
  ageMs: Type.Integer({ ...batchOptions.properties.ageMs, default: 50 }),
})

/** A worker with default options needs up to 149 MiB, much of it for the worst case of highly compressed messages. */
const bytesPerCore = 256 * 1024 * 1024

const threadsOptions = Type.Object({
  count: Type.Integer({
    default: availableParallelism(),
    defaultText: 'one per core',
    minimum: 0,
    maximum: 256,
    description: 'Worker threads, at most one per partition of the topic. 0 works in the main thread.',
  }),
  memoryBytes: Type.Integer({
    ...workersOptions.properties.memoryBytes,
    default: Math.max(availableParallelism(), 4) * bytesPerCore,
    defaultText: '256 MiB per core, at least 1 GiB',
  }),
})

/** The options of a writer that do not depend on its store. */
export const writerOptions = Type.Object({
  env: environmentOption,
  http: Type.Object({ ...httpOptions.properties, port: Type.Integer({ ...httpOptions.properties.port, default: 9082 }) }),
  internal: Type.Object({
    listen: listenAddressOption('127.0.0.1:9083', 'Address for metrics and health of this process.'),
  }),
  log: kafkaSourceOptions,
  envelope: envelopeOptions,
  consumer: kafkaConsumerOptions,
  subscriber: subscriberOptions,
  transformer: transformerOptions,
  message: messageOptions,
  batch: largeBatchOptions,
  workers: threadsOptions,
  logging: loggingOptions,
  process: processOptions,
})

/** `store` is the section of the kind of store; only that kind reads it. */
export type WriterOptions = Static<typeof writerOptions> & { readonly store: unknown }

/** The options of `./sluice writer <store>`. */
export function writerOptionsOf({ writer: store }: Pick<StoreOptions, 'writer'>): TObject {
  const { logging, ...rest } = writerOptions.properties
  return Type.Object({ ...rest, store, logging })
}

/**
 * Loads and checks the options of `./sluice writer <store>`.
 *
 * @throws OptionsError with every fault; combinations of options are checked only if each option is valid
 */
export function loadWriterOptions(kind: StoreOptions, sources: OptionSources): WriterOptions {
  const options = loadOptions(writerOptionsOf(kind), sources) as WriterOptions
  const faults: OptionFault[] = [...httpFaults(options.http), ...kafkaFaults(options.log, options.env)]
  const unnamed = groupFault(options.log)
  if (unnamed !== undefined) faults.push({ place: 'log.group', problem: unnamed })
  faults.push(...numberFaults(options.log, kind.name))
  noteFault(faults, 'subscriber.subjects', () => void subjectFilter(options.subscriber.subjects))
  noteFault(faults, 'consumer', () => checkKafkaConsumer(options.consumer))
  noteFault(faults, 'workers.memory_bytes', () => assertWriterMemory(options, options.log.brokers.length))
  faults.push(...transformerFaults(options.transformer), ...kind.faults(options.store))
  faults.push(...knownSecretFaults(options.env, kind.secrets(options.store)))
  if (faults.length > 0) throw new OptionsError(faults)
  return options
}

/** InfluxDB has no compare-and-set, with which writers could choose different numbers. */
function numberFaults(log: WriterOptions['log'], store: StoreName): OptionFault[] {
  const fault = (key: string, problem: string): OptionFault[] => [{ place: `log.${key}`, problem }]
  if (store !== 'timeseries') return log.numbers === undefined ? [] : fault('numbers', 'this store chooses them itself: remove it')
  const { numbers = [1] } = log
  const wanted = wantedTopics(log)
  if (wanted.some(isPattern)) {
    return fault('topics', 'InfluxDB cannot number the topics of a pattern: name each topic, and give its number in log.numbers')
  }
  if (numbers.length === wanted.length && new Set(numbers).size === numbers.length) return []
  return fault('numbers', `InfluxDB needs a number for each topic, all different: give ${wanted.length}, in the order of log.topics`)
}
