// The source on Kafka: a worker's share of a topic, fetched ahead, handed out run after run, committed when it is settled.
//
//   membership (which partitions) ──▶ positions (store, group, log) ──▶ fetching (ahead, bounded) ──▶ runsOf (decode) ──▶ the pipeline
//          └───────────── revoked: the runs end, what was fetched is dropped, and nothing of it is committed ◀───────────────┘

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from '../../../config/logger.ts'
import type { Positions } from '../../../sinks/sink.ts'
import type { OnShare, OnStart, RawRun, Source, StartAt } from '../../source.ts'
import { startOffset } from '../../start-offset.ts'
import { runsOf } from '../record-set.ts'
import type { ConnectBroker } from './broker.ts'
import { openCluster } from './cluster.ts'
import { openFetching, type Place } from './fetching.ts'
import { openMembership, type Share } from './membership.ts'
import { checkKafkaConsumer, type KafkaConsumerOptions } from './options.ts'
import { openTopic } from './topic.ts'

export interface ConsumerSettings {
  /** Brokers to begin with, each `host:port`. */
  readonly brokers: readonly string[]
  readonly connectBroker: ConnectBroker
  readonly topic: string
  /** As Kafka gave it when the topic was made: another topic of the name is refused. If not given, the first one that is seen is meant. */
  readonly topicId?: string
  /** The consumer group: its members share the topic. */
  readonly group: string
  /** Of a store that keeps its positions itself; without it the group's committed offsets are the places to go on. */
  readonly startAt?: StartAt
  /** A run ends with the message that reaches one of these. */
  readonly runBytesMax: number
  readonly runMessagesMax: number
  readonly consumer: KafkaConsumerOptions
  /** Go on although the log deleted messages unread. */
  readonly acceptLost?: boolean
  /** Told how many messages the log deleted unread, once for each time that the source goes on behind them. */
  readonly onLost?: (partition: number, messages: number) => void
  readonly logger: Logger
}

/**
 * Connects when it is first used, and joins the group when it is first asked for runs or told to commit. With more workers in the group than
 * the topic has partitions, its runs wait for a share of their own.
 *
 * @throws SystemicError for options that do not fit together
 */
export function openConsumer(options: ConsumerSettings): Source {
  const { topic: name, group, consumer, runBytesMax, runMessagesMax, acceptLost = false } = options
  checkKafkaConsumer(consumer)
  const logger = options.logger.child({ topic: name })
  const cluster = openCluster(options.brokers, options.connectBroker)
  const topic = openTopic(cluster, name, options.topicId)
  const membership = openMembership(cluster, topic, { group, ...consumer }, logger)
  const closing = new AbortController()
  /** Of each share, the offsets below which everything is committed, or need not be. */
  const passed = new WeakMap<Share, Map<number, number>>()
  /** The share of the runs that were asked for last: what is committed comes from them. */
  let working: Share | undefined

  /**
   * Where to go on: asked of the store, or of the group, and of the log. Where a partition's leader does not answer, its first fetch will
   * show whether the log holds that offset, as any fetch does.
   */
  async function positions(partitions: readonly number[]): Promise<{ places: Map<number, Place>; ends: Positions }> {
    const stored = await options.startAt?.(partitions)
    const committed = stored === undefined ? await membership.committed(partitions) : undefined
    const bounds = await topic.bounds(partitions)
    const losses: [number, number][] = []
    const places = new Map<number, Place>()
    for (const partition of partitions) {
      const said = { stored: stored?.get(partition), committed: committed?.get(partition) }
      const found = bounds.get(partition)
      if (found === undefined) {
        const from = said.stored ?? said.committed
        places.set(partition, { from, next: from ?? 0 })
        continue
      }
      const { from, next, lost } = startOffset({ log: name, partition, ...said, ...found, acceptLost })
      if (lost > 0) losses.push([partition, lost])
      places.set(partition, { from, next })
    }
    for (const [partition, lost] of losses) options.onLost?.(partition, lost)
    return { places, ends: new Map([...bounds].map(([partition, { end }]) => [partition, end])) }
  }

  /** A broker does not hold the offset `from`: never a reset, the same question as at the start. */
  async function relocate(partition: number, from: number | undefined): Promise<Place> {
    const found = (await topic.bounds([partition])).get(partition)!
    const isStore = options.startAt !== undefined
    const said = { stored: isStore ? from : undefined, committed: isStore ? undefined : from }
    const { lost, ...place } = startOffset({ log: name, partition, ...said, ...found, acceptLost })
    if (lost > 0) options.onLost?.(partition, lost)
    return place
  }

  async function* runsOfShare(share: Share, places: ReadonlyMap<number, Place>, ending: AbortSignal): AsyncGenerator<RawRun> {
    const ended = new AbortController()
    const over = AbortSignal.any([ending, share.revoked, ended.signal])
    const bounds = { ...consumer, patienceMs: consumer.sessionMs }
    const fetching = openFetching(cluster, topic, places, bounds, relocate, logger, over)
    try {
      for (let fetched = await fetching.next(); fetched !== undefined; fetched = await fetching.next()) {
        const { set, partition, from, next, aborted } = fetched
        for (const run of runsOf(set, { topic: name, partition, from, next, aborted, runBytesMax, runMessagesMax })) {
          yield run
          // A long catch-up is work without waiting; heartbeats and the next answers have their turn after each run.
          await nextTurn()
          if (over.aborted) return
        }
        fetched.release()
      }
    } finally {
      ended.abort()
    }
  }

  /** Of a share that has not begun: told to commit before it was asked for runs. */
  async function passedOf(share: Share): Promise<Map<number, number>> {
    const known = passed.get(share)
    if (known !== undefined) return known
    const committed = new Map(await membership.committed(share.partitions))
    passed.set(share, committed)
    return committed
  }

  return {
    async *runs(signal: AbortSignal, onStart?: OnStart, onShare?: OnShare): AsyncGenerator<RawRun> {
      const ending = AbortSignal.any([signal, closing.signal])
      while (!ending.aborted) {
        const share = await membership.share(ending)
        if (share === undefined) return
        working = share
        if (onShare !== undefined && options.startAt !== undefined) onShare(await membership.committed(share.partitions), share.revoked)
        const { places, ends } = await positions(share.partitions)
        // Taken away while it was looked where to go on: nobody has heard of it.
        if (share.revoked.aborted) continue
        if (ending.aborted) return
        const starts = new Map([...places].flatMap(([partition, { from }]) => (from === undefined ? [] : [[partition, from]])))
        passed.set(share, new Map(starts))
        onStart?.(starts, share.revoked, ends)
        yield* runsOfShare(share, places, ending)
        const reason: unknown = share.revoked.reason
        if (!ending.aborted && reason instanceof Error && reason.name !== 'AbortError') throw reason
        return
      }
    },

    async bounds(partition) {
      return (await topic.bounds([partition])).get(partition)!
    },

    ends: async () => (working === undefined ? new Map() : await topic.ends(working.partitions)),

    async commit(positions: Positions) {
      const share = working ?? (await membership.share(closing.signal))
      if (share === undefined || share.revoked.aborted) return
      const known = await passedOf(share)
      const further = [...positions].filter(
        ([partition, offset]) => share.partitions.includes(partition) && offset > (known.get(partition) ?? -1),
      )
      if (further.length === 0) return
      await membership.commit(share, new Map(further))
      for (const [partition, offset] of further) if (offset > (known.get(partition) ?? -1)) known.set(partition, offset)
    },

    async close() {
      closing.abort()
      await membership.leave()
      cluster.close()
    },
  }
}
