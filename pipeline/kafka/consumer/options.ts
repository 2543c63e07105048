// The options of a consumer, and the memory that they add up to.

import { type Static, Type } from 'typebox'
import { SystemicError } from '../../systemic-error.ts'

const mebibyte = 1024 * 1024

export const kafkaConsumerOptions = Type.Object({
  fetchBytes: Type.Integer({
    default: 2 * mebibyte,
    minimum: 1024,
    maximum: 64 * mebibyte,
    description: 'Bytes of messages in one answer of a broker. A batch that is larger comes whole.',
  }),
  partitionBytes: Type.Integer({
    default: mebibyte,
    minimum: 1024,
    maximum: 64 * mebibyte,
    description: 'Bytes of messages of one partition in one answer of a broker.',
  }),
  queueBytes: Type.Integer({
    default: 8 * mebibyte,
    minimum: 1024,
    maximum: 1024 * mebibyte,
    description: 'Bytes of fetched messages that may wait for a worker, those that are on their way included.',
  }),
  waitMs: Type.Integer({
    default: 500,
    minimum: 1,
    maximum: 60_000,
    description: 'Milliseconds that a broker waits for a first message before it answers that there is none.',
  }),
  sessionMs: Type.Integer({
    default: 10_000,
    minimum: 500,
    maximum: 1_800_000,
    description: 'Milliseconds after which the group gives the partitions of a worker to others when it has not heard of it.',
  }),
  rebalanceMs: Type.Integer({
    default: 30_000,
    minimum: 500,
    maximum: 1_800_000,
    description: 'Milliseconds that the group waits for its workers when partitions are given out anew.',
  }),
  heartbeatMs: Type.Integer({
    default: 1_000,
    minimum: 50,
    maximum: 600_000,
    description: 'Milliseconds between the heartbeats of a worker: how soon it learns that partitions are given out anew.',
  }),
  metadataMs: Type.Integer({
    default: 30_000,
    minimum: 100,
    maximum: 3_600_000,
    description: 'Milliseconds after which it is looked whether the topic has more partitions.',
  }),
})
export type KafkaConsumerOptions = Static<typeof kafkaConsumerOptions>

/**
 * What one source holds at most, in bytes, beside the runs that it has handed out: the queue, and once more an answer of each leader that is
 * put together from its pieces. Of compressed messages a batch that is read counts by what it expands to, and it is read one by one.
 *
 * @param leaders brokers that lead partitions of the topic
 * @param batchBytesMax of the largest batch that the brokers take (`message.max.bytes`), by which an answer may be larger than it should be
 * @param expandedBytesMax of the largest batch when it is decompressed; 0 where none is compressed
 */
export function kafkaSourceBytesMax(
  { fetchBytes, queueBytes }: Pick<KafkaConsumerOptions, 'fetchBytes' | 'queueBytes'>,
  leaders = 1,
  batchBytesMax = mebibyte,
  expandedBytesMax = 0,
): number {
  const answerBytes = Math.max(fetchBytes, batchBytesMax)
  return Math.max(queueBytes, answerBytes) + leaders * (answerBytes - fetchBytes) + leaders * answerBytes + expandedBytesMax
}

/** @throws SystemicError for options that are right by themselves and wrong together */
export function checkKafkaConsumer({ fetchBytes, queueBytes, sessionMs, heartbeatMs, rebalanceMs }: KafkaConsumerOptions): void {
  if (queueBytes < fetchBytes)
    throw new SystemicError(
      `consumer.queue_bytes of ${queueBytes} is below consumer.fetch_bytes of ${fetchBytes}: an answer must have room`,
    )
  if (heartbeatMs * 3 > sessionMs)
    throw new SystemicError(
      `consumer.heartbeat_ms of ${heartbeatMs} leaves fewer than three heartbeats in consumer.session_ms of ${sessionMs}: lower it`,
    )
  if (rebalanceMs < sessionMs)
    throw new SystemicError(`consumer.rebalance_ms of ${rebalanceMs} is below consumer.session_ms of ${sessionMs}: raise it`)
}
