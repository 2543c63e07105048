// The topic reader on Kafka: fetches a partition from its leader, one fetch at a time, and cuts it into runs as a writer's source does.

import { setTimeout as wait } from 'node:timers/promises'
import type { Admin } from '@platformatic/kafka'
import { LogUnavailableError } from '../log.ts'
import type { RawRun } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import { runBelow, type TopicBounds, type TopicReader } from '../topic-reader.ts'
import { connectTo, type KafkaConnection, openAdmin } from './connection.ts'
import { type FetchedPartition, fetchRequest } from './consumer/fetch-request.ts'
import { code, reasonOf, systemicFault } from './failure.ts'
import { sendOn } from './platformatic/line.ts'
import { runsOf } from './record-set.ts'
import { describeTopic, reachTopic, type Topic } from './topics.ts'

export interface KafkaTopicReaderOptions {
  readonly connection: KafkaConnection
  readonly topic: string
  /** Of one fetch, and of a run; a batch that is larger comes whole. */
  readonly fetchBytes: number
  /** How long a partition may give nothing, broker after broker, before it is given up. */
  readonly patienceMs?: number
}

const runMessagesMax = 1000
const fetchWaitMs = 500
const againMs = 100
const nothing = Buffer.alloc(0)
/** Errors of a fetch that pass by themselves; the leader is looked for again. */
const outOfRange = 1
const topicIdErrors: readonly number[] = [100, 103]

/**
 * Opens a topic for reading; it makes none.
 *
 * @throws SystemicError where there is no such topic, or it may not be read
 * @throws LogUnavailableError while no broker answers
 */
export async function openKafkaTopicReader(options: KafkaTopicReaderOptions): Promise<TopicReader> {
  const { topic: name, fetchBytes, patienceMs = 15_000 } = options
  const client = await import('@platformatic/kafka')
  const admin = await openAdmin(options.connection)
  let topic = await opened(admin, name)

  /** Asks the leader once; undefined for what passes by itself, with its reason in `away`. */
  async function fetch(partition: number, offset: number, away: { reason?: unknown }): Promise<FetchedPartition | undefined> {
    try {
      const leader = topic.leaders[partition]
      if (leader === undefined) throw new Error(`partition ${partition} has no leader`)
      const limits = { waitMs: fetchWaitMs, bytesMax: fetchBytes, partitionBytesMax: fetchBytes }
      const asked = fetchRequest({ topicId: topic.id, partitions: [{ partition, offset }], ...limits })
      const answer = await sendOn(client, await connectTo(client, admin, leader), asked)
      const found = answer.partitions[0] ?? { partition, error: answer.error, aborted: [], records: nothing }
      const error = answer.error === code.none ? found.error : answer.error
      if (error === code.none || error === outOfRange) return { ...found, error }
      if (error === code.topicAuthorization) {
        throw new SystemicError(`the topic ${name} may not be read: allow its user to read it`)
      }
      throw new Error(topicIdErrors.includes(error) ? 'the brokers do not know its id' : `error ${error}`)
    } catch (error) {
      const systemic = systemicFault(error, `the topic ${name} cannot be read`)
      if (systemic !== undefined) throw systemic
      away.reason = error
      return undefined
    }
  }

  /**
   * Asks who leads the partitions now; what passes by itself leaves its reason in `away`.
   *
   * @throws SystemicError where the topic was made anew
   */
  async function lookAgain(away: { reason?: unknown }): Promise<void> {
    try {
      const found = await describeTopic(admin, name)
      // A broker that starts does not know its topics at once.
      if (found === undefined) throw new LogUnavailableError('the brokers do not know the topic')
      if (found.id !== topic.id) throw new SystemicError(`the topic ${name} was made anew while it was read: start again`)
      topic = found
    } catch (error) {
      if (!(error instanceof LogUnavailableError)) throw error
      away.reason = error
    }
  }

  async function* read(partition: number, from: number, to: number): AsyncGenerator<RawRun> {
    const away: { reason?: unknown } = {}
    let next = from
    let givenUpMs = performance.now() + patienceMs
    while (next < to) {
      const fetched = await fetch(partition, next, away)
      if (fetched?.error === outOfRange) {
        next = Math.min(to, Math.max(next, (await bounds()).get(partition)!.start))
        await wait(againMs)
      } else if (fetched !== undefined) {
        const { records, aborted } = fetched
        for (const run of runsOf(records, { topic: name, partition, from: next, aborted, runBytesMax: fetchBytes, runMessagesMax })) {
          yield runBelow(run, to)
          next = run.to
          givenUpMs = performance.now() + patienceMs
          if (next >= to) return
        }
      }
      if (performance.now() > givenUpMs) throw unreadable(partition, next, away.reason)
      if (fetched === undefined) {
        await wait(againMs)
        await lookAgain(away)
      }
    }
  }

  function unreadable(partition: number, offset: number, reason: unknown): LogUnavailableError {
    const why = reason === undefined ? 'nothing comes' : reasonOf(reason)
    return new LogUnavailableError(`the topic ${name} cannot be read at partition ${partition}, offset ${offset} (${why})`, {
      cause: reason,
    })
  }

  async function offsets(timestamp: bigint): Promise<Map<number, number>> {
    const partitions = topic.leaders.map((_, partitionIndex) => ({ partitionIndex, timestamp }))
    const found = await admin.listOffsets({
      topics: [{ name, partitions }],
      isolationLevel: client.FetchIsolationLevels.READ_COMMITTED,
    })
    return new Map(found.flatMap(one => one.partitions.map(({ partitionIndex, offset }) => [partitionIndex, Number(offset)] as const)))
  }

  async function bounds(): Promise<Map<number, TopicBounds>> {
    try {
      // The start after the end would be after what was deleted between.
      const starts = await offsets(client.ListOffsetTimestamps.EARLIEST)
      const ends = await offsets(client.ListOffsetTimestamps.LATEST)
      return new Map([...ends].map(([partition, end]) => [partition, { start: Math.min(starts.get(partition)!, end), end }]))
    } catch (error) {
      throw (
        systemicFault(error, `the offsets of the topic ${name} cannot be read`) ??
        new LogUnavailableError(`the offsets of the topic ${name} cannot be read (${reasonOf(error)}): look at the brokers`, {
          cause: error,
        })
      )
    }
  }

  return { name, id: topic.id, partitions: topic.partitions, bounds, read, close: () => admin.close() }
}

async function opened(admin: Admin, name: string): Promise<Topic> {
  try {
    return await reachTopic(admin, name, undefined)
  } catch (error) {
    await admin.close()
    throw error
  }
}
