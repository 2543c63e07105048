// A load of known messages: appended to Kafka at a steady rate; acknowledged ones are remembered with their place.

import { setTimeout as wait } from 'node:timers/promises'
import { type KafkaLog, openKafkaLog } from '../../pipeline/kafka/log.ts'
import { LogUnavailableError } from '../../pipeline/log.ts'
import type { StoreName } from '../../roles/stores/store.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { foreignMessageOf } from '../pipeline/envelope/foreign-messages.ts'
import { logSettings, silent } from '../pipeline/kafka/stored-messages.ts'
import { messageOf, type TestMessage } from './messages.ts'

export interface Load {
  /** The message of this number. */
  message(number: number): TestMessage
  /** How many were sent: they have the numbers from 0 on. */
  sent(): number
  acknowledged(): number
  /** The message's place, whose partition is a `LogPartition`; undefined if it was not acknowledged, so it may or may not be there. */
  placeOf(number: number): { partition: number; offset: number } | undefined
  /** By partition, the offset after the last acknowledged message. */
  ends(): ReadonlyMap<number, number>
  /** Resolves with the first acknowledgement. */
  readonly flowing: Promise<void>
  /** Resolves when everything that was sent is acknowledged or refused. */
  stop(): Promise<void>
}

const appendsPerSecond = 40
/** The most appends that wait while the broker is away. */
const appendsMax = 16
const offsetBits = 2 ** 40

export interface LoadOptions {
  /** Messages; fewer while the broker is away. */
  readonly perSecond: number
  /** Whether some are dead letters; true by default. */
  readonly poison?: boolean
  /** The store that refuses some of them; relational by default. */
  readonly store?: StoreName
  /** Whether they are those of another producer. */
  readonly isForeign?: boolean
}

export async function startLoad(
  brokers: readonly string[],
  topic: string | readonly string[],
  { perSecond, poison = true, store = 'relational', isForeign = false }: LoadOptions,
): Promise<Load> {
  const topics = [topic].flat()
  const logs = await Promise.all(
    topics.map(name => openKafkaLog(logSettings(brokers, name, { queueBytes: 64 << 20, appendTimeoutMs: 20_000 }), silent)),
  )
  const epochSeconds = Math.floor(Date.now() / 1000)
  const message = (number: number): TestMessage =>
    isForeign ? foreignMessageOf(number, epochSeconds, poison) : messageOf(number, epochSeconds, poison ? store : undefined)
  const places: number[] = []
  const ends = new Map<number, number>()
  const stopping = new AbortController()
  const first = Promise.withResolvers<void>()
  let acknowledged = 0

  /** The topics take turns. */
  async function append(from: number, to: number): Promise<void> {
    const numbers = Array.from({ length: to - from }, (_, at) => from + at)
    await Promise.all(
      logs.map((log, nth) =>
        appendTo(
          log,
          nth,
          numbers.filter(number => number % logs.length === nth),
        ),
      ),
    )
  }

  async function appendTo(log: KafkaLog, nth: number, numbers: readonly number[]): Promise<void> {
    try {
      const positions = await log.append(numbers.map(number => message(number).outgoing))
      for (const [index, { partition, offset }] of positions.entries()) {
        const at = logPartition(nth, partition)
        places[numbers[index]!] = at * offsetBits + offset
        if (offset >= (ends.get(at) ?? 0)) ends.set(at, offset + 1)
      }
      acknowledged += numbers.length
      first.resolve()
    } catch (error) {
      if (!(error instanceof LogUnavailableError)) throw error
    }
  }

  const ended = flow()
  ended.catch(() => undefined)

  async function flow(): Promise<void> {
    const underWay = new Set<Promise<void>>()
    const startedMs = performance.now()
    let due = 0
    while (!stopping.signal.aborted) {
      const to = places.length + Math.round(perSecond / appendsPerSecond)
      const appending: Promise<void> = append(places.length, to).finally(() => underWay.delete(appending))
      underWay.add(appending)
      while (places.length < to) places.push(-1)
      if (underWay.size >= appendsMax) await Promise.race(underWay)
      due += 1000 / appendsPerSecond
      await wait(Math.max(0, startedMs + due - performance.now()))
      // Messages that were not sent while the broker was away are not sent later.
      due = Math.max(due, performance.now() - startedMs - 100)
    }
    await Promise.all(underWay)
    await Promise.all(logs.map(log => log.close()))
  }

  return {
    message,
    sent: () => places.length,
    acknowledged: () => acknowledged,
    placeOf(number) {
      const place = places[number] ?? -1
      return place < 0 ? undefined : { partition: Math.floor(place / offsetBits), offset: place % offsetBits }
    },
    ends: () => ends,
    flowing: first.promise,
    async stop() {
      stopping.abort()
      await ended
    },
  }
}
