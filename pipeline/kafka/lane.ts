// A lane: the messages of one partition on their way, in order, of which one batch at a time travels.
//
//   waiting ──cut──▶ batch ──answered──▶ gone
//      ▲               │
//      └───put back────┘   the broker refused it whole: what it holds travels in smaller batches, or one by one

import type { OutgoingMessage } from '../log.ts'
import type { Append } from './appends.ts'
import { encodeBatch } from './produced-batch.ts'

/** One message on its way. */
export interface Item {
  readonly message: OutgoingMessage
  /** What it is counted with where what waits is bounded. */
  readonly bytes: number
  readonly append: Append
  /** Its place in the append. */
  readonly index: number
}

export interface Batch {
  readonly items: readonly Item[]
  readonly itemsBytes: number
  /** As it travels; undefined until it has its place among the records of the producer. */
  bytes: Buffer | undefined
  sent: boolean
}

export interface Lane {
  readonly partition: number
  waiting: Item[]
  batch: Batch | undefined
  inFlight: boolean
  /** undefined where the next batch needs a new one. */
  producerId: bigint | undefined
  epoch: number
  sequence: number
  /** In a row. */
  failures: number
  /** When it may travel again after a failure. */
  againMs: number
  /** So many of the next messages travel alone, since the broker refused one of them. */
  alone: number
}

/** Kafka's epochs have 15 bits, and its sequence numbers 31, after which they begin again. */
const epochMax = 2 ** 15 - 1
const sequences = 2 ** 31

function openLane(partition: number): Lane {
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

/** The lane of this partition among these, which are made up to it. */
export function laneOf(lanes: Lane[], partition: number): Lane {
  while (lanes.length <= partition) lanes.push(openLane(lanes.length))
  return lanes[partition]!
}

/** Whether a batch of it may travel now. */
export function isReady({ inFlight, batch, waiting, againMs }: Lane, nowMs: number): boolean {
  return !inFlight && againMs <= nowMs && (batch !== undefined || waiting.length > 0)
}

/**
 * As many of the messages that wait as fit become the batch; one fits always. Those whose append is settled are left out.
 *
 * @returns those that were left out
 */
export function cut(lane: Lane, bytesMax: number): Item[] {
  const { waiting } = lane
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
    if (items.length > 0 && (lane.alone > 0 || bytes + item.bytes > bytesMax)) break
    items.push(item)
    bytes += item.bytes
  }
  lane.waiting = waiting.slice(taken)
  lane.alone = Math.max(0, lane.alone - taken)
  if (items.length > 0) lane.batch = { items, itemsBytes: bytes, bytes: undefined, sent: false }
  return left
}

/** Gives the batch its place and its bytes, unless it has them: a batch that is sent again is the same one to the broker. */
export function encode(lane: Lane): Buffer {
  const batch = lane.batch!
  const { epoch, sequence } = lane
  batch.bytes ??= encodeBatch(
    batch.items.map(({ message }) => message),
    { producerId: lane.producerId!, epoch, sequence },
    Date.now(),
  )
  return batch.bytes
}

/** The batch was taken: the next one has the place behind it. */
export function advance(lane: Lane): Batch {
  const batch = lane.batch!
  lane.batch = undefined
  lane.sequence = (lane.sequence + batch.items.length) % sequences
  lane.failures = 0
  return batch
}

export function renew(lane: Lane, producerId: bigint): void {
  lane.producerId = producerId
  lane.epoch = 0
  lane.sequence = 0
}

/** The broker knows nothing of this producer, and has nothing of the batch: it travels again as that of another. */
export function disown(lane: Lane): void {
  lane.producerId = undefined
  if (lane.batch !== undefined) lane.batch.bytes = undefined
}

/** The broker has nothing of the batch; its messages wait again, before all others. */
export function putBack(lane: Lane): void {
  lane.waiting = [...lane.batch!.items, ...lane.waiting]
  lane.batch = undefined
}

/**
 * Takes out what nobody waits for any more. Where a batch was sent nothing is known of it, so the lane goes on under a higher epoch: a
 * copy that still lies somewhere is refused by the broker once it has seen that epoch.
 *
 * @returns what was taken out
 */
export function giveUp(lane: Lane): readonly Item[] {
  const gone = lane.waiting.filter(({ append }) => append.settled)
  if (gone.length > 0) lane.waiting = lane.waiting.filter(({ append }) => !append.settled)
  const { batch } = lane
  if (batch === undefined || lane.inFlight || !batch.items.every(({ append }) => append.settled)) return gone
  lane.batch = undefined
  if (batch.sent) {
    lane.sequence = 0
    lane.epoch++
    if (lane.epoch > epochMax) lane.producerId = undefined
  }
  return [...gone, ...batch.items]
}
