// The pipeline's options, and the memory that they add up to.

import { type Static, Type } from 'typebox'
import { SystemicError } from './systemic-error.ts'

const mebibyte = 1024 * 1024

export const batchOptions = Type.Object({
  rows: Type.Integer({ default: 2000, minimum: 1, maximum: 100_000, description: 'Rows at which a batch is cut.' }),
  bytes: Type.Integer({
    default: mebibyte,
    minimum: 1024,
    maximum: 64 * mebibyte,
    description: 'Bytes of messages at which a batch is cut.',
  }),
  ageMs: Type.Integer({
    default: 100,
    minimum: 1,
    maximum: 60_000,
    description: 'Milliseconds after its first message at which a batch is cut, so that a quiet log is stored, too.',
  }),
})
export type BatchOptions = Static<typeof batchOptions>

export const messageOptions = Type.Object({
  payloadBytes: Type.Integer({
    default: 256 * 1024,
    minimum: 1,
    maximum: 16 * mebibyte,
    description: 'Bytes of the largest payload; a larger one is a dead letter.',
  }),
  earliestSeconds: Type.Integer({
    default: 2 ** 28,
    minimum: -62_135_596_800,
    maximum: 2 ** 32,
    description: 'Seconds since 1970 of the earliest time that is stored; a message with an earlier one is a dead letter.',
  }),
  aheadDays: Type.Integer({
    default: 366,
    minimum: 0,
    maximum: 36_600,
    description: 'Days that a time may lie after the message was received; a message with a later one is a dead letter.',
  }),
})
export type MessageOptions = Static<typeof messageOptions>

export const subscriberOptions = Type.Object({
  subjects: Type.Array(Type.String(), {
    default: ['channels.>'],
    minItems: 1,
    description: 'Subjects whose messages are stored: `*` is one part, a final `>` one or more. `channels.>` is everything.',
  }),
})
export type SubscriberOptions = Static<typeof subscriberOptions>

/** Of the embedded log. */
export const logOptions = Type.Object({
  retentionHours: Type.Integer({
    default: 24,
    minimum: 1,
    maximum: 87_600,
    description: 'Hours for which a message is kept after every consumer has passed it.',
  }),
  queueBytes: Type.Integer({
    default: 16 * mebibyte,
    minimum: 2 * mebibyte,
    maximum: 1024 * mebibyte,
    description: 'Bytes of messages that may wait to be written; beyond it publishers are answered 503.',
  }),
  fileBytes: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 2 ** 44,
    description: 'Bytes at which the file of a topic takes no further message; 0 is the size of the disk.',
  }),
  fetchBytes: Type.Integer({
    default: mebibyte,
    minimum: 1024,
    maximum: 64 * mebibyte,
    description: 'Bytes of messages that a writer takes from the log at once.',
  }),
  fetchMessages: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 100_000,
    description: 'Messages that a writer takes from the log at once.',
  }),
  acceptNew: Type.Boolean({
    default: false,
    flag: '--accept-new-log',
    description:
      'Go on with a log that was made anew, beside what the store holds of the one before; or with a store that knows nothing of what was read before, which it will lack.',
  }),
  acceptLost: Type.Boolean({
    default: false,
    description: 'Go on where the log deleted messages that a writer had not stored; they are counted.',
  }),
})
export type LogOptions = Static<typeof logOptions>

/** Of whoever works on messages; a writer has its number of threads beside. */
export const workersOptions = Type.Object({
  memoryBytes: Type.Integer({
    default: 512 * mebibyte,
    minimum: 16 * mebibyte,
    maximum: 2 ** 40,
    description: 'Bytes of memory that queues and batches may add up to; larger sums stop the start.',
  }),
})
export type WorkersOptions = Static<typeof workersOptions>

/** Batches that exist at once: one being written, and the next, decoded and encoded. */
const batchesInFlight = 2
/** Runs that exist beside those a batch holds on to: one read ahead, and the rest of one that was cut. */
const runsInFlight = 2
/** A byte of payload becomes two in a UTF-16 string, and up to two in the store's encoding. */
const bytesPerPayloadByte = 4
/** The columns of a row with their room to grow, and its fixed part in the store's encoding. */
const bytesPerRow = 400
/** The smallest record, `{"n":"a","v":1},`, so the number of rows that one payload can hold. */
const bytesPerRecordMin = 16

export interface MemoryParts {
  readonly batch: BatchOptions
  readonly message: Pick<MessageOptions, 'payloadBytes'>
  readonly log: Pick<LogOptions, 'queueBytes' | 'fetchBytes'>
}

/** What the queues and batches of one worker can hold at most, in bytes: the sum that is asserted at start. A batch and a run exceed their bounds by one message. */
export function memoryBytesMax({ batch, message, log }: MemoryParts): number {
  const runBytes = log.fetchBytes + message.payloadBytes
  const rowsMax = batch.rows + message.payloadBytes / bytesPerRecordMin
  const batchBytes = (batch.bytes + message.payloadBytes) * bytesPerPayloadByte + rowsMax * bytesPerRow
  return Math.ceil(log.queueBytes + runsInFlight * runBytes + batchesInFlight * (runBytes + batchBytes))
}

/**
 * Asserts that queues and batches fit into the memory they are given, and that one message fits through each of them.
 *
 * @returns the sum in bytes, to be printed
 * @throws SystemicError that names the options to change
 */
export function assertMemory(parts: MemoryParts & { readonly workers: WorkersOptions }): number {
  const sum = memoryBytesMax(parts)
  if (sum > parts.workers.memoryBytes) {
    throw new SystemicError(
      `queues and batches add up to ${inMebibytes(sum)} MiB, above workers.memory_bytes of ${inMebibytes(parts.workers.memoryBytes)} MiB: lower log.queue_bytes, log.fetch_bytes, batch.bytes or batch.rows, or raise the bound`,
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
