// The parts of the source on Kafka that need no broker: ends of fetches, meaning of failures, and options.

import { expect, test } from 'vitest'
import { brokerFailure } from '../../../../pipeline/kafka/client/line.ts'
import { endOf } from '../../../../pipeline/kafka/consumer/batch-ends.ts'
import { logFailure } from '../../../../pipeline/kafka/consumer/failure.ts'
import { checkKafkaConsumer, kafkaSourceBytesMax } from '../../../../pipeline/kafka/consumer/limits.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { batch } from '../fake-brokers.ts'
import { quickConsumer } from './source-parts.ts'

test('the end of a truncated set is that of its last complete batch', () => {
  const set = Buffer.concat([batch(10, 15), batch(15, 16), batch(16, 26)])
  expect(endOf(set, 12)).toBe(26)
  expect(endOf(set.subarray(0, 200), 12)).toBe(16)
  expect(endOf(set.subarray(0, 30), 12)).toBe(12)
  expect(endOf(Buffer.alloc(0), 12)).toBe(12)
})

test('what a failure means: temporarily away, or permanent', () => {
  const failure = (fields: object, cause?: Error): Error => Object.assign(new Error('said', { cause }), fields)
  const isSystemic = (error: unknown): boolean => {
    const found = logFailure(error, 'x')
    if (!(found instanceof SystemicError)) expect(found).toBeInstanceOf(LogUnavailableError)
    return found instanceof SystemicError
  }
  const network = { code: 'PLT_KFK_NETWORK' }
  const refused = { code: 'PLT_KFK_AUTHENTICATION' }
  for (const [error, expected] of [
    [failure(network, failure({ code: 'ECONNREFUSED' })), false],
    [failure({}, failure({ apiCode: 16 })), false],
    [failure({}, failure({ apiCode: 29 })), true],
    // Another process has the name of this member.
    [failure({}, failure({ apiCode: 82 })), true],
    [failure({}, failure({ apiCode: 24 })), true],
    [failure(network, failure({ code: 'SELF_SIGNED_CERT_IN_CHAIN' })), true],
    [failure(network, failure(refused, failure({ apiCode: 58 }))), true],
    [failure(network, failure(refused)), true],
    // The broker died during the request.
    [failure(network, failure(refused, failure(network))), false],
  ] as const) {
    expect([error, isSystemic(brokerFailure(error))]).toEqual([error, expected])
  }
})

test('invalid combinations of options name the options', () => {
  for (const [wrong, sentence] of [
    [{ queueBytes: 1024, fetchBytes: 2048 }, 'consumer.queue_bytes of 1024 is below consumer.fetch_bytes of 2048: an answer must fit'],
    [
      { heartbeatMs: 800, sessionMs: 2000 },
      'consumer.heartbeat_ms of 800 allows fewer than three heartbeats in consumer.session_ms of 2000: lower it',
    ],
    [{ rebalanceMs: 1500, sessionMs: 2000 }, 'consumer.rebalance_ms of 1500 is below consumer.session_ms of 2000: raise it'],
  ] as const) {
    expect(() => checkKafkaConsumer({ ...quickConsumer, ...wrong })).toThrow(new SystemicError(sentence))
  }
})

test('memory is the queue and an answer for each leader', () => {
  const mebibyte = 1 << 20
  expect(kafkaSourceBytesMax({ fetchBytes: 2 * mebibyte, queueBytes: 8 * mebibyte })).toBe(10 * mebibyte)
  expect(kafkaSourceBytesMax(quickConsumer, 3, mebibyte)).toBe(7 * mebibyte)
})
