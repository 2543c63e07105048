// Checks at start-up that the queues and batches of all workers fit into the writer's memory bound.

import { kafkaSourceBytesMax } from '../../pipeline/kafka/consumer/limits.ts'
import type { KafkaConsumerOptions } from '../../pipeline/kafka/consumer/options.ts'
import { expandedBytesMax } from '../../pipeline/kafka/records/codecs.ts'
import { memoryBytesMax } from '../../pipeline/memory.ts'
import type { BatchOptions, MessageOptions, WorkersOptions } from '../../pipeline/options.ts'

const kibibyte = 1024

/** Limit of the dead letters of one worker that wait to be written. */
export const deadLetterQueueBytes = 4 * 1024 * kibibyte

/** Default limit of brokers; also the room for a batch beside the largest payload in the dead-letter topic. */
const batchBytesMax = 1024 * kibibyte

/** The options that its memory follows from. */
interface SizedWriter {
  readonly batch: BatchOptions
  readonly consumer: KafkaConsumerOptions
  readonly message: Pick<MessageOptions, 'payloadBytes'>
  readonly workers: WorkersOptions & { readonly count: number }
}

/**
 * The most that the queues and batches of all workers can hold, in bytes.
 *
 * @param leaders number of brokers that lead partitions of the topic: a response of each may be buffered
 */
export function writerMemoryBytesMax({ batch, consumer, message, workers }: SizedWriter, leaders: number): number {
  const pipeline = memoryBytesMax({ batch, message, log: { queueBytes: 0, fetchBytes: batch.bytes } })
  const source = kafkaSourceBytesMax(consumer, leaders, batchBytesMax + message.payloadBytes, expandedBytesMax)
  return Math.max(workers.count, 1) * (pipeline + source + deadLetterQueueBytes)
}

/** @throws Error that names the options to change, if the sum is above `workers.memory_bytes` */
export function assertWriterMemory(options: SizedWriter, leaders: number): void {
  const sum = writerMemoryBytesMax(options, leaders)
  const { memoryBytes, count } = options.workers
  if (sum <= memoryBytes) return
  const [needed, given] = [sum, memoryBytes].map(bytes => Math.ceil(bytes / 2 ** 20))
  throw new Error(
    `queues and batches of ${count} workers add up to ${needed} MiB, above workers.memory_bytes of ${given} MiB: lower workers.count, consumer.queue_bytes, batch.bytes or batch.rows, or raise workers.memory_bytes`,
  )
}
