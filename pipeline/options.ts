// The pipeline's options.

import { type Static, Type } from 'typebox'

const mebibyte = 1024 * 1024

export const batchOptions = Type.Object({
  rows: Type.Integer({ default: 2000, minimum: 1, maximum: 100_000, description: 'Rows at which a batch is written.' }),
  bytes: Type.Integer({
    default: mebibyte,
    minimum: 1024,
    maximum: 64 * mebibyte,
    description: 'Bytes of messages at which a batch is written.',
  }),
  ageMs: Type.Integer({
    default: 100,
    minimum: 1,
    maximum: 60_000,
    description: 'Milliseconds after its first message at which a batch is written.',
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
    description: 'Earliest time that is stored, in seconds since 1970; an earlier one is a dead letter.',
  }),
  aheadDays: Type.Integer({
    default: 366,
    minimum: 0,
    maximum: 36_600,
    description: 'Days that a time may be after the message was received; a later one is a dead letter.',
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

/** For the embedded log. */
export const logOptions = Type.Object({
  retentionHours: Type.Integer({
    default: 24,
    minimum: 1,
    maximum: 87_600,
    description: 'Hours that a message is kept after all consumers passed it.',
  }),
  queueBytes: Type.Integer({
    default: 16 * mebibyte,
    minimum: 2 * mebibyte,
    maximum: 1024 * mebibyte,
    description: 'Bytes of messages that may wait to be written; beyond it publishers get 503.',
  }),
  fileBytes: Type.Integer({
    default: 64 * 1024 * mebibyte,
    minimum: 0,
    maximum: 2 ** 44,
    description:
      'Most bytes in the file of messages, and in that of dead letters. While the first is full publishers get 503, until messages expire; while the second is, the writer waits. 0 is no limit.',
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
  acceptNew: Type.Optional(
    Type.String({
      // Before this option named a log, it was a boolean.
      pattern: '^(?!(true|false)$).',
      allowed: 'the id of the log to accept, which the error of the start gives',
      flag: '--accept-new-log',
      examples: ['2b1f9f6e-5a0c-4d3e-9b7a-6c8d5e4f3a21'],
      description: 'Continue with this recreated log, or with a store that lacks what was read before.',
    }),
  ),
  acceptLost: Type.Boolean({
    default: false,
    description: 'Continue where the log deleted messages that were not stored; they count as lost.',
  }),
})
export type LogOptions = Static<typeof logOptions>

/** For roles that process messages; a writer also has a number of threads. */
export const workersOptions = Type.Object({
  memoryBytes: Type.Integer({
    default: 512 * mebibyte,
    minimum: 16 * mebibyte,
    maximum: 2 ** 40,
    description: 'Bytes that queues and batches may add up to; the start refuses larger sums.',
  }),
})
export type WorkersOptions = Static<typeof workersOptions>
