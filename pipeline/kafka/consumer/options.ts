// The options of a consumer.

import { type Static, Type } from 'typebox'

const mebibyte = 1024 * 1024

export const kafkaConsumerOptions = Type.Object({
  fetchBytes: Type.Integer({
    default: 2 * mebibyte,
    minimum: 1024,
    maximum: 64 * mebibyte,
    description: 'Bytes of messages in one answer of a broker.',
  }),
  partitionBytes: Type.Integer({
    default: mebibyte,
    minimum: 1024,
    maximum: 64 * mebibyte,
    description: 'The same, of one partition.',
  }),
  queueBytes: Type.Integer({
    default: 8 * mebibyte,
    minimum: 1024,
    maximum: 1024 * mebibyte,
    description: 'Bytes of fetched messages that may wait for a worker.',
  }),
  waitMs: Type.Integer({
    default: 500,
    minimum: 1,
    maximum: 60_000,
    description: 'Milliseconds that a broker waits for messages.',
  }),
  sessionMs: Type.Integer({
    default: 10_000,
    minimum: 500,
    maximum: 1_800_000,
    description: 'Milliseconds without contact after which a worker loses its partitions.',
  }),
  rebalanceMs: Type.Integer({
    default: 30_000,
    minimum: 500,
    maximum: 1_800_000,
    description: 'Milliseconds that a rebalance waits for workers.',
  }),
  heartbeatMs: Type.Integer({
    default: 1_000,
    minimum: 50,
    maximum: 600_000,
    description: 'Milliseconds between the heartbeats of a worker.',
  }),
  metadataMs: Type.Integer({
    default: 30_000,
    minimum: 100,
    maximum: 3_600_000,
    description: 'Milliseconds between checks whether the topic has more partitions.',
  }),
})
export type KafkaConsumerOptions = Static<typeof kafkaConsumerOptions>
