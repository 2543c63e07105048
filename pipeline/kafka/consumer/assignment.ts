// Assigns partitions to the members of a group, and encodes Kafka's consumer protocol for it (KIP-429).
//
//   subscription   version int16 = 1 · topics [string] · userData bytes · owned [topic string · partitions [int32]]
//   assignment     version int16 = 1 · topics [topic string · partitions [int32]] · userData bytes
//
// Strings have an int16 length, arrays and bytes an int32. Versions above 1 append fields.

import { type LogPartition, logOf, logPartition, partitionOf } from '../../../transformers/log-partition.ts'
import type { GroupMember } from './broker.ts'

/** The name of the assignment protocol: the same as in Java and `@platformatic/kafka`, so that a group may be mixed. */
export const protocolName = 'roundrobin'
const version = 1

/** The numbers of partitions, by topic. */
export type TopicPartitions = ReadonlyMap<string, readonly number[]>

/**
 * Encodes a subscription.
 *
 * @param topics by log
 * @param owned the partitions that the member has and prefers to keep
 */
export function encodeSubscription(topics: readonly string[], owned: readonly LogPartition[]): Buffer {
  return Buffer.concat([int16(version), int32(topics.length), ...topics.map(string), int32(0), encodePartitions(byTopic(topics, owned))])
}

export function encodeAssignment(partitions: TopicPartitions): Buffer {
  return Buffer.concat([int16(version), encodePartitions(partitions), int32(0)])
}

/** @param topics by log */
export function byTopic(topics: readonly string[], partitions: readonly LogPartition[]): Map<string, number[]> {
  return new Map([...Map.groupBy(partitions, logOf)].map(([log, own]) => [topics[log]!, own.map(partitionOf)]))
}

/**
 * The partitions of the topics in an assignment, in order; empty if the member got none.
 *
 * @param topics by log
 * @throws RangeError for bytes that are not an assignment
 */
export function decodeAssignment(bytes: Buffer, topics: readonly string[]): LogPartition[] {
  if (bytes.length < 2) return []
  const reader = openReader(bytes)
  reader.int16()
  const found = [...reader.partitions()].flatMap(([topic, own]) => {
    const log = topics.indexOf(topic)
    return log < 0 ? [] : own.map(partition => logPartition(log, partition))
  })
  return found.sort((left, right) => left - right)
}

/** What a member asks the leader of its group for. */
export interface Subscription {
  readonly memberId: string
  readonly topics: ReadonlySet<string>
  /** The partitions that it had. Other clients may omit them. */
  readonly owned: TopicPartitions
  /** The bytes are not a subscription: the member gets no partitions, and the others are not affected. */
  readonly isUnreadable: boolean
}

/** Names that Kafka accepts: a query about an invalid one could fail for all topics. */
const topicName = /^(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}$/

export function decodeSubscription({ memberId, metadata }: GroupMember): Subscription {
  try {
    const reader = openReader(metadata)
    const version = reader.int16()
    const topics = new Set<string>()
    for (let left = reader.int32(); left > 0; left--) topics.add(reader.string())
    for (const topic of topics) if (!topicName.test(topic)) throw new RangeError('not the name of a topic')
    reader.skipBytes()
    return { memberId, topics, owned: version >= 1 && reader.more() ? reader.partitions() : new Map(), isUnreadable: false }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { memberId, topics: new Set(), owned: new Map(), isUnreadable: true }
  }
}

/**
 * Assigns each partition to one member that subscribes to its topic. Topics with the same subscribers are dealt together, with at most one partition
 * more for one of their subscribers than for any other. Members keep their partitions if that is possible, because messages fetched ahead are dropped
 * when a partition moves.
 *
 * @param topics the number of partitions of each
 * @returns by member
 */
export function assign(
  topics: ReadonlyMap<string, number>,
  subscriptions: readonly Subscription[],
): Map<string, ReadonlyMap<string, number[]>> {
  const given = new Map(subscriptions.map(({ memberId }) => [memberId, new Map<string, number[]>()]))
  const subscribers = new Map([...topics.keys()].map(topic => [topic, [] as number[]]))
  for (const [nth, subscription] of subscriptions.entries()) for (const topic of subscription.topics) subscribers.get(topic)?.push(nth)
  for (const pool of Map.groupBy(topics.keys(), topic => subscribers.get(topic)!.join()).values()) {
    const takers = subscribers.get(pool[0]!)!.map(nth => subscriptions[nth]!)
    deal(pool, topics, takers, given)
  }
  return given
}

