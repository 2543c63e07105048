// The topic as its brokers know it: who leads its partitions, which offsets they hold, and that it is still the one that was meant.

import { setTimeout as wait } from 'node:timers/promises'
import { named } from '../../../config/option-variable.ts'
import type { Positions } from '../../../sinks/sink.ts'
import { LogUnavailableError } from '../../log.ts'
import { waitBefore } from '../../retry.ts'
import { SystemicError } from '../../systemic-error.ts'
import { code } from '../failure.ts'
import { type Bounds, checkPartitions } from '../topics.ts'
import { OffsetAt } from './broker.ts'
import type { Cluster } from './cluster.ts'
import { codeOf, logFailure, settle } from './failure.ts'
import { nobody, type TopicMetadata } from './metadata-request.ts'

export interface Topic {
  readonly name: string
  /**
   * Asks a broker.
   *
   * @throws SystemicError where it is missing, was made anew, may not be seen, or has more partitions than a position can hold
   * @throws LogUnavailableError where no broker can say
   */
  now(): Promise<TopicMetadata>
  /**
   * The first offset that each partition still holds, and the one that its next message will get. Of partitions whose leaders answer: one
   * may have none, or be so new that the broker that was asked does not know it.
   *
   * @throws LogUnavailableError where none of them answers; else as `now`
   */
  bounds(partitions: readonly number[]): Promise<ReadonlyMap<number, Bounds>>
  /** The ends alone, asked once. Throws as `bounds`. */
  ends(partitions: readonly number[]): Promise<Positions>
}

/** A topic that was made just now is not known to every broker at once, nor is any to a broker that starts: so long every answer must say so. */
const missingMsMax = 5000
/** So long a partition may be on its way to another leader before the log counts as away. */
const movingMsMax = 2000
const moving: ReadonlySet<number | undefined> = new Set([
  code.notLeader,
  code.leaderNotAvailable,
  code.replicaNotAvailable,
  code.unknownTopic,
])
const backOff = { waitMsMin: 20, waitMsMax: 500 }

/** @param meantId the id it must have; of the first topic that is seen under the name if not given */
export function openTopic(cluster: Cluster, name: string, meantId: string | undefined): Topic {
  let id = meantId === undefined ? undefined : normalized(meantId)
  let missingSinceMs: number | undefined

  async function now(): Promise<TopicMetadata> {
    let topic: TopicMetadata
    try {
      topic = (await cluster.metadata(name)).topic
    } catch (error) {
      missingSinceMs = undefined
      throw logFailure(error, `the topic ${name} cannot be looked up`)
    }
    if (topic.error === code.unknownTopic) throw missing()
    missingSinceMs = undefined
    if (topic.error === code.topicAuthorization)
      throw new SystemicError(`the topic ${name} may not be read: allow its user to read and describe it`)
    // Its leader is being elected: what is known of it is right.
    if (topic.id === '' || topic.partitions.length === 0)
      throw new LogUnavailableError(`the topic ${name} is not ready (error ${topic.error})`)
    checkPartitions(name, topic.partitions.length)
    id ??= normalized(topic.id)
    if (normalized(topic.id) !== id) throw madeAnew(topic.id)
    return topic
  }

  function missing(): Error {
    missingSinceMs ??= performance.now()
    return performance.now() - missingSinceMs < missingMsMax
      ? new LogUnavailableError(`the topic ${name} is not there yet`)
      : new SystemicError(`the topic ${name} does not exist: create it, or correct ${named('log.topic')}`)
  }

  function madeAnew(found: string): SystemicError {
    return new SystemicError(
      `the topic ${name} was made anew: it has the id ${found}, and the messages so far came from one of the id ${meantId ?? id}. Start with --accept-new-log to go on with the new one`,
    )
  }

  /** Throws what brokers throw where none of the partitions' leaders answers. */
  async function ofLeaders<Found>(
    partitions: readonly number[],
    askLeader: (leader: number, led: readonly number[]) => Promise<Iterable<readonly [number, Found]>>,
  ): Promise<Map<number, Found>> {
    const leaders = new Map((await now()).partitions.map(({ partition, leader }) => [partition, leader]))
    const byLeader = Map.groupBy(partitions, partition => leaders.get(partition) ?? nobody)
    const { values, failure } = await settle([...byLeader].map(([leader, led]) => askLeader(leader, led)))
    if (values.length === 0 && failure !== undefined) throw failure
    return new Map(values.flatMap(found => [...found]))
  }

  async function boundsAt(leader: number, led: readonly number[]): Promise<[number, Bounds][]> {
    // The start first: after the end it might be one that is above it.
    const starts = await offsetsAt(leader, led, OffsetAt.start)
    const ends = await offsetsAt(leader, led, OffsetAt.end)
    return led.map(partition => [partition, { start: starts.get(partition)!, end: ends.get(partition)! }])
  }

  async function offsetsAt(leader: number, led: readonly number[], at: (typeof OffsetAt)[keyof typeof OffsetAt]): Promise<Positions> {
    if (leader === nobody) throw new LogUnavailableError(`the partitions ${led.join(', ')} of the topic ${name} have no leader`)
    return await cluster.atLeader(leader, broker => broker.offsets(name, led, at))
  }

  return {
    name,
    now,
    async ends(partitions) {
      try {
        return await ofLeaders(partitions, (leader, led) => offsetsAt(leader, led, OffsetAt.end))
      } catch (error) {
        throw logFailure(error, `the ends of the topic ${name} cannot be read`)
      }
    },
    async bounds(partitions) {
      const untilMs = performance.now() + movingMsMax
      for (let failures = 1; ; failures++) {
        try {
          return await ofLeaders(partitions, boundsAt)
        } catch (error) {
          if (!moving.has(codeOf(error)) || performance.now() > untilMs)
            throw logFailure(error, `the offsets of the topic ${name} cannot be read`)
        }
        await wait(waitBefore(failures, backOff))
      }
    },
  }
}

function normalized(id: string): string {
  return id.replaceAll('-', '').toLowerCase()
}
