// The options of the role `writer`: the log that is read, what is made of its messages, and the store that they go to.

import { availableParallelism } from 'node:os'
import { type Static, type TObject, Type } from 'typebox'
import { listenAddressOption } from '../config/http/listen-address.ts'
import { httpFaults, httpOptions } from '../config/http/options.ts'
import { loggingOptions } from '../config/logger.ts'
import { loadOptions, noteFault, type OptionFault, type OptionSources, OptionsError } from '../config/options.ts'
import { environmentOption, knownSecretFaults } from '../config/production.ts'
import { checkKafkaConsumer, kafkaConsumerOptions } from '../pipeline/kafka/consumer/options.ts'
import { kafkaFaults, kafkaSourceOptions } from '../pipeline/kafka/options.ts'
import { batchOptions, messageOptions, subscriberOptions, workersOptions } from '../pipeline/options.ts'
import { subjectFilter } from '../pipeline/subject-filter.ts'
import { transformerOptions } from '../pipeline/transformer-options.ts'
import type { StoreKind } from './stores/store.ts'
import { assertWriterMemory } from './writer-flows.ts'

/**
 * Batches are larger than those of `up`, which hold up its main thread. A server is given 10,000 rows at once: PostgreSQL stores
 * 0.8 times as many a second then as by one raw COPY, and 0.6 times with 2,000.
 */
const largeBatchOptions = Type.Object({
  ...batchOptions.properties,
  rows: Type.Integer({ ...batchOptions.properties.rows, default: 10_000 }),
  bytes: Type.Integer({ ...batchOptions.properties.bytes, default: 4 * 1024 * 1024 }),
})

/** A worker of the defaults adds up to 235 MiB, most of it for messages that are compressed as well as can be. */
const bytesPerCore = 256 * 1024 * 1024

const threadsOptions = Type.Object({
  count: Type.Integer({
    default: availableParallelism(),
    defaultText: 'one for each core',
    minimum: 0,
    maximum: 256,
    description: 'Worker threads; never more than the topic has partitions. 0 works in the main thread.',
  }),
  memoryBytes: Type.Integer({
    ...workersOptions.properties.memoryBytes,
    default: Math.max(availableParallelism(), 4) * bytesPerCore,
    defaultText: '256 MiB for each core, 1 GiB at least',
  }),
})

/** The options of a writer, whatever its store. */
export const writerOptions = Type.Object({
  env: environmentOption,
  http: Type.Object({ ...httpOptions.properties, port: Type.Integer({ ...httpOptions.properties.port, default: 9082 }) }),
  internal: Type.Object({
    listen: listenAddressOption('127.0.0.1:9083', 'Address for /metrics and the health of this process.'),
  }),
  log: kafkaSourceOptions,
  consumer: kafkaConsumerOptions,
  subscriber: subscriberOptions,
  transformer: transformerOptions,
  message: messageOptions,
  batch: largeBatchOptions,
  workers: threadsOptions,
  logging: loggingOptions,
})

/** `store` is the section as its kind has it: nobody else looks into it. */
export type WriterOptions = Static<typeof writerOptions> & { readonly store: unknown }

/** The options of `sluice writer <store>`. */
export function writerOptionsOf({ options: store }: Pick<StoreKind, 'options'>): TObject {
  const { logging, ...rest } = writerOptions.properties
  return Type.Object({ ...rest, store, logging })
}

/**
 * The options of `sluice writer <store>`, and everything about them that can be known before the start.
 *
 * @throws OptionsError with every fault; those between options only where each is right by itself
 */
export function loadWriterOptions(kind: StoreKind, sources: OptionSources): WriterOptions {
  const options = loadOptions(writerOptionsOf(kind), sources) as WriterOptions
  const faults: OptionFault[] = [...httpFaults(options.http), ...kafkaFaults(options.log, options.env)]
  noteFault(faults, 'subscriber.subjects', () => void subjectFilter(options.subscriber.subjects))
  noteFault(faults, 'consumer', () => checkKafkaConsumer(options.consumer))
  noteFault(faults, 'workers.memory_bytes', () => assertWriterMemory(options, options.log.brokers.length))
  faults.push(...kind.faults(options.store))
  faults.push(...knownSecretFaults(options.env, kind.secrets(options.store)))
  if (faults.length > 0) throw new OptionsError(faults)
  return options
}
