// The producer: sends the queued messages of a topic to the leaders of its partitions, each exactly once.
//
// Each leader has one running request, with a batch from each of its queues. Messages that arrive meanwhile go into the next request, so
// batches grow with the load. A batch has a producer id, an epoch and a sequence number, and is sent again with the same
// ones until it is answered. The broker accepts each sequence number once, and answers a repeated one with the original
// offset. So neither a lost answer nor a new leader duplicates or reorders messages.
//
// An append has a deadline. Messages not sent by then are removed from their queue. The outcome of sent ones is unknown, but the append is
// rejected as well.

import type { Admin, Broker } from '@platformatic/kafka'
import type { Logger } from '../../../config/logger.ts'
import { LogUnavailableError, MessageRefusedError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { waitBefore } from '../../writer/retry.ts'
import { connectTo } from '../connection.ts'
import { brokerError, code, messageRefused, producerLost, reasonOf } from '../failure.ts'
import { addressOf, openLeaders } from '../leaders.ts'
import type { Topic } from '../topics.ts'
import { type Append, openAppends } from './appends.ts'
import type { Item, PartitionQueue } from './partition-queue.ts'
import { abort, advance, disown, encode, isReady, putBack, queueOf, renew, takeBatch } from './partition-queue.ts'
import { newProducerId, type Produced, produce } from './requests.ts'

export interface ProducerOptions {
  readonly admin: Admin
  readonly topic: Topic
  readonly requestTimeoutMs: number
  readonly logger: Logger
  /** Called for each item that leaves the queue. */
  readonly onGone: (item: Item) => void
}

export interface Producer {
  /** The latest metadata of the topic. */
  readonly topic: Topic
  /** The last rejection, unless a message has been accepted since. */
  readonly refusal: { readonly atMs: number; readonly error: Error } | undefined
  /** Queues the items of one append, each with its partition. Call it in deadline order. */
  send(append: Append, items: readonly Item[], partitions: readonly number[]): void
  /** Resolves when no message is pending. */
  drained(): Promise<void>
}

/** Brokers accept 1,048,588 bytes by default, and the size of messages is overestimated. */
const batchBytesDefault = 1_000_000
/** Bounded, because a request is assembled in one event-loop turn. */
const requestBytesMax = 1024 * 1024
const backOff = { waitMsMin: 20, waitMsMax: 1000 }
/** Share of the request time-out, so that the leader answers before the connection is dropped. */
const acknowledgeShare = 0.8

export function openProducer({ admin, requestTimeoutMs, logger, onGone, ...first }: ProducerOptions): Producer {
  const queues: PartitionQueue[] = []
  const busy = new Set<string>()
  const timer = openDeadlineTimer(ring)
  const appends = openAppends(() => timer.clear())
  const leaders = openLeaders(admin, first.topic, error => {
    lastError = error
  })
  const { name } = first.topic
  let batchBytesMax = batchBytesDefault
  let woken = false
  let turn = 0
  let lastError: unknown
  let refusal: Producer['refusal']

  function send(append: Append, items: readonly Item[], partitions: readonly number[]): void {
    appends.add(append)
    timer.at(append.deadlineMs)
    for (let at = 0; at < items.length; at++) queueOf(queues, partitions[at]!).waiting.push(items[at]!)
    wake()
  }

  /** Messages of the same event-loop turn are sent together. */
  function wake(): void {
    if (woken) return
    woken = true
    setImmediate(() => {
      woken = false
      serveAll()
    })
  }

  function serveAll(): void {
    const nowMs = performance.now()
    leaders.keepFresh(nowMs)
    for (const queue of queues) {
      if (!isReady(queue, nowMs)) {
        if (queue.againMs > nowMs) ringAt(queue.againMs)
        continue
      }
      const leader = leaders.of(queue.partition)
      if (leader === undefined) failed(queue, new LogUnavailableError(`partition ${queue.partition} has no leader`))
      else if (!busy.has(addressOf(leader))) void serve(leader)
    }
  }

  /** Sends to one leader while batches are ready for it. */
  async function serve(leader: Broker): Promise<void> {
    const address = addressOf(leader)
    busy.add(address)
    for (let chosen = choose(address); chosen.length > 0; chosen = choose(address)) {
      for (const queue of chosen) queue.inFlight = true
      try {
        settle(chosen, await exchange(chosen, leader))
      } catch (error) {
        for (const queue of chosen) failed(queue, error)
      }
      for (const queue of chosen) {
        queue.inFlight = false
        if (queue.failures > 0) takeOut(queue)
      }
    }
    busy.delete(address)
    // Check for partitions that moved to this leader meanwhile, and for pauses that ended.
    wake()
  }

  /** The queues whose batches are sent next. It starts with another queue each time, so that none starves. */
  function choose(address: string): PartitionQueue[] {
    const nowMs = performance.now()
    const chosen: PartitionQueue[] = []
    let bytes = 0
    turn++
    for (let at = 0; at < queues.length && bytes < requestBytesMax; at++) {
      const queue = queues[(at + turn) % queues.length]!
      const leader = leaders.of(queue.partition)
      if (!isReady(queue, nowMs) || leader === undefined || addressOf(leader) !== address) continue
      if (queue.batch === undefined) for (const item of takeBatch(queue, batchBytesMax)) onGone(item)
      if (queue.batch === undefined) continue
      bytes += queue.batch.itemsBytes
      chosen.push(queue)
    }
    return chosen
  }

  /** One request and its answer. */
  async function exchange(chosen: readonly PartitionQueue[], leader: Broker): Promise<Produced[]> {
    const connection = await connectTo(admin, leader)
    if (chosen.some(queue => queue.producerId === undefined)) {
      const producerId = await newProducerId(connection)
      for (const queue of chosen) if (queue.producerId === undefined) renew(queue, producerId)
    }
    const batches = chosen.map(queue => ({ partition: queue.partition, bytes: encode(queue) }))
    for (const { batch } of chosen) {
      batch!.sent = true
      for (const { append } of batch!.items) append.isSent = true
    }
    return produce(connection, name, batches, Math.floor(requestTimeoutMs * acknowledgeShare))
  }

  function settle(chosen: readonly PartitionQueue[], answers: readonly Produced[]): void {
    for (const queue of chosen) {
      const answer = answers.find(({ partition }) => partition === queue.partition)
      if (answer === undefined) failed(queue, new LogUnavailableError(`the broker did not answer for partition ${queue.partition}`))
      else if (answer.errorCode === code.none) taken(queue, answer.baseOffset)
      else refused(queue, answer.errorCode)
    }
  }

  function taken(queue: PartitionQueue, baseOffset: number): void {
    // The topic may have been recreated in the meantime.
    if (queue.failures > 0) leaders.refresh()
    let offset = baseOffset
    for (const item of advance(queue).items) {
      const { append, index, messages } = item
      for (let at = 0; at < messages.length; at++) appends.stored(append, index + at, { partition: queue.partition, offset: offset++ })
      onGone(item)
    }
    if (refusal === undefined) return
    logger.debug({ topic: name }, 'log is writable again')
    refusal = undefined
  }

  /** Handles the error code for a rejected batch: what concerns one message or all is final, and everything else is retried. */
  function refused(queue: PartitionQueue, errorCode: number): void {
    const { items, itemsBytes, bytes } = queue.batch!
    const error = brokerError(errorCode)
    if (errorCode === code.messageTooLarge || errorCode === code.recordListTooLarge) {
      if (items.length === 1)
        return notTaken(queue, `of ${bytes!.length} bytes`, 'raise its max.message.bytes, or send smaller ones', error)
      // The topic has a lower limit than usual: use smaller batches from now on.
      batchBytesMax = Math.floor(Math.min(batchBytesMax, itemsBytes) / 2)
      return putBack(queue)
    }
    if (messageRefused.has(errorCode)) {
      // Bits may have changed on the way.
      if (errorCode === code.corruptMessage && queue.failures === 0) return resend(queue, error)
      if (items.length === 1) return notTaken(queue, 'of this kind', 'check its settings', error)
      queue.alone = items.length
      return putBack(queue)
    }
    if (errorCode === code.invalidTimestamp) {
      // It may have waited for its broker.
      if (queue.failures === 0) return resend(queue, error)
      return wrongClock(queue, error)
    }
    if (producerLost.has(errorCode)) disown(queue)
    failed(queue, error)
  }

  /** The only item of the batch is rejected permanently. It is not in the log, so the sequence number stays the same. */
  function notTaken(queue: PartitionQueue, what: string, remedy: string, cause: Error): void {
    const [item] = queue.batch!.items
    const kind = item!.messages.length === 1 ? 'message' : `batch of ${item!.messages.length} messages`
    const message = `the topic ${name} accepts no ${kind} ${what} (${cause.message}): ${remedy}`
    appends.reject(item!.append, new MessageRefusedError(message, { cause }))
    queue.batch = undefined
    onGone(item!)
  }

  /** Encodes the batch again, with the time at that moment, and sends it after a pause. */
  function resend(queue: PartitionQueue, error: Error): void {
    queue.batch!.bytes = undefined
    failed(queue, error)
  }

  /** All messages of a batch have the time of this machine, so the broker accepts none. */
  function wrongClock(queue: PartitionQueue, cause: Error): void {
    const now = new Date().toISOString()
    const remedy = 'correct the clock, or its message.timestamp.before.max.ms and message.timestamp.after.max.ms'
    const error = new SystemicError(`the topic ${name} does not accept the time of this machine, ${now} (${cause.message}): ${remedy}`, {
      cause,
    })
    refusal = { atMs: performance.now(), error }
    queue.failures = 0
    const { items } = queue.batch!
    queue.batch = undefined
    for (const item of items) {
      appends.reject(item.append, error)
      onGone(item)
    }
  }

  /** Retries the queue after a pause, with its leader at that time. */
  function failed(queue: PartitionQueue, error: unknown): void {
    lastError = error
    queue.failures++
    const waitMs = waitBefore(queue.failures, backOff)
    queue.againMs = performance.now() + waitMs
    ringAt(queue.againMs)
    leaders.refresh()
    logger.debug({ topic: name, partition: queue.partition, reason: reasonOf(error), wait_ms: Math.round(waitMs) }, 'retrying a batch')
  }

  /** Rejects expired appends, and resumes queues whose pause has ended. */
  function ring(): void {
    const before = appends.size
    const nextMs = appends.expire(performance.now(), isSent => unavailable(lastError, isSent))
    if (appends.size < before) for (const queue of queues) takeOut(queue)
    if (nextMs !== undefined) timer.at(nextMs)
    serveAll()
  }

  function unavailable(cause: unknown, mayBeStored: boolean): LogUnavailableError {
    const reason = cause === undefined ? 'no broker has answered' : reasonOf(cause)
    const error = new LogUnavailableError(`the topic ${name} does not accept messages (${reason}): check its brokers`, {
      cause,
      mayBeStored,
    })
    // Only at debug: callers log the outage, an ingest that watches the log or a writer that waits for its dead letters.
    if (refusal === undefined) logger.debug({ topic: name, reason }, 'log cannot be written')
    refusal = { atMs: performance.now(), error }
    return error
  }

  function takeOut(queue: PartitionQueue): void {
    for (const item of abort(queue)) onGone(item)
  }

  /** Sets the timer only if an append is pending. */
  function ringAt(deadlineMs: number): void {
    if (appends.size > 0) timer.at(deadlineMs)
  }

  return {
    get topic() {
      return leaders.topic
    },
    get refusal() {
      return refusal
    },
    send,
    drained: () => appends.drained(),
  }
}

/** One timer for many deadlines: it fires at the earliest. */
interface DeadlineTimer {
  /** Fires at this time of `performance.now`, or earlier. The callback sets the next deadline. */
  at(deadlineMs: number): void
  clear(): void
}

function openDeadlineTimer(onRing: () => void): DeadlineTimer {
  let timer: NodeJS.Timeout | undefined
  let setMs = Number.POSITIVE_INFINITY

  function clear(): void {
    clearTimeout(timer)
    timer = undefined
    setMs = Number.POSITIVE_INFINITY
  }

  return {
    at(deadlineMs) {
      if (deadlineMs >= setMs) return
      clear()
      setMs = deadlineMs
      const ring = (): void => {
        clear()
        onRing()
      }
      timer = setTimeout(ring, Math.max(1, Math.ceil(deadlineMs - performance.now())))
    },
    clear,
  }
}
