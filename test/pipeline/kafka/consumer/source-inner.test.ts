// The parts of the source on Kafka that need no broker: assignment, ends of fetches, meaning of failures, and options.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { brokerFailure } from '../../../../pipeline/kafka/client/line.ts'
import { assign, decodeAssignment, encodeAssignment, encodeSubscription } from '../../../../pipeline/kafka/consumer/assignment.ts'
import { endOf } from '../../../../pipeline/kafka/consumer/batch-ends.ts'
import { logFailure } from '../../../../pipeline/kafka/consumer/failure.ts'
import { checkKafkaConsumer, kafkaSourceBytesMax } from '../../../../pipeline/kafka/consumer/limits.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { type LogPartition, logOf, logPartition } from '../../../../transformers/log-partition.ts'
import { batch } from '../fake-brokers.ts'
import { quickConsumer } from './source-parts.ts'

const of = (...partitions: readonly number[]): LogPartition[] => partitions.map(partition => logPartition(0, partition))
const member = (memberId: string, owned: readonly LogPartition[] = [], topics: readonly string[] = ['t']) => ({
  memberId,
  metadata: encodeSubscription(topics, owned),
})

test('partitions are assigned evenly, and stay with their members as far as possible', () => {
  expect(assign(['t'], of(0, 1, 2, 3, 4), [member('a'), member('b')])).toEqual(
    new Map([
      ['a', [0, 3, 4]],
      ['b', [1, 2]],
    ]),
  )
  const joined = assign(['t'], of(0, 1, 2, 3, 4, 5), [member('new'), member('a', of(0, 1, 2)), member('b', of(3, 4, 5))])
  expect(joined.get('a')).toEqual([0, 1])
  expect(joined.get('b')).toEqual([3, 4])
  expect(joined.get('new')).toEqual([2, 5])
  expect(assign(['t'], of(0), [member('a'), member('b', of(0))]).get('b')).toEqual([0])
})

test('if two members claim the same partition only one gets it, and members of other topics get none', () => {
  const given = assign(['t'], of(0, 1), [member('a', of(0, 1)), member('b', of(0, 1)), member('c', [], ['u'])])
  expect([...given.values()].flat().sort((left, right) => left - right)).toEqual([0, 1])
  expect(given.get('c')).toEqual([])
})

const topics = ['hall', 'line', 'plant']

/** Partitions of the topics above, and the members that come and go. */
const groups = fc.record({
  counts: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 3, maxLength: 3 }),
  before: fc.integer({ min: 1, max: 6 }),
  after: fc.integer({ min: 1, max: 6 }),
})
const partitionsOf = (counts: readonly number[]): LogPartition[] =>
  counts.flatMap((count, log) => Array.from({ length: count }, (_, partition) => logPartition(log, partition)))
const sizes = (given: ReadonlyMap<string, readonly LogPartition[]>): number[] => [...given.values()].map(({ length }) => length)

test('the partitions of several topics are assigned each to one member, evenly, and no more of them move than must', () => {
  fc.assert(
    fc.property(groups, ({ counts, before, after }) => {
      const all = partitionsOf(counts)
      const names = (count: number): string[] => Array.from({ length: count }, (_, at) => `m${at}`)
      const first = assign(
        topics,
        all,
        names(before).map(name => member(name, [], topics)),
      )
      const second = assign(
        topics,
        all,
        names(after).map(name => member(name, first.get(name), topics)),
      )
      for (const given of [first, second]) {
        expect([...given.values()].flat().toSorted((left, right) => left - right)).toEqual(all)
        expect(Math.max(...sizes(given)) - Math.min(...sizes(given))).toBeLessThanOrEqual(1)
      }
      for (const [name, kept] of second) {
        const owned = new Set(first.get(name))
        // It gives partitions away, or gets some, but never both.
        const stayed = kept.filter(at => owned.has(at)).length
        expect(stayed).toBe(Math.min(owned.size, kept.length))
      }
    }),
  )
})

test('each member gets partitions of each topic, as far as there are enough', () => {
  const all = partitionsOf([4, 4, 4])
  const alone = assign(topics, all, [member('a', [], topics)])
  const joined = assign(topics, all, [member('a', alone.get('a'), topics), member('b', [], topics)])
  for (const given of joined.values()) expect(new Set(given.map(logOf)).size).toBe(3)
})

test('a topic that not all members know is assigned among those that do', () => {
  const all = partitionsOf([2, 2, 2])
  const given = assign(topics, all, [member('a', [], topics), member('b', [], ['hall', 'line']), member('c', [], topics)])
  expect([...given.values()].flat().toSorted((left, right) => left - right)).toEqual(all)
  expect(given.get('b')!.some(at => logOf(at) === 2)).toBe(false)
  expect(['a', 'c'].map(name => given.get(name)!.filter(at => logOf(at) === 2).length)).toEqual([1, 1])
})

test('an assignment can be decoded, also that of a member without partitions', () => {
  expect(decodeAssignment(encodeAssignment(['t'], of(3, 1)), ['t'])).toEqual([1, 3])
  expect(decodeAssignment(encodeAssignment(['t'], []), ['t'])).toEqual([])
  expect(decodeAssignment(Buffer.alloc(0), ['t'])).toEqual([])
  expect(decodeAssignment(encodeAssignment(['u'], of(1)), ['t'])).toEqual([])
  const several = [logPartition(0, 2), logPartition(1, 0), logPartition(1, 5)]
  expect(decodeAssignment(encodeAssignment(['a', 'b'], several), ['a', 'b'])).toEqual(several)
  // A member that knows one topic more has other indexes.
  const moved = [logPartition(0, 2), logPartition(2, 0), logPartition(2, 5)]
  expect(decodeAssignment(encodeAssignment(['a', 'b'], several), ['a', 'aa', 'b'])).toEqual(moved)
})

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
