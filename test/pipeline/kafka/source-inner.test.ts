// The parts of the source on Kafka that need no broker: what it uses of kafkajs, who reads what, its own requests, and what failures mean.

import { createRequire } from 'node:module'
import { Kafka, logLevel } from 'kafkajs'
import { expect, test } from 'vitest'
import { assign, decodeAssignment, encodeAssignment, encodeSubscription } from '../../../pipeline/kafka/consumer/assignment.ts'
import { endOf } from '../../../pipeline/kafka/consumer/batch-ends.ts'
import { logFailure } from '../../../pipeline/kafka/consumer/failure.ts'
import { fetchRequest } from '../../../pipeline/kafka/consumer/fetch-request.ts'
import { checkKafkaConsumer, kafkaSourceBytesMax } from '../../../pipeline/kafka/consumer/options.ts'
import { openWireReader, openWireWriter } from '../../../pipeline/kafka/consumer/wire.ts'
import { brokerFailure as ofKafkajs } from '../../../pipeline/kafka/kafkajs/failure.ts'
import { openInner } from '../../../pipeline/kafka/kafkajs/inner.ts'
import { innerRequest } from '../../../pipeline/kafka/kafkajs/inner-request.ts'
import { brokerFailure as ofPlatformatic } from '../../../pipeline/kafka/platformatic/failure.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { batch } from './fake-brokers.ts'
import { quickConsumer } from './source-parts.ts'

test('kafkajs is the version that was read, and has what is used of it: look at inner.ts where this fails', async () => {
  expect((createRequire(import.meta.url)('kafkajs/package.json') as { version: string }).version).toBe('2.2.4')
  const broker = await openInner(new Kafka({ brokers: ['127.0.0.1:1'], logLevel: logLevel.NOTHING })).broker({ host: '127.0.0.1', port: 1 })
  const [connection] = broker.connectionPool.pool
  for (const call of ['isConnected', 'connect', 'disconnect', 'rejectRequests'] as const) expect(typeof connection![call]).toBe('function')
  expect(connection!.chunks).toEqual([])
  expect(connection!.bytesBuffered).toBe(0)
})

test('another kafkajs is refused with a sentence', () => {
  expect(() => openInner({} as Kafka)).toThrow(SystemicError)
  expect(() => openInner({} as Kafka)).toThrow(/install the version that package.json names/)
})

const member = (memberId: string, owned: number[] = []) => ({ memberId, metadata: encodeSubscription('t', owned) })

test('partitions are given out evenly, and stay where they are as far as that allows', () => {
  expect(assign('t', [0, 1, 2, 3, 4], [member('a'), member('b')])).toEqual(
    new Map([
      ['a', [0, 3, 4]],
      ['b', [1, 2]],
    ]),
  )
  const joined = assign('t', [0, 1, 2, 3, 4, 5], [member('new'), member('a', [0, 1, 2]), member('b', [3, 4, 5])])
  expect(joined.get('a')).toEqual([0, 1])
  expect(joined.get('b')).toEqual([3, 4])
  expect(joined.get('new')).toEqual([2, 5])
  expect(assign('t', [0], [member('a'), member('b', [0])]).get('b')).toEqual([0])
})

test('two who claim the same partition do not both get it, and who wants another topic gets none', () => {
  const given = assign('t', [0, 1], [member('a', [0, 1]), member('b', [0, 1]), { memberId: 'c', metadata: encodeSubscription('u', []) }])
  expect([...given.values()].flat().sort((left, right) => left - right)).toEqual([0, 1])
  expect(given.get('c')).toEqual([])
})

test('an assignment is read back, also that of a member who got nothing', () => {
  expect(decodeAssignment(encodeAssignment('t', [3, 1]), 't')).toEqual([1, 3])
  expect(decodeAssignment(encodeAssignment('t', []), 't')).toEqual([])
  expect(decodeAssignment(Buffer.alloc(0), 't')).toEqual([])
  expect(decodeAssignment(encodeAssignment('u', [1]), 't')).toEqual([])
})

test('what is written flexibly is read back, and a cut answer is an error', () => {
  const uuid = '01234567-89ab-cdef-0123-456789abcdef'
  const bytes = openWireWriter()
    .int8(-1)
    .int16(2)
    .int32(-3)
    .int64(2 ** 44)
    .uuid(uuid)
    .string('x'.repeat(300))
    .array(2)
    .int8(7)
    .int8(8)
    .tags()
    .bytes()
  const reader = openWireReader(bytes)
  expect([reader.int8(), reader.int16(), reader.int32(), reader.int64(), reader.uuid()]).toEqual([-1, 2, -3, 2 ** 44, uuid])
  expect(reader.string()).toBe('x'.repeat(300))
  expect(reader.array(() => reader.int8())).toEqual([7, 8])
  reader.tags()
  expect(() => openWireReader(bytes.subarray(0, 10)).uuid()).not.toThrow(TypeError)
  const cut = openWireReader(bytes.subarray(0, 40))
  expect([cut.int8(), cut.int16(), cut.int32(), cut.int64(), cut.uuid()]).toHaveLength(5)
  expect(() => cut.string()).toThrow(RangeError)
})