/** A partition of a pool is one number: topic × stride + partition. */
const topicStride = 2 ** 32

/** Deals the partitions of these topics to their subscribers. */
function deal(
  pool: readonly string[],
  counts: ReadonlyMap<string, number>,
  takers: readonly Subscription[],
  given: ReadonlyMap<string, Map<string, number[]>>,
): void {
  if (takers.length === 0) return
  const all = pool.flatMap((topic, nth) => Array.from({ length: counts.get(topic)! }, (_, partition) => nth * topicStride + partition))
  const free = new Set(all.sort(acrossTopics))
  const asked = takers
    .map(({ memberId, owned }) => {
      const own = pool.flatMap((topic, nth) => (owned.get(topic) ?? []).map(partition => nth * topicStride + partition))
      return { memberId, owned: own.filter(at => free.has(at)).sort(acrossTopics) }
    })
    .sort((left, right) => right.owned.length - left.owned.length || (left.memberId < right.memberId ? -1 : 1))
  const shares = new Map<string, number[]>()
  const least = Math.floor(all.length / takers.length)
  let withOneMore = all.length % takers.length
  for (const { memberId, owned } of asked) {
    const kept: number[] = []
    shares.set(memberId, kept)
    for (const at of owned) {
      if (kept.length === least + (withOneMore > 0 ? 1 : 0)) break
      if (free.delete(at)) kept.push(at)
    }
    if (kept.length > least) withOneMore--
  }
  const rest = [...free]
  for (const kept of shares.values()) while (kept.length < least) kept.push(rest.pop()!)
  const fewestFirst = [...shares].sort(([left], [right]) => sizeOf(given.get(left)!) - sizeOf(given.get(right)!))
  for (const [memberId, kept] of fewestFirst) {
    if (kept.length === least && rest.length > 0) kept.push(rest.pop()!)
    const own = Map.groupBy(kept, at => pool[Math.floor(at / topicStride)]!)
    for (const [topic, of] of own)
      given.get(memberId)!.set(
        topic,
        of.map(at => at % topicStride).sort((left, right) => left - right),
      )
  }
}

/** Neighbours are of different topics, so that a busy topic is not left to one member. */
function acrossTopics(left: number, right: number): number {
  return (left % topicStride) - (right % topicStride) || left - right
}

function sizeOf(partitions: TopicPartitions): number {
  let sum = 0
  for (const own of partitions.values()) sum += own.length
  return sum
}

function encodePartitions(partitions: TopicPartitions): Buffer {
  const encoded = [...partitions].flatMap(([topic, own]) => [string(topic), int32(own.length), ...own.map(int32)])
  return Buffer.concat([int32(partitions.size), ...encoded])
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function string(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([int16(bytes.length), bytes])
}

interface Reader {
  int16(): number
  int32(): number
  string(): string
  skipBytes(): void
  more(): boolean
  partitions(): Map<string, number[]>
}

/** Its methods throw RangeError if the bytes are cut off, or say a negative length. */
function openReader(bytes: Buffer): Reader {
  let at = 0
  function take(length: number): number {
    if (length < 0 || at + length > bytes.length) throw new RangeError(`${length} bytes at ${at} of ${bytes.length}`)
    at += length
    return at - length
  }
  const reader: Reader = {
    int16: () => bytes.readInt16BE(take(2)),
    int32: () => bytes.readInt32BE(take(4)),
    string() {
      const from = take(reader.int16())
      return bytes.toString('utf8', from, at)
    },
    skipBytes() {
      // Null has the length -1.
      take(Math.max(0, reader.int32()))
    },
    more: () => at < bytes.length,
    partitions() {
      const partitions = new Map<string, number[]>()
      for (let left = reader.int32(); left > 0; left--) {
        const topic = reader.string()
        const own = partitions.get(topic) ?? []
        for (let left = reader.int32(); left > 0; left--) own.push(reader.int32())
        partitions.set(topic, own)
      }
      return partitions
    },
  }
  return reader
}
