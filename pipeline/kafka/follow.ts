// Follows topics of Kafka: their messages come as they are written. One fetch for each broker waits there for all partitions that it leads, so a message
// comes within milliseconds, and an idle topic costs a request a second. It joins no consumer group, so it disturbs no writer and leaves nothing behind.

import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../../config/logger.ts'
import type { Positions } from '../../sinks/sink.ts'
import { type LogPartition, logOf } from '../../transformers/log-partition.ts'
import type { RawChunk } from '../source.ts'
import { connectBrokers } from './client/broker.ts'
import type { KafkaConnection } from './connection.ts'
import type { ConnectBroker, KafkaBroker } from './consumer/broker.ts'
import { openCluster } from './consumer/cluster.ts'
import { type FetchPosition, openFetching } from './consumer/fetching.ts'
import { openTopics, type Topics, type TopicsMetadata } from './consumer/topics.ts'
import { chunksOf } from './records/record-set.ts'

export interface FollowOptions {
  readonly connection: KafkaConnection
  /** By log. */
  readonly topics: readonly { readonly name: string; readonly id: string }[]
  /** Size limit of one fetch and of a chunk; a larger batch is still returned completely. */
  readonly fetchBytes: number
  /** How long fetching is retried while no partition can be fetched. */
  readonly patienceMs: number
  readonly logger: Logger
  /** How brokers are connected. */
  readonly connectBroker?: ConnectBroker
}

const waitMs = 1_000
/** Between two fetches of a broker. What is written meanwhile comes in one answer: at thousands of messages a second that saves a third of the work. */
const gapMs = 5
const chunkMessagesMax = 1000

/**
 * The messages of these partitions from these offsets on, each partition in its order and without end. A chunk begins where the previous one of its
 * partition ended; later only if the log deleted messages. Ends if `signal` aborts, a topic was recreated, or a partition has lost its last messages,
 * so that its end is below the offset.
 *
 * @param from the next offset of each partition
 * @throws LogUnavailableError if no partition can be fetched for as long as the patience
 * @throws SystemicError if the content is corrupt, or access is denied
 */
export async function* followTopics(options: FollowOptions, from: Positions, signal: AbortSignal): AsyncGenerator<RawChunk> {
  const { connection, topics: followed, fetchBytes, patienceMs, logger, connectBroker = connectBrokers(connection) } = options
  const names = followed.map(({ name }) => name)
  const cluster = openCluster(connection.brokers, async address => {
    const broker = await connectBroker(address)
    const fetch: KafkaBroker['fetch'] = async request => {
      await wait(gapMs)
      return broker.fetch(request)
    }
    return { ...broker, fetch }
  })
  const ended = new AbortController()
  const over = AbortSignal.any([signal, ended.signal])

  /** Opened for each look, so that it remembers nothing: a missing topic is waited for. */
  const look = (): Topics => openTopics(cluster, names, undefined)

  async function now(): Promise<TopicsMetadata> {
    const found = await look().now()
    if (found.ids.some((id, log) => id !== followed[log]!.id)) ended.abort()
    return found
  }

  async function relocate(at: LogPartition, from = 0): Promise<FetchPosition> {
    const { start, end } = (await look().bounds([at])).get(at)!
    if (from > end) ended.abort()
    const next = Math.max(from, start)
    return { from: next, next }
  }

  try {
    const positions = new Map([...from].map(([at, next]): [LogPartition, FetchPosition] => [at, { from: next, next }]))
    const bounds = { fetchBytes, partitionBytes: fetchBytes, queueBytes: 2 * fetchBytes, waitMs, patienceMs }
    const fetching = openFetching(cluster, { ...look(), now }, positions, bounds, relocate, logger, over)
    for (let fetched = await fetching.next(); fetched !== undefined; fetched = await fetching.next()) {
      const { set, at, from, aborted } = fetched
      const limits = { chunkBytesMax: fetchBytes, chunkMessagesMax }
      for (const chunk of chunksOf(set, { topic: names[logOf(at)]!, at, from, aborted, ...limits })) {
        yield chunk
        // A long catch-up never waits for I/O.
        await nextTurn()
        if (over.aborted) return
      }
      fetched.release()
    }
  } finally {
    ended.abort()
    cluster.close()
  }
}
