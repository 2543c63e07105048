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

/**
 * Encodes a subscription.
 *
 * @param topics by log
 * @param owned the partitions that the member has and prefers to keep
 */
export function encodeSubscription(topics: readonly string[], owned: readonly LogPartition[]): Buffer {
  return Buffer.concat([int16(version), int32(topics.length), ...topics.map(string), int32(0), topicsOf(topics, owned)])
}

export function encodeAssignment(topics: readonly string[], partitions: readonly LogPartition[]): Buffer {
  return Buffer.concat([int16(version), topicsOf(topics, partitions), int32(0)])
}

/** The partitions of the topics in an assignment, in order; empty if the member got none. */
export function decodeAssignment(bytes: Buffer, topics: readonly string[]): LogPartition[] {
  if (bytes.length < 2) return []
  const reader = openReader(bytes)
  reader.int16()
  return reader.partitionsOf(topics)
}

interface Asked {
  readonly memberId: string
  readonly wants: ReadonlySet<string>
  readonly owned: readonly LogPartition[]
}

/** Decodes the topics of a member, and the partitions that it had. Other clients may omit the latter. */
function askedBy({ memberId, metadata }: GroupMember, topics: readonly string[]): Asked {
  const reader = openReader(metadata)
  const version = reader.int16()
  const wants = new Set<string>()
  for (let left = reader.int32(); left > 0; left--) wants.add(reader.string())
  reader.skipBytes()
  return { memberId, wants, owned: version >= 1 && reader.more() ? reader.partitionsOf(topics) : [] }
}

/**
 * Assigns each partition to one member that subscribes to its topic, with at most one more per member than any other has. Members keep their
 * partitions if that is possible, because messages fetched ahead are dropped when a partition moves.
 *
 * The members of a writer subscribe to the same topics, except while a new topic is not known to all of them yet: then the topics with the same
 * subscribers are balanced separately.
 */
export function assign(
  topics: readonly string[],
  partitions: readonly LogPartition[],
  members: readonly GroupMember[],
): Map<string, LogPartition[]> {
  const asked = members
    .map(member => askedBy(member, topics))
    .sort((left, right) => right.owned.length - left.owned.length || (left.memberId < right.memberId ? -1 : 1))
  const given = new Map<string, LogPartition[]>(asked.map(({ memberId }) => [memberId, []]))
  const subscribers = topics.map(topic => asked.filter(({ wants }) => wants.has(topic)))
  const names = subscribers.map(takers => takers.map(({ memberId }) => memberId).join(' '))
  for (const pool of Map.groupBy(partitions, at => names[logOf(at)]).values()) deal(pool, subscribers[logOf(pool[0]!)]!, given)
  for (const kept of given.values()) kept.sort((left, right) => left - right)
  return given
}

/** Deals the partitions to the takers. */
function deal(partitions: readonly LogPartition[], takers: readonly Asked[], given: ReadonlyMap<string, LogPartition[]>): void {
  if (takers.length === 0) return
  const free = new Set(partitions.toSorted(acrossTopics))
  const shares = new Map<string, LogPartition[]>()
  const least = Math.floor(partitions.length / takers.length)
  let withOneMore = partitions.length % takers.length
  for (const { memberId, owned } of takers) {
    const kept: LogPartition[] = []
    shares.set(memberId, kept)
    for (const at of owned.toSorted(acrossTopics)) {
      if (kept.length === least + (withOneMore > 0 ? 1 : 0)) break
      if (free.delete(at)) kept.push(at)
    }
    if (kept.length > least) withOneMore--
  }
  const rest = [...free]
  for (const kept of shares.values()) while (kept.length < least) kept.push(rest.pop()!)
  for (const [memberId, kept] of shares) {
    if (kept.length === least && rest.length > 0) kept.push(rest.pop()!)
    given.get(memberId)!.push(...kept)
  }
}

/** Neighbours are of different topics, so that a busy topic is not left to one member. */
function acrossTopics(left: LogPartition, right: LogPartition): number {
  return partitionOf(left) - partitionOf(right) || left - right
}

function topicsOf(topics: readonly string[], partitions: readonly LogPartition[]): Buffer {
  const byTopic = [...Map.groupBy(partitions, logOf)]
  const encoded = byTopic.flatMap(([log, own]) => [string(topics[log]!), int32(own.length), ...own.map(at => int32(partitionOf(at)))])
  return Buffer.concat([int32(byTopic.length), ...encoded])
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
  partitionsOf(topics: readonly string[]): LogPartition[]
}

/** Its methods throw RangeError if the bytes are cut off. */
function openReader(bytes: Buffer): Reader {
  let at = 0
  const reader: Reader = {
    int16() {
      at += 2
      return bytes.readInt16BE(at - 2)
    },
    int32() {
      at += 4
      return bytes.readInt32BE(at - 4)
    },
    string() {
      const length = reader.int16()
      at += length
      return bytes.toString('utf8', at - length, at)
    },
    skipBytes() {
      const length = reader.int32()
      at += Math.max(0, length)
    },
    more: () => at < bytes.length,
    partitionsOf(topics) {
      const partitions: LogPartition[] = []
      for (let left = reader.int32(); left > 0; left--) {
        const log = topics.indexOf(reader.string())
        for (let left = reader.int32(); left > 0; left--) {
          const partition = reader.int32()
          if (log >= 0) partitions.push(logPartition(log, partition))
        }
      }
      return partitions.sort((left, right) => left - right)
    },
  }
  return reader
}
