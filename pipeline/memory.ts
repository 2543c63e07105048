// The memory that the pipeline's options add up to.

import type { BatchOptions, LogOptions, MessageOptions, WorkersOptions } from './options.ts'
import { SystemicError } from './systemic-error.ts'

const mebibyte = 1024 * 1024

/** Batches that exist at once: the one being written, and the next one, decoded and encoded. */
const batchesInFlight = 2
/** Chunks that exist in addition to those of batches: one read ahead, and the rest of one that was divided. */
const chunksInFlight = 2
/** A byte of payload becomes two in a UTF-16 string, and up to two in the store's encoding. */
const bytesPerPayloadByte = 4
/** The columns of a row with their spare room, and its fixed part in the store's encoding. */
const bytesPerRow = 400
/** The smallest record, `{"n":"a","v":1},`, which limits the number of rows of a payload. */
const bytesPerRecordMin = 16

export interface MemoryParts {
  readonly batch: BatchOptions
  readonly message: Pick<MessageOptions, 'payloadBytes'>
  readonly log: Pick<LogOptions, 'queueBytes' | 'fetchBytes'>
}

/** The most bytes in the queues and batches of one worker: the sum that is checked at the start. A batch and a chunk may exceed their limits by one message. */
export function memoryBytesMax({ batch, message, log }: MemoryParts): number {
  const chunkBytes = log.fetchBytes + message.payloadBytes
  const rowsMax = batch.rows + message.payloadBytes / bytesPerRecordMin
  const batchBytes = (batch.bytes + message.payloadBytes) * bytesPerPayloadByte + rowsMax * bytesPerRow
  return Math.ceil(log.queueBytes + chunksInFlight * chunkBytes + batchesInFlight * (chunkBytes + batchBytes))
}

/**
 * Checks that queues and batches fit into the given memory, and that one message fits through each of them.
 *
 * @returns the sum in bytes, to be logged
 * @throws SystemicError that names the options to change
 */
export function assertMemory(parts: MemoryParts & { readonly workers: WorkersOptions }): number {
  const sum = memoryBytesMax(parts)
  if (sum > parts.workers.memoryBytes) {
    throw new SystemicError(
      `queues and batches add up to ${inMebibytes(sum)} MiB, above workers.memory_bytes of ${inMebibytes(parts.workers.memoryBytes)} MiB: lower log.queue_bytes, log.fetch_bytes, batch.bytes or batch.rows, or raise workers.memory_bytes`,
    )
  }
  if (parts.message.payloadBytes > parts.log.queueBytes / 2) {
    throw new SystemicError(
      `message.payload_bytes of ${parts.message.payloadBytes} needs log.queue_bytes of at least twice that, not ${parts.log.queueBytes}: raise log.queue_bytes`,
    )
  }
  return sum
}

function inMebibytes(bytes: number): number {
  return Math.ceil(bytes / mebibyte)
}