test('an answer with an error for a partition is read, and kafkajs does not throw it for all', async () => {
  const { request, response } = innerRequest(
    fetchRequest({ topicId: '0'.repeat(32), partitions: [{ partition: 1, offset: 5 }], waitMs: 1, bytesMax: 2, partitionBytesMax: 3 }),
    2000,
  )
  expect((await request.encode()).buf).toHaveLength(1 + 29 - 4 + 1 + 16 + 1 + 33 + 1 + 1 + 1 + 1)
  const uuid = '0'.repeat(32)
  const answer = openWireWriter().tags().int32(0).int16(0).int32(0).array(1).uuid(uuid).array(2)
  for (const [partition, error] of [
    [0, 1],
    [1, 0],
  ] as const) {
    answer
      .int32(partition)
      .int16(error)
      .int64(9)
      .int64(9)
      .int64(0)
      .array(1)
      .int64(77)
      .int64(4)
      .tags()
      .int32(-1)
      .array(2)
      .int8(1)
      .int8(2)
      .tags()
  }
  answer.tags().tags()
  const { partitions } = await response.decode(answer.bytes())
  expect(partitions.map(({ partition, error, aborted, records }) => [partition, error, aborted, [...records]])).toEqual([
    [0, 1, [{ producerId: 77, firstOffset: 4 }], [1, 2]],
    [1, 0, [{ producerId: 77, firstOffset: 4 }], [1, 2]],
  ])
})

test('by kafkajs too a fetch has the time of any request, beyond the time that its broker may wait', () => {
  const question = { topicId: '0'.repeat(32), partitions: [], waitMs: 700, bytesMax: 2, partitionBytesMax: 3 }
  expect(innerRequest(fetchRequest(question), 2000).requestTimeout).toBe(2700)
})

test('the end of a set that is cut is that of its last whole batch', () => {
  const set = Buffer.concat([batch(10, 15), batch(15, 16), batch(16, 26)])
  expect(endOf(set, 12)).toBe(26)
  expect(endOf(set.subarray(0, 200), 12)).toBe(16)
  expect(endOf(set.subarray(0, 30), 12)).toBe(12)
  expect(endOf(Buffer.alloc(0), 12)).toBe(12)
})

test('what a failure means, by either client: away for now, or not to be mended by waiting', () => {
  const failure = (fields: object, cause?: Error): Error => Object.assign(new Error('said', { cause }), fields)
  const isSystemic = (error: unknown): boolean => {
    const found = logFailure(error, 'x')
    if (!(found instanceof SystemicError)) expect(found).toBeInstanceOf(LogUnavailableError)
    return found instanceof SystemicError
  }
  for (const [fields, expected] of [
    [{ name: 'KafkaJSConnectionError', code: 'ECONNREFUSED' }, false],
    [{ type: 'NOT_COORDINATOR_FOR_GROUP', code: 16 }, false],
    [{ type: 'TOPIC_AUTHORIZATION_FAILED', code: 29 }, true],
    [{ type: 'GROUP_AUTHORIZATION_FAILED', code: 30 }, true],
    [{ name: 'KafkaJSSASLAuthenticationError' }, true],
    [{ name: 'KafkaJSServerDoesNotSupportApiKey' }, true],
    [{ name: 'KafkaJSConnectionError', code: 'SELF_SIGNED_CERT_IN_CHAIN' }, true],
  ] as const) {
    expect([fields, isSystemic(ofKafkajs(failure(fields)))]).toEqual([fields, expected])
  }
  const network = { code: 'PLT_KFK_NETWORK' }
  const refused = { code: 'PLT_KFK_AUTHENTICATION' }
  for (const [error, expected] of [
    [failure(network, failure({ code: 'ECONNREFUSED' })), false],
    [failure({}, failure({ apiCode: 16 })), false],
    [failure({}, failure({ apiCode: 29 })), true],
    [failure({}, failure({ apiCode: 24 })), true],
    [failure(network, failure({ code: 'SELF_SIGNED_CERT_IN_CHAIN' })), true],
    [failure(network, failure(refused, failure({ apiCode: 58 }))), true],
    [failure(network, failure(refused)), true],
    // The broker died while it was asked.
    [failure(network, failure(refused, failure(network))), false],
  ] as const) {
    expect([error, isSystemic(ofPlatformatic(error))]).toEqual([error, expected])
  }
})

test('options that do not fit together are told by their names', () => {
  for (const [wrong, sentence] of [
    [
      { queueBytes: 1024, fetchBytes: 2048 },
      'consumer.queue_bytes of 1024 is below consumer.fetch_bytes of 2048: an answer must have room',
    ],
    [
      { heartbeatMs: 800, sessionMs: 2000 },
      'consumer.heartbeat_ms of 800 leaves fewer than three heartbeats in consumer.session_ms of 2000: lower it',
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
