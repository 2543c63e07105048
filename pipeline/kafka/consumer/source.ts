// The Kafka source: fetches a worker's share of its topics ahead, returns it chunk by chunk, and commits what was processed.
//
//   membership (which partitions) ──▶ positions (store, group, log) ──▶ fetching (ahead, bounded) ──▶ chunksOf (decode) ──▶ the pipeline
//          └───────────── revoked: the chunks end, fetched messages are dropped, and none of them is committed ◀───────────────┘

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from '../../../config/logger.ts'
import { named } from '../../../config/options/variable.ts'
import { factOf } from '../../../config/outage.ts'
import type { Positions } from '../../../sinks/sink.ts'
import { type LogPartition, logOf, partitionOf } from '../../../transformers/log-partition.ts'
import type { OnShare, OnStart, RawChunk, Source, StartAt } from '../../source.ts'
import { startOffset } from '../../writer/start-offset.ts'
import { chunksOf } from '../records/record-set.ts'
import { topicsText } from '../topic-patterns.ts'
import type { ConnectBroker } from './broker.ts'
import { openCluster } from './cluster.ts'
import { type FetchPosition, openFetching } from './fetching.ts'
import { checkKafkaConsumer } from './limits.ts'
import { openMembership, type Share } from './membership.ts'
import type { KafkaConsumerOptions } from './options.ts'
import { openTopics } from './topics.ts'

export interface ConsumerSettings {
  /** Initial brokers, each `host:port`. */
  readonly brokers: readonly string[]
  readonly connectBroker: ConnectBroker
  /** Their names, by the index of the log. */
  readonly topics: readonly string[]
  /** Kafka's ids of the topics: another topic of the same name is rejected. By default, those of the first topics seen. */
  readonly topicIds?: readonly string[]
  /** The consumer group: its members share the topics. */
  readonly group: string
  /** Its name in the group (static membership, KIP-345); without one the group assigns an id. */
  readonly instance?: string
  /** Start positions from a store that keeps them; without it the source resumes at the group's committed offsets. */
  readonly startAt?: StartAt
  /** A chunk ends with the message that reaches one of these limits. */
  readonly chunkBytesMax: number
  readonly chunkMessagesMax: number
  readonly consumer: KafkaConsumerOptions
  /** Continue even if the log has deleted unread messages. */
  readonly acceptLost?: boolean
  /** Skip batches in old formats, and report them to `onLost`. */
  readonly skipBatch?: boolean
  /** Called with the number of messages that the log deleted unread or that were skipped, each time the source skips some. */
  readonly onLost?: (at: LogPartition, messages: number) => void
  readonly logger: Logger
}

/**
 * Connects on first use, and joins the group at the first call of chunks or commit. If the group has more workers than
 * the topics have partitions, chunks wait until this worker gets a share.
 *
 * @throws SystemicError for invalid combinations of options
 */
