// The two flows of a worker, of messages and of replays: what each may have at hand, and what that adds up to in all workers.

import { expandedBytesMax } from '../pipeline/kafka/codecs.ts'
import { type KafkaConsumerOptions, kafkaSourceBytesMax } from '../pipeline/kafka/consumer/options.ts'
import { type BatchOptions, memoryBytesMax } from '../pipeline/options.ts'
import type { WriterOptions } from './writer-options.ts'

const kibibyte = 1024

/** A flow's share of the options. */
export interface FlowLimits {
  readonly consumer: KafkaConsumerOptions
  readonly batch: BatchOptions
  /** Of one run that the source hands out. */
  readonly runBytesMax: number
  readonly runMessagesMax: number
}

export interface FlowsOfWorker {
  readonly messages: FlowLimits
  readonly replays: FlowLimits
}

/** What the dead letters of one worker may have waiting. */
export const deadLetterQueueBytes = 4 * 1024 * kibibyte

/** Replays are few, put there by a person: their flow is small, and smaller yet where that of the messages is. */
const replayQueueBytesMax = 1024 * kibibyte
const replayBatchBytesMax = 256 * kibibyte
const replayBatchRowsMax = 500
const replayRunMessagesMax = 100

/** What brokers take by default, and beside the largest payload what the topics of dead letters and replays take. */
const batchBytesMax = 1024 * kibibyte

export function flowsOf({ batch, consumer }: Pick<WriterOptions, 'batch' | 'consumer'>): FlowsOfWorker {
  const queueBytes = Math.min(consumer.queueBytes, replayQueueBytesMax)
  const bytes = Math.min(batch.bytes, replayBatchBytesMax)
  return {
    messages: { consumer, batch, runBytesMax: batch.bytes, runMessagesMax: batch.rows },
    replays: {
      consumer: { ...consumer, queueBytes, fetchBytes: Math.min(consumer.fetchBytes, queueBytes) },
      batch: { ...batch, bytes, rows: Math.min(batch.rows, replayBatchRowsMax) },
      runBytesMax: bytes,
      runMessagesMax: replayRunMessagesMax,
    },
  }
}

/**
 * What the queues and batches of all workers can hold at most, in bytes: the sum that is asserted at start.
 *
 * @param leaders brokers that lead partitions of the topic: of each there may be an answer at hand. Replays have one partition.
 */
export function writerMemoryBytesMax(options: WriterOptions, leaders: number): number {
  const { messages, replays } = flowsOf(options)
  const perWorker = flowBytesMax(messages, options, leaders) + flowBytesMax(replays, options, 1) + deadLetterQueueBytes
  return Math.max(options.workers.count, 1) * perWorker
}

/** The batches of a flow, and its source with one batch of the log that is decompressed. */
function flowBytesMax({ consumer, batch, runBytesMax }: FlowLimits, { message }: WriterOptions, leaders: number): number {
  const pipeline = memoryBytesMax({ batch, message, log: { queueBytes: 0, fetchBytes: runBytesMax } })
  return pipeline + kafkaSourceBytesMax(consumer, leaders, batchBytesMax + message.payloadBytes, expandedBytesMax)
}

/** @throws Error that names the options to change, where the sum is above `workers.memory_bytes` */
export function assertWriterMemory(options: WriterOptions, leaders: number): void {
  const sum = writerMemoryBytesMax(options, leaders)
  const { memoryBytes, count } = options.workers
  if (sum <= memoryBytes) return
  const [needed, given] = [sum, memoryBytes].map(bytes => Math.ceil(bytes / 2 ** 20))
  throw new Error(
    `queues and batches of ${count} workers add up to ${needed} MiB, above ${given} MiB: lower workers.count, consumer.queue_bytes, batch.bytes or batch.rows, or raise the bound`,
  )
}
