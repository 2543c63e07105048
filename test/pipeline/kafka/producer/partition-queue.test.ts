// The messages of one partition in flight: sequence numbers, epochs, and resending.

import { expect, test } from 'vitest'
import type { Append } from '../../../../pipeline/kafka/producer/appends.ts'
import {
  abort,
  advance,
  encode,
  type Item,
  type PartitionQueue,
  putBack,
  queueOf,
  renew,
  takeBatch,
} from '../../../../pipeline/kafka/producer/partition-queue.ts'
import { outgoing } from '../../message.ts'

function append(): Append {
  return { positions: [], missing: 1, settled: false, isSent: false, deadlineMs: 0, resolve: () => undefined, reject: () => undefined }
}

const item = (of: Append = append()): Item => ({ messages: [outgoing()], bytes: 100, append: of, index: 0 })

function queueWith(...items: Item[]): PartitionQueue {
  const queue = queueOf([], 0)
  renew(queue, 7n)
  queue.waiting.push(...items)
  return queue
}

/** The producer's epoch and the first sequence number of a record batch (Kafka protocol guide, "Record Batch"). */
function numbersOf(bytes: Buffer): [epoch: number, sequence: number] {
  return [bytes.readInt16BE(51), bytes.readInt32BE(53)]
}

test('a batch continues the sequence numbers of the previous one, and after 2^31 - 1 comes 0', () => {
  const queue = queueWith(item(), item(), item())
  queue.sequence = 2 ** 31 - 2
  const numbers: [number, number][] = []
  while (queue.waiting.length > 0) {
    takeBatch(queue, 100)
    numbers.push(numbersOf(encode(queue)))
    advance(queue)
  }
  expect(numbers).toEqual([
    [0, 2 ** 31 - 2],
    [0, 2 ** 31 - 1],
    [0, 0],
  ])
})

test('a batch of several messages may cross the end of the sequence numbers', () => {
  const queue = queueWith(item(), item(), item())
  queue.sequence = 2 ** 31 - 1
  takeBatch(queue, 1000)
  advance(queue)
  expect(queue.sequence).toBe(2)
})

test('the messages of a whole append are never in two batches, however few bytes those may have, and each has a sequence number', () => {
  const whole: Item = { messages: [outgoing(), outgoing(), outgoing()], bytes: 300, append: append(), index: 0 }
  const queue = queueWith(item(), whole, item())
  const batches: [sequence: number, count: number][] = []
  while (queue.waiting.length > 0) {
    takeBatch(queue, 150)
    const bytes = encode(queue)
    batches.push([numbersOf(bytes)[1], bytes.readInt32BE(57)])
    advance(queue)
  }
  expect(batches).toEqual([
    [0, 1],
    [1, 3],
    [4, 1],
  ])
})

test('after a sent batch was dropped the next one has a higher epoch, because a copy of it may still arrive', () => {
  const given = append()
  const queue = queueWith(item(given), item())
  takeBatch(queue, 100)
  queue.sequence = 5
  const first = numbersOf(encode(queue))
  queue.batch!.sent = true
  given.settled = true
  expect(abort(queue)).toHaveLength(1)
  takeBatch(queue, 100)
  expect([first, numbersOf(encode(queue))]).toEqual([
    [0, 5],
    [1, 0],
  ])
})

test('above the highest epoch the next batch needs a new producer', () => {
  const given = append()
  const queue = queueWith(item(given))
  queue.epoch = 2 ** 15 - 1
  takeBatch(queue, 100)
  queue.batch!.sent = true
  given.settled = true
  abort(queue)
  expect(queue.producerId).toBeUndefined()
})

test.each([
  ['was not sent', { sent: false, inFlight: false, others: 0 }, 'gone'],
  ['is in flight', { sent: true, inFlight: true, others: 0 }, 'kept'],
  ['contains a message that another caller waits for', { sent: true, inFlight: false, others: 1 }, 'kept'],
] as const)("a batch that %s keeps its numbers when a caller's append expires", (_, { sent, inFlight, others }, outcome) => {
  const given = append()
  const queue = queueWith(item(given), ...Array.from({ length: others }, () => item()))
  takeBatch(queue, 1000)
  queue.sequence = 5
  queue.batch!.sent = sent
  queue.inFlight = inFlight
  given.settled = true
  abort(queue)
  expect([queue.epoch, queue.sequence, queue.batch === undefined ? 'gone' : 'kept']).toEqual([0, 5, outcome])
})

test('messages that are put back are sent first, in their order', () => {
  const [one, two, three] = [item(), item(), item()]
  const queue = queueWith(one, two, three)
  takeBatch(queue, 200)
  putBack(queue)
  expect(queue.waiting).toEqual([one, two, three])
})
