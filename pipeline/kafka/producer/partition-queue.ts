// The queue of one partition: its unsent messages in order, of which one batch at a time is sent.
//
//   waiting ──cut──▶ batch ──answered──▶ done
//      ▲               │
//      └───put back────┘   the broker rejected it: its messages are sent in smaller batches, or one by one

import type { OutgoingMessage } from '../../log.ts'
import type { Append } from './appends.ts'
import { encodeBatch } from './batch.ts'

/** Unsent messages that stay in one batch, which a broker takes as a whole or not at all: usually one. */
export interface Item {
  readonly messages: readonly OutgoingMessage[]
  /** Their size for the queue limit. */
  readonly bytes: number
  readonly append: Append
  /** The index of the first in the append; the others follow it. */
  readonly index: number
}

export interface Batch {
  readonly items: readonly Item[]
  /** Those of all items. */
  readonly messages: readonly OutgoingMessage[]
  readonly itemsBytes: number
  /** The encoded batch; undefined until it has its sequence number. */
  bytes: Buffer | undefined
  sent: boolean
}

export interface PartitionQueue {
  readonly partition: number
  waiting: Item[]
  batch: Batch | undefined
  inFlight: boolean
  /** undefined if the next batch needs a new one. */
  producerId: bigint | undefined
  epoch: number
  sequence: number
  /** Consecutive failures. */
  failures: number
  /** When it may be sent again after a failure. */
  againMs: number
  /** This many of the next items are sent in batches of their own, because the broker rejected one of them. */
  alone: number
}

/** Kafka's epochs have 15 bits, and its sequence numbers 31, after which they wrap around. */
const epochMax = 2 ** 15 - 1
const sequences = 2 ** 31

function openQueue(partition: number): PartitionQueue {
  return {
    partition,
    waiting: [],
    batch: undefined,
    inFlight: false,
    producerId: undefined,
    epoch: 0,
    sequence: 0,
    failures: 0,
    againMs: 0,
    alone: 0,
  }
}

/** The queue of this partition; creates missing queues up to it. */
export function queueOf(queues: PartitionQueue[], partition: number): PartitionQueue {
  while (queues.length <= partition) queues.push(openQueue(queues.length))
  return queues[partition]!
}

/** Whether a batch may be sent now. */
export function isReady({ inFlight, batch, waiting, againMs }: PartitionQueue, nowMs: number): boolean {
  return !inFlight && againMs <= nowMs && (batch !== undefined || waiting.length > 0)
}

/**
 * Moves as many waiting items as fit into the batch, but at least one. Items whose append is settled are dropped.
 *
 * @returns the dropped items
 */
export function takeBatch(queue: PartitionQueue, bytesMax: number): Item[] {
  const { waiting } = queue
  const items: Item[] = []
  const left: Item[] = []
  let bytes = 0
  let taken = 0
  for (; taken < waiting.length; taken++) {
    const item = waiting[taken]!
    if (item.append.settled) {
      left.push(item)
      continue
    }
    if (items.length > 0 && (queue.alone > 0 || bytes + item.bytes > bytesMax)) break
    items.push(item)
    bytes += item.bytes
  }
  queue.waiting = waiting.slice(taken)
  queue.alone = Math.max(0, queue.alone - taken)
  if (items.length > 0) {
    const messages = items.flatMap(item => item.messages)
    queue.batch = { items, messages, itemsBytes: bytes, bytes: undefined, sent: false }
  }
  return left
}

/** Assigns a sequence number to the batch and encodes it, unless that was done: the broker recognizes a batch that is sent again. */
export function encode(queue: PartitionQueue): Buffer {
  const batch = queue.batch!
  const { epoch, sequence } = queue
  batch.bytes ??= encodeBatch(batch.messages, { producerId: queue.producerId!, epoch, sequence }, Date.now())
  return batch.bytes
}

/** The batch was accepted: advances the sequence number for the next one. */
export function advance(queue: PartitionQueue): Batch {
  const batch = queue.batch!
  queue.batch = undefined
  queue.sequence = (queue.sequence + batch.messages.length) % sequences
  queue.failures = 0
  return batch
}

export function renew(queue: PartitionQueue, producerId: bigint): void {
  queue.producerId = producerId
  queue.epoch = 0
  queue.sequence = 0
}

/** The broker does not know this producer and does not have the batch, which is then sent again under a new producer id. */
export function disown(queue: PartitionQueue): void {
  queue.producerId = undefined
  if (queue.batch !== undefined) queue.batch.bytes = undefined
}

/** The broker does not have the batch; its messages go back to the front of the queue. */
export function putBack(queue: PartitionQueue): void {
  queue.waiting = [...queue.batch!.items, ...queue.waiting]
  queue.batch = undefined
}

/**
 * Removes messages whose append is settled. If a batch was already sent, its outcome is unknown, so the queue continues with a higher epoch: a
 * delayed copy of the batch is rejected by the broker once it has seen that epoch.
 *
 * @returns the removed messages
 */
export function abort(queue: PartitionQueue): readonly Item[] {
  const gone = queue.waiting.filter(({ append }) => append.settled)
  if (gone.length > 0) queue.waiting = queue.waiting.filter(({ append }) => !append.settled)
  const { batch } = queue
  if (batch === undefined || queue.inFlight || !batch.items.every(({ append }) => append.settled)) return gone
  queue.batch = undefined
  if (batch.sent) {
    queue.sequence = 0
    queue.epoch++
    if (queue.epoch > epochMax) queue.producerId = undefined
  }
  return [...gone, ...batch.items]
}
