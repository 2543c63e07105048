// The Kafka topic reader: fetches a partition from its leader, one fetch at a time, and splits it into chunks like a writer's source.

import { setTimeout as wait } from 'node:timers/promises'
import { type Admin, FetchIsolationLevels, ListOffsetTimestamps } from '@platformatic/kafka'
import { logPartition } from '../../transformers/log-partition.ts'
import { LogUnavailableError } from '../log.ts'
import { headersMaxDefault, type RawChunk } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import { chunkBelow, type TopicBounds, type TopicReader } from '../topic-reader.ts'
import { fetchOn } from './client/fetch.ts'
import { connectTo, type KafkaConnection, openAdmin } from './connection.ts'
import type { FetchedPartition } from './consumer/broker.ts'
import { code, reasonOf, systemicFault } from './failure.ts'
import { chunksOf } from './records/record-set.ts'
import { describeTopic, reachTopic, type Topic } from './topics.ts'

export interface KafkaTopicReaderOptions {
  readonly connection: KafkaConnection
  readonly topic: string
  /** Size limit of one fetch and of a chunk; a larger batch is still returned completely. */
  readonly fetchBytes: number
  /** Skips batches in old formats, as if the log had deleted them. Without it they are an error. */
  readonly skipBatch?: boolean
  /** The most headers of a message; a dead letter has more than its message. */
  readonly headersMax?: number
  /** How long fetching a partition is retried without success. */
  readonly patienceMs?: number
}

const chunkMessagesMax = 1000
const fetchWaitMs = 500
const againMs = 100
const nothing = Buffer.alloc(0)
/** Error codes of a fetch; after a temporary one the leader is looked up again. */
const outOfRange = 1
const topicIdErrors: readonly number[] = [100, 103]

/**
 * Opens an existing topic for reading.
 *
 * @throws SystemicError if there is no such topic, or access is denied
 * @throws LogUnavailableError while no broker answers
 */
export async function openKafkaTopicReader(options: KafkaTopicReaderOptions): Promise<TopicReader> {
  const { topic: name, fetchBytes, skipBatch = false, headersMax = headersMaxDefault, patienceMs = 15_000 } = options
  const admin = await openAdmin(options.connection)
  let topic = await opened(admin, name)

  /** Sends one fetch to the leader; undefined for a temporary error, with its reason in `away`. */
  async function fetch(partition: number, offset: number, away: { reason?: unknown }): Promise<FetchedPartition | undefined> {
    try {
      const leader = topic.leaders[partition]
      if (leader === undefined) throw new Error(`partition ${partition} has no leader`)
      const limits = { waitMs: fetchWaitMs, bytesMax: fetchBytes, partitionBytesMax: fetchBytes }
      const request = { topicIds: [topic.id], partitions: [{ at: logPartition(0, partition), offset }], ...limits }
      const answer = await fetchOn(await connectTo(admin, leader), request)
      const found = answer.partitions[0] ?? { at: logPartition(0, partition), error: answer.error, aborted: [], records: nothing }
      const error = answer.error === code.none ? found.error : answer.error
      if (error === code.none || error === outOfRange) return { ...found, error }
      if (error === code.topicAuthorization) {
        throw new SystemicError(`no permission to read the topic ${name}: grant read to the user`)
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
   * Looks up the leaders again; a temporary error is stored in `away`.
   *
   * @throws SystemicError if the topic was recreated
   */
  async function lookAgain(away: { reason?: unknown }): Promise<void> {
    try {
      const found = await describeTopic(admin, name)
      // A starting broker does not know its topics immediately.
      if (found === undefined) throw new LogUnavailableError('the brokers do not know the topic')
      if (found.id !== topic.id) throw new SystemicError(`the topic ${name} was recreated while it was being read: start again`)
      topic = found
    } catch (error) {
      if (!(error instanceof LogUnavailableError)) throw error
      away.reason = error
    }
  }

  async function* read(partition: number, from: number, to: number): AsyncGenerator<RawChunk> {
    const away: { reason?: unknown } = {}
    let next = from
    let deadlineMs = performance.now() + patienceMs
    while (next < to) {
      const fetched = await fetch(partition, next, away)
      if (fetched?.error === outOfRange) {
        next = Math.min(to, Math.max(next, (await bounds()).get(partition)!.start))
        await wait(againMs)
      } else if (fetched !== undefined) {
        const { records, aborted } = fetched
        const fetchedSet = {
          topic: name,
          at: logPartition(0, partition),
          from: next,
          aborted,
          skipBatch,
          headersMax,
          chunkBytesMax: fetchBytes,
          chunkMessagesMax,
        }
        for (const chunk of chunksOf(records, fetchedSet)) {
          const from = chunk.from + (chunk.lost ?? 0)
          if (from < Math.min(chunk.to, to)) yield chunkBelow({ ...chunk, from }, to)
          next = chunk.to
          deadlineMs = performance.now() + patienceMs
          if (next >= to) return
        }
      }
      if (performance.now() > deadlineMs) throw unreadable(partition, next, away.reason)
      if (fetched === undefined) {
        await wait(againMs)
        await lookAgain(away)
      }
    }
  }

  function unreadable(partition: number, offset: number, reason: unknown): LogUnavailableError {
    const why = reason === undefined ? 'no data' : reasonOf(reason)
    return new LogUnavailableError(`the topic ${name} cannot be read at partition ${partition}, offset ${offset} (${why})`, {
      cause: reason,
    })
  }

  async function offsets(timestamp: bigint): Promise<Map<number, number>> {
    const partitions = topic.leaders.map((_, partitionIndex) => ({ partitionIndex, timestamp }))
    const found = await admin.listOffsets({
      topics: [{ name, partitions }],
      isolationLevel: FetchIsolationLevels.READ_COMMITTED,
    })
    return new Map(found.flatMap(one => one.partitions.map(({ partitionIndex, offset }) => [partitionIndex, Number(offset)] as const)))
  }

  async function bounds(): Promise<Map<number, TopicBounds>> {
    try {
      // If it were read after the end, the start could be above it, because messages may be deleted in between.
      const starts = await offsets(ListOffsetTimestamps.EARLIEST)
      const ends = await offsets(ListOffsetTimestamps.LATEST)
      return new Map([...ends].map(([partition, end]) => [partition, { start: Math.min(starts.get(partition)!, end), end }]))
    } catch (error) {
      throw (
        systemicFault(error, `the offsets of the topic ${name} cannot be read`) ??
        new LogUnavailableError(`the offsets of the topic ${name} cannot be read (${reasonOf(error)}): check the brokers`, {
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
