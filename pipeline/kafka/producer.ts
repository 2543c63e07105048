// The producer: sends what waits in the lanes of a topic to the leaders of its partitions, each message once.
//
// Each leader has one request under way, with a batch of each of its lanes. What comes meanwhile travels with the next one: the more
// comes, the larger they are. A batch has its place among the records of this producer (producer id, epoch, sequence), and goes to the
// leader again and again with the same place until it is answered: the broker takes a place once, and answers with the offset that it
// had the first time. So neither a lost answer nor a new leader doubles a message or puts one before another.
//
// An append has a deadline. What has not been sent by then is taken out of its lane; of what has been sent nothing is known, and it is
// refused all the same.

import type { Admin, Broker } from '@platformatic/kafka'
import type { Logger } from '../../config/logger.ts'
import { LogUnavailableError, MessageRefusedError } from '../log.ts'
import { waitBefore } from '../retry.ts'
import { openAlarm } from './alarm.ts'
import { type Append, openAppends } from './appends.ts'
import { connectTo } from './connection.ts'
import { brokerError, code, producerLost, reasonOf } from './failure.ts'
import { advance, cut, disown, encode, giveUp, type Item, isReady, type Lane, laneOf, putBack, renew } from './lane.ts'
import { addressOf, openLeaders } from './leaders.ts'
import { type KafkaClient, newProducerId, type Produced, produce } from './produce.ts'
import type { Topic } from './topics.ts'

export interface ProducerOptions {
  readonly client: KafkaClient
  readonly admin: Admin
  readonly topic: Topic
  readonly requestTimeoutMs: number
  readonly logger: Logger
  /** Told of each message that is no longer on its way. */
  readonly onGone: (item: Item) => void
}

export interface Producer {
  /** As the brokers described it last. */
  readonly topic: Topic
  /** The last one, unless a message has been taken since. */
  readonly refusal: { readonly atMs: number; readonly error: Error } | undefined
  /** The messages of one append, each with its partition. Appends come in the order of their deadlines. */
  send(append: Append, items: readonly Item[], partitions: readonly number[]): void
  /** Resolves when nothing is on its way. */
  drained(): Promise<void>
}

