// Who of a group reads which partitions, and how members say so to each other (Kafka's consumer protocol, KIP-429).
//
//   subscription   version int16 = 1 · topics [string] · userData bytes · owned [topic string · partitions [int32]]
//   assignment     version int16 = 1 · topics [topic string · partitions [int32]] · userData bytes
//
// Strings have an int16 before them, arrays and bytes an int32. Versions above 1 add fields behind these.

import type { GroupMember } from './broker.ts'

/** The name under which members agree on how partitions are given out: that of Java and of `@platformatic/kafka`, so that a group may be mixed. */
export const protocolName = 'roundrobin'
const version = 1

/** What a member asks for. @param owned what it has, and would rather keep */
export function encodeSubscription(topic: string, owned: readonly number[]): Buffer {
  return Buffer.concat([int16(version), int32(1), string(topic), int32(0), topicsOf(topic, owned)])
}

export function encodeAssignment(topic: string, partitions: readonly number[]): Buffer {
  return Buffer.concat([int16(version), topicsOf(topic, partitions), int32(0)])
}

/** The partitions of the topic in an assignment, in order; none where a member got none at all. */
export function decodeAssignment(bytes: Buffer, topic: string): number[] {
  if (bytes.length < 2) return []
  const reader = openReader(bytes)
  reader.int16()
  return reader.partitionsOf(topic)
}

/** Whether a member wants the topic, and what it had of it. A member of another kind may say less. */
function decodeSubscription(bytes: Buffer, topic: string): { wants: boolean; owned: number[] } {
  const reader = openReader(bytes)
  const version = reader.int16()
  const topics: string[] = []
  for (let left = reader.int32(); left > 0; left--) topics.push(reader.string())
  reader.skipBytes()
  return { wants: topics.includes(topic), owned: version >= 1 && reader.more() ? reader.partitionsOf(topic) : [] }
}

/**
 * Gives each partition to one member, and to each member as many as to any other or one more. Who has a partition keeps it where that
 * allows: all that a member took of it ahead is lost when it moves.
 */
export function assign(topic: string, partitions: readonly number[], members: readonly GroupMember[]): Map<string, number[]> {
  const asked = members
    .map(({ memberId, metadata }) => ({ memberId, ...decodeSubscription(metadata, topic) }))
    .sort((left, right) => right.owned.length - left.owned.length || (left.memberId < right.memberId ? -1 : 1))
  const takers = asked.filter(({ wants }) => wants)
  const free = new Set(partitions)
  const given = new Map<string, number[]>(asked.map(({ memberId }) => [memberId, []]))
  if (takers.length === 0) return given
  const least = Math.floor(partitions.length / takers.length)
  let withOneMore = partitions.length % takers.length
  for (const { memberId, owned } of takers) {
    const kept = given.get(memberId)!
    for (const partition of owned.toSorted((left, right) => left - right)) {
      if (kept.length === least + (withOneMore > 0 ? 1 : 0)) break
      if (free.delete(partition)) kept.push(partition)
    }
    if (kept.length > least) withOneMore--
  }
  const rest = [...free]
  for (const { memberId } of takers) {
    const kept = given.get(memberId)!
    while (kept.length < least) kept.push(rest.pop()!)
  }
  for (const { memberId } of takers) {
    const kept = given.get(memberId)!
    if (kept.length === least && rest.length > 0) kept.push(rest.pop()!)
    kept.sort((left, right) => left - right)
  }
  return given
}

function topicsOf(topic: string, partitions: readonly number[]): Buffer {
  if (partitions.length === 0) return int32(0)
  return Buffer.concat([int32(1), string(topic), int32(partitions.length), ...partitions.map(int32)])
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
  partitionsOf(topic: string): number[]
}

/** Its calls throw RangeError where the bytes are cut. */
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
    partitionsOf(topic) {
      const partitions: number[] = []
      for (let topics = reader.int32(); topics > 0; topics--) {
        const isAsked = reader.string() === topic
        for (let left = reader.int32(); left > 0; left--) {
          const partition = reader.int32()
          if (isAsked) partitions.push(partition)
        }
      }
      return partitions.sort((left, right) => left - right)
    },
  }
  return reader
}
