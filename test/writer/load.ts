// A load of known messages: appended to Kafka at a steady rate, and what was acknowledged is remembered with its place.

import { setTimeout as wait } from 'node:timers/promises'
import { type KafkaLog, openKafkaLog } from '../../pipeline/kafka/log.ts'
import { LogUnavailableError } from '../../pipeline/log.ts'
import type { StoreName } from '../../roles/stores/store.ts'
import { logSettings, silent } from '../pipeline/kafka/stored-messages.ts'
import { messageOf, type TestMessage } from './messages.ts'

export interface Load {
  /** The message of this number. */
  message(number: number): TestMessage
  /** How many were sent: their numbers are 0 to below this. */
  sent(): number
  acknowledged(): number
  /** Where the message lies; undefined for one that was not acknowledged, which may lie there or not. */
  placeOf(number: number): { partition: number; offset: number } | undefined
  /** By partition, the offset behind the last message that was acknowledged. */
  ends(): ReadonlyMap<number, number>
  /** Resolves with the first acknowledgement. */
  readonly flowing: Promise<void>
  /** Resolves when everything that was sent is acknowledged, or refused. */
  stop(): Promise<void>
}

const appendsPerSecond = 40
/** While the broker is away no more than this waits for it. */
const appendsMax = 16
const offsetBits = 2 ** 40

export interface LoadOptions {
  /** Messages; fewer while the broker is away. */
  readonly perSecond: number
  /** Whether some are dead letters; they are if not given. */
  readonly poison?: boolean
  /** Which store refuses some of them; relational if not given. */
  readonly store?: StoreName
}

export async function startLoad(
  brokers: readonly string[],
  topic: string,
  { perSecond, poison = true, store = 'relational' }: LoadOptions,
): Promise<Load> {
  const log = await openKafkaLog(logSettings(brokers, topic, { queueBytes: 64 << 20, appendTimeoutMs: 20_000 }), silent)
  const epochSeconds = Math.floor(Date.now() / 1000)
  const message = (number: number): TestMessage => messageOf(number, epochSeconds, poison ? store : undefined)
  const places: number[] = []
  const ends = new Map<number, number>()
  const stopping = new AbortController()
  const first = Promise.withResolvers<void>()
  let acknowledged = 0

  async function append(from: number, to: number): Promise<void> {
    const messages = Array.from({ length: to - from }, (_, at) => message(from + at).outgoing)
    try {
      const positions = await log.append(messages)
      for (const [at, { partition, offset }] of positions.entries()) {
        places[from + at] = partition * offsetBits + offset
        if (offset >= (ends.get(partition) ?? 0)) ends.set(partition, offset + 1)
      }
      acknowledged += messages.length
      first.resolve()
    } catch (error) {
      if (!(error instanceof LogUnavailableError)) throw error
    }
  }

  const ended = flow(log)
  ended.catch(() => undefined)

  async function flow(log: KafkaLog): Promise<void> {
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
      // What was not sent while the broker was away is not made up for.
      due = Math.max(due, performance.now() - startedMs - 100)
    }
    await Promise.all(underWay)
    await log.close()
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
