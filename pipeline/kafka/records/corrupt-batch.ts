// The errors with which a partition stops at invalid data: skipping it would silently lose messages.

import { SystemicError } from '../../systemic-error.ts'

/** The position of a batch in the log. */
export interface BatchLocation {
  readonly topic: string
  readonly partition: number
  /** The batch's first offset, or the requested offset if it cannot be read. */
  readonly offset: number
}

/** @param fault what is wrong with the batch: `its checksum is 1, not 2` */
export function corruptBatch({ topic, partition, offset }: BatchLocation, fault: string, cause?: unknown): SystemicError {
  return new SystemicError(
    `topic ${topic}, partition ${partition}: the batch at offset ${offset} is corrupt: ${fault}; inspect it with kafka-dump-log, and restore the partition from a good replica`,
    cause === undefined ? undefined : { cause },
  )
}

/** The error for a batch or message in a format older than Kafka 0.11, which is not supported. */
export function oldBatch(where: BatchLocation, format: number): SystemicError {
  return refusedBatch(
    where,
    `it has the message format ${format}, which is older than Kafka 0.11: copy the topic with a client that supports it, or start with --skip-batch, which skips such batches and counts their offsets as lost`,
  )
}

/** A batch that `--skip-batch` skips, though only its records show it. */
export class LargeBatchError extends SystemicError {}

/** @param what of it is too large: `its gzip expands beyond 64 MiB` */
export function largeBatch(where: BatchLocation, what: string): LargeBatchError {
  const { message } = refusedBatch(
    where,
    `${what}: configure its producer to send smaller batches, and start with --skip-batch, which skips such batches and counts their offsets as lost`,
  )
  return new LargeBatchError(message)
}

/** @param fault why it cannot be read: `it is compressed by codec 5, which is unknown: …` */
export function refusedBatch({ topic, partition, offset }: BatchLocation, fault: string): SystemicError {
  return new SystemicError(`topic ${topic}, partition ${partition}: the batch at offset ${offset} cannot be read: ${fault}`)
}
