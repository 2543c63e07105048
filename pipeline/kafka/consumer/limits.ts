// The memory that a consumer's options imply, and which of them go together.

import { SystemicError } from '../../systemic-error.ts'
import type { KafkaConsumerOptions } from './options.ts'

const mebibyte = 1024 * 1024

/**
 * The most that one source holds, in bytes, in addition to returned chunks: the queue, plus one more answer per leader while it is
 * assembled from its parts. Of compressed batches, the one being read counts with its decompressed size; they are read one at a time.
 *
 * @param leaders number of brokers that lead partitions of the topic
 * @param batchBytesMax size of the largest batch that brokers accept (`message.max.bytes`), by which an answer may exceed its limit
 * @param expandedBytesMax size of the largest batch after decompression; 0 if none is compressed
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

/** @throws SystemicError for invalid combinations of options */
export function checkKafkaConsumer({ fetchBytes, queueBytes, sessionMs, heartbeatMs, rebalanceMs }: KafkaConsumerOptions): void {
  if (queueBytes < fetchBytes)
    throw new SystemicError(`consumer.queue_bytes of ${queueBytes} is below consumer.fetch_bytes of ${fetchBytes}: an answer must fit`)
  if (heartbeatMs * 3 > sessionMs)
    throw new SystemicError(
      `consumer.heartbeat_ms of ${heartbeatMs} allows fewer than three heartbeats in consumer.session_ms of ${sessionMs}: lower it`,
    )
  if (rebalanceMs < sessionMs)
    throw new SystemicError(`consumer.rebalance_ms of ${rebalanceMs} is below consumer.session_ms of ${sessionMs}: raise it`)
}
