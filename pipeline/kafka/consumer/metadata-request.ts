// Metadata, version 12: the brokers, and of one topic its id and who leads its partitions. Versions below 10 know no ids.
//
//   request    topics [topicId uuid · name string] · allowTopicCreation int8 · withOperations int8
//   answer     throttleMs int32 · brokers [nodeId int32 · host string · port int32 · rack string] · clusterId string · controllerId int32 ·
//              topics [error int16 · name string · topicId uuid · internal int8 · partitions [error int16 · partition int32 ·
//              leader int32 · leaderEpoch int32 · replicas [int32] · inSync [int32] · offline [int32]] · operations int32]

import type { WireReader } from './wire.ts'
import type { WireRequest } from './wire-request.ts'

export const metadataKey = 3
export const metadataVersion = 12

export interface BrokerAddress {
  readonly nodeId: number
  readonly host: string
  readonly port: number
}

export interface TopicMetadata {
  /** Kafka's number of it; 0 is none. */
  readonly error: number
  readonly id: string
  /** By their numbers. The leader may be `nobody`. */
  readonly partitions: readonly { readonly partition: number; readonly leader: number }[]
}

/** In the place of a leader: it is being elected, or all that could be are away. */
export const nobody = -1

export interface Metadata {
  readonly brokers: readonly BrokerAddress[]
  readonly topic: TopicMetadata
}

const byName = '00000000-0000-0000-0000-000000000000'
const missing: TopicMetadata = { error: 3, id: byName, partitions: [] }

/** Makes no topic. */
export function metadataRequest(topic: string): WireRequest<Metadata> {
  return {
    apiKey: metadataKey,
    apiVersion: metadataVersion,
    apiName: 'Metadata',
    write: to => to.array(1).uuid(byName).string(topic).tags().int8(0).int8(0),
    read(from) {
      const throttleMs = from.int32()
      const brokers = from.array(() => {
        const broker = { nodeId: from.int32(), host: from.string() ?? '', port: from.int32() }
        from.string()
        from.tags()
        return broker
      })
      from.string()
      from.int32()
      const topics = from.array(() => readTopic(from))
      return { throttleMs, brokers, topic: topics[0] ?? missing }
    },
  }
}

function readTopic(from: WireReader): TopicMetadata {
  const error = from.int16()
  from.string()
  const id = from.uuid()
  from.int8()
  const partitions = from.array(() => {
    from.int16()
    const found = { partition: from.int32(), leader: from.int32() }
    from.int32()
    for (let left = 3; left > 0; left--) from.array(() => from.int32())
    from.tags()
    return found
  })
  from.int32()
  from.tags()
  return { error, id, partitions: partitions.toSorted((left, right) => left.partition - right.partition) }
}