/** Brokers take 1,048,588 bytes by default, and messages are counted with more than they take. */
const batchBytesDefault = 1_000_000
/** A request is put together in one turn of the event loop. */
const requestBytesMax = 1024 * 1024
const backOff = { waitMsMin: 20, waitMsMax: 1000 }
/** Of the time that a request has: the leader answers before the connection is given up. */
const acknowledgeShare = 0.8
export function openProducer({ client, admin, requestTimeoutMs, logger, onGone, ...first }: ProducerOptions): Producer {
  const lanes: Lane[] = []
  const busy = new Set<string>()
  const alarm = openAlarm(ring)
  const appends = openAppends(() => alarm.clear())
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
    alarm.at(append.deadlineMs)
    for (let at = 0; at < items.length; at++) laneOf(lanes, partitions[at]!).waiting.push(items[at]!)
    wake()
  }

  /** What comes in the same turn of the event loop travels together. */
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
    for (const lane of lanes) {
      if (!isReady(lane, nowMs)) {
        if (lane.againMs > nowMs) ringAt(lane.againMs)
        continue
      }
      const leader = leaders.of(lane.partition)
      if (leader === undefined) failed(lane, new LogUnavailableError(`partition ${lane.partition} has no leader`))
      else if (!busy.has(addressOf(leader))) void serve(leader)
    }
  }

  /** Sends to one leader as long as something is ready for it. */
  async function serve(leader: Broker): Promise<void> {
    const address = addressOf(leader)
    busy.add(address)
    for (let chosen = choose(address); chosen.length > 0; chosen = choose(address)) {
      for (const lane of chosen) lane.inFlight = true
      try {
        settle(chosen, await exchange(chosen, leader))
      } catch (error) {
        for (const lane of chosen) failed(lane, error)
      }
      for (const lane of chosen) {
        lane.inFlight = false
        if (lane.failures > 0) takeOut(lane)
      }
    }
    busy.delete(address)
    // Partitions that came to this leader meanwhile, and pauses that ended.
    wake()
  }

  /** The lanes that travel next, each with its batch. Another one is first each time, so that none starves. */
  function choose(address: string): Lane[] {
    const nowMs = performance.now()
    const chosen: Lane[] = []
    let bytes = 0
    turn++
    for (let at = 0; at < lanes.length && bytes < requestBytesMax; at++) {
      const lane = lanes[(at + turn) % lanes.length]!
      const leader = leaders.of(lane.partition)
      if (!isReady(lane, nowMs) || leader === undefined || addressOf(leader) !== address) continue
      if (lane.batch === undefined) for (const item of cut(lane, batchBytesMax)) onGone(item)
      if (lane.batch === undefined) continue
      bytes += lane.batch.itemsBytes
      chosen.push(lane)
    }
    return chosen
  }

  /** One request and its answer. */
  async function exchange(chosen: readonly Lane[], leader: Broker): Promise<Produced[]> {
    const connection = await connectTo(client, admin, leader)
    if (chosen.some(lane => lane.producerId === undefined)) {
      const producerId = await newProducerId(client, connection)
      for (const lane of chosen) if (lane.producerId === undefined) renew(lane, producerId)
    }
    const batches = chosen.map(lane => ({ partition: lane.partition, bytes: encode(lane) }))
    for (const { batch } of chosen) batch!.sent = true
    return produce(client, connection, name, batches, Math.floor(requestTimeoutMs * acknowledgeShare))
  }

  function settle(chosen: readonly Lane[], answers: readonly Produced[]): void {
    for (const lane of chosen) {
      const answer = answers.find(({ partition }) => partition === lane.partition)
      if (answer === undefined) failed(lane, new LogUnavailableError(`the broker did not answer for partition ${lane.partition}`))
      else if (answer.errorCode === code.none) taken(lane, answer.baseOffset)
      else refused(lane, answer.errorCode)
    }
  }

  function taken(lane: Lane, baseOffset: number): void {
    // The topic may have been made anew meanwhile.
    if (lane.failures > 0) leaders.refresh()
    let offset = baseOffset
    for (const item of advance(lane).items) {
      appends.place(item.append, item.index, { partition: lane.partition, offset: offset++ })
      onGone(item)
    }
    if (refusal === undefined) return
    logger.debug({ topic: name }, 'log can be written again')
    refusal = undefined
  }

  /** What the leader's answer says of a batch that it did not take. */
  function refused(lane: Lane, errorCode: number): void {
    const { items, itemsBytes, bytes } = lane.batch!
    const error = brokerError(client, errorCode)
    if (errorCode === code.messageTooLarge || errorCode === code.recordListTooLarge) {
      if (items.length === 1) return notTaken(lane, `of ${bytes!.length} bytes`, 'raise its max.message.bytes, or send smaller ones', error)
      // The topic takes less than is usual: from now on batches are smaller.
      batchBytesMax = Math.floor(Math.min(batchBytesMax, itemsBytes) / 2)
      return putBack(lane)
    }
    if (errorCode === code.invalidRecord) {
      if (items.length === 1) return notTaken(lane, 'as it is', 'look at its settings', error)
      lane.alone = items.length
      return putBack(lane)
    }
    if (producerLost.has(errorCode)) disown(lane)
    failed(lane, error)
  }

  /** The one message of the batch is refused for good. It is not in the log, so the lane goes on at the same place. */
  function notTaken(lane: Lane, what: string, remedy: string, cause: Error): void {
    const [item] = lane.batch!.items
    const message = `the topic ${name} takes no message ${what} (${cause.message}): ${remedy}`
    appends.reject(item!.append, new MessageRefusedError(message, { cause }))
    lane.batch = undefined
    onGone(item!)
  }

  /** The lane is tried again after a pause, with the leader that it then has. */
  function failed(lane: Lane, error: unknown): void {
    lastError = error
    lane.failures++
    const waitMs = waitBefore(lane.failures, backOff)
    lane.againMs = performance.now() + waitMs
    ringAt(lane.againMs)
    leaders.refresh()
    const line = { topic: name, partition: lane.partition, reason: reasonOf(error), wait_ms: Math.round(waitMs) }
    logger.debug(line, 'a batch is sent again')
  }

  /** Refuses appends at their deadline, and goes on with lanes whose pause has ended. */
  function ring(): void {
    const before = appends.size
    const nextMs = appends.expire(performance.now(), () => unavailable(lastError))
    if (appends.size < before) for (const lane of lanes) takeOut(lane)
    if (nextMs !== undefined) alarm.at(nextMs)
    serveAll()
  }

  function unavailable(cause: unknown): LogUnavailableError {
    const reason = cause === undefined ? 'no broker has answered' : reasonOf(cause)
    const error = new LogUnavailableError(`the topic ${name} does not take messages (${reason}): look at its brokers`, { cause })
    // Whoever appends says that the log is away: an ingest that watches it, or a writer that waits for its dead letters.
    if (refusal === undefined) logger.debug({ topic: name, reason }, 'log cannot be written')
    refusal = { atMs: performance.now(), error }
    return error
  }

  function takeOut(lane: Lane): void {
    for (const item of giveUp(lane)) onGone(item)
  }

  /** Nothing is waited for where nobody waits. */
  function ringAt(instantMs: number): void {
    if (appends.size > 0) alarm.at(instantMs)
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