export function openConsumer(options: ConsumerSettings): Source {
  const { topics: names, group, consumer, chunkBytesMax, chunkMessagesMax, skipBatch = false, acceptLost = false } = options
  checkKafkaConsumer(consumer)
  const logger = options.logger.child(names.length === 1 ? { topic: names[0] } : { topics: names.length })
  const cluster = openCluster(options.brokers, options.connectBroker)
  const topics = openTopics(cluster, names, options.topicIds)
  const membership = openMembership(cluster, topics, { group, instance: options.instance, ...consumer }, logger)
  const closing = new AbortController()
  /** For each share, the offsets below which everything is committed or need not be. */
  const passed = new WeakMap<Share, Map<LogPartition, number>>()
  /** The share of the chunks requested last, to which commits belong. */
  let working: Share | undefined
  let hasWarned = false

  /**
   * The start positions, from the store or the group, checked against the log. If a partition's leader does not answer, its first fetch
   * shows whether the log has that offset.
   */
  async function positions(
    partitions: readonly LogPartition[],
  ): Promise<{ fetchPositions: Map<LogPartition, FetchPosition>; ends: Positions; stored: Positions | undefined }> {
    const stored = await options.startAt?.(partitions)
    const committed = stored === undefined ? await membership.committed(partitions) : undefined
    const bounds = await topics.bounds(partitions)
    const losses: [LogPartition, number][] = []
    const fetchPositions = new Map<LogPartition, FetchPosition>()
    for (const at of partitions) {
      const said = { stored: stored?.get(at), committed: committed?.get(at) }
      const found = bounds.get(at)
      if (found === undefined) {
        const from = said.stored ?? said.committed
        fetchPositions.set(at, { from, next: from ?? 0 })
        continue
      }
      const { from, next, lost } = startOffset({ ...whereIs(at), ...said, ...found, acceptLost })
      if (lost > 0) losses.push([at, lost])
      fetchPositions.set(at, { from, next })
    }
    for (const [at, lost] of losses) options.onLost?.(at, lost)
    return { fetchPositions, ends: new Map(Array.from(bounds, ([at, { end }]) => [at, end])), stored }
  }

  function whereIs(at: LogPartition): { log: string; partition: number } {
    return { log: names[logOf(at)]!, partition: partitionOf(at) }
  }

  /** The new position if a broker does not have the offset `from`: never a reset, but the same query as at the start. */
  async function relocate(at: LogPartition, from: number | undefined): Promise<FetchPosition> {
    const found = (await topics.bounds([at])).get(at)!
    const isStore = options.startAt !== undefined
    const said = { stored: isStore ? from : undefined, committed: isStore ? undefined : from }
    const { lost, ...fetchPosition } = startOffset({ ...whereIs(at), ...said, ...found, acceptLost })
    if (lost > 0) options.onLost?.(at, lost)
    return fetchPosition
  }

  async function* chunksOfShare(
    share: Share,
    fetchPositions: ReadonlyMap<LogPartition, FetchPosition>,
    stop: AbortSignal,
  ): AsyncGenerator<RawChunk> {
    const ended = new AbortController()
    const over = AbortSignal.any([stop, share.revoked, ended.signal])
    const bounds = { ...consumer, patienceMs: consumer.sessionMs }
    const fetching = openFetching(cluster, topics, fetchPositions, bounds, relocate, logger, over)
    try {
      for (let fetched = await fetching.next(); fetched !== undefined; fetched = await fetching.next()) {
        const { set, at, from, next, aborted } = fetched
        for (const chunk of chunksOf(set, {
          topic: names[logOf(at)]!,
          at,
          from,
          next,
          aborted,
          skipBatch,
          chunkBytesMax,
          chunkMessagesMax,
        })) {
          // Messages below `next` were reported when they were found to be lost.
          const skipped = (chunk.lost ?? 0) - Math.max(0, next - chunk.from)
          if (skipped > 0) options.onLost?.(chunk.at, skipped)
          yield chunk
          // A long catch-up never waits for I/O, so this lets heartbeats and answers be processed after each chunk.
          await nextTurn()
          if (over.aborted) return
        }
        fetched.release()
      }
    } finally {
      ended.abort()
    }
  }

  /**
   * Commits what a store that keeps positions has stored and the group has no commit of: under another name of the group, or after a crash.
   * Otherwise other processes would report a wrong lag until the partition's next message.
   */
  async function commitStored(share: Share, starts: Positions, committed: Positions): Promise<void> {
    const behind = [...starts].filter(([at, from]) => from > (committed.get(at) ?? 0))
    if (behind.length === 0) return
    try {
      await membership.commit(share, new Map(behind))
    } catch (error) {
      logger.debug({ reason: factOf(error), group }, 'the positions of the store were not committed')
    }
  }

  /**
   * Says once if the group has committed more than a store that keeps positions has: this writer commits only what that store has. Not of partitions
   * that the store does not know, since all of their messages may have been filtered.
   */
  function warnIfAhead(committed: Positions, stored: Positions): void {
    const ahead = [...stored].flatMap(([at, next]) => ((committed.get(at) ?? next) > next ? [at] : []))
    if (hasWarned || ahead.length === 0) return
    hasWarned = true
    const topicNames = [...new Set(ahead.map(logOf))].map(log => names[log]!)
    const where = `${ahead.length} ${ahead.length === 1 ? 'partition' : 'partitions'} of ${topicsText(topicNames)}`
    logger.warn(
      { group, partitions: ahead.length },
      `the consumer group ${group} has committed above the store's positions in ${where}: unless the store was restored from a backup, a writer of another store is in the group, and each store gets a part of the messages: give each writer its own ${named('log.group')}`,
    )
  }

  /** For a share that has not started: commit was called before chunks. */
  async function passedOf(share: Share): Promise<Map<LogPartition, number>> {
    const known = passed.get(share)
    if (known !== undefined) return known
    const committed = new Map(await membership.committed(share.partitions))
    passed.set(share, committed)
    return committed
  }

  return {
    async *chunks(signal: AbortSignal, onStart?: OnStart, onShare?: OnShare): AsyncGenerator<RawChunk> {
      const stop = AbortSignal.any([signal, closing.signal])
      while (!stop.aborted) {
        const share = await membership.share(stop)
        if (share === undefined) return
        working = share
        const committed = onShare === undefined || options.startAt === undefined ? undefined : await membership.committed(share.partitions)
        if (committed !== undefined) onShare?.(committed, share.revoked)
        const { fetchPositions, ends, stored } = await positions(share.partitions)
        // Revoked while its positions were looked up: it was not returned to a caller yet.
        if (share.revoked.aborted) continue
        if (stop.aborted) return
        const starts = new Map([...fetchPositions].flatMap(([at, { from }]) => (from === undefined ? [] : [[at, from]])))
        passed.set(share, new Map(starts))
        onStart?.(starts, share.revoked, ends)
        if (committed !== undefined) {
          if (stored !== undefined) warnIfAhead(committed, stored)
          await commitStored(share, starts, committed)
        }
        yield* chunksOfShare(share, fetchPositions, stop)
        const reason: unknown = share.revoked.reason
        if (!stop.aborted && reason instanceof Error && reason.name !== 'AbortError') throw reason
        return
      }
    },

    ends: async () => (working === undefined ? new Map() : await topics.ends(working.partitions)),

    async commit(positions: Positions) {
      const share = working ?? (await membership.share(closing.signal))
      if (share === undefined || share.revoked.aborted) return
      const known = await passedOf(share)
      const further = [...positions].filter(([at, offset]) => share.partitions.includes(at) && offset > (known.get(at) ?? -1))
      if (further.length === 0) return
      await membership.commit(share, new Map(further))
      for (const [at, offset] of further) if (offset > (known.get(at) ?? -1)) known.set(at, offset)
    },

    async close() {
      closing.abort()
      await membership.leave()
      cluster.close()
    },
  }
}
