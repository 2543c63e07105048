// Fake brokers, and the connections of a consumer to them.

import {
  type Address,
  BrokerError,
  type FetchAnswer,
  type FetchRequest,
  type KafkaBroker,
  type Metadata,
  OffsetAt,
} from '../../../pipeline/kafka/consumer/broker.ts'
import { type Cluster, openCluster } from '../../../pipeline/kafka/consumer/cluster.ts'

export interface FakeBroker extends KafkaBroker {
  readonly address: Address
  isThere: boolean
  ended: number
}

export const brokerAddresses = [1, 2].map(nodeId => ({ nodeId, host: `node${nodeId}`, port: 9092 }))

/** Two brokers that know each other's address; a test adds other answers. */
export function clusterOf(bootstrap: readonly string[], own: (address: Address) => Partial<KafkaBroker> = () => ({})) {
  const opened: FakeBroker[] = []
  const cluster: Cluster = openCluster(bootstrap, async address => {
    const broker = fakeBroker(address, own(address))
    opened.push(broker)
    return broker
  })
  return { cluster, opened, hosts: () => opened.map(({ address }) => address.host) }
}

export function fakeBroker(address: Address, own: Partial<KafkaBroker>): FakeBroker {
  const unused = (): never => {
    throw new Error('not asked for here')
  }
  const broker: FakeBroker = {
    address,
    isThere: true,
    ended: 0,
    isWhole: () => broker.isThere,
    metadata: async () => ({ brokers: brokerAddresses, topics: [{ error: 0, id: 'x', partitions: [] }] }),
    coordinatorOf: async () => ({ host: 'node2', port: 9092 }),
    fetch: unused,
    offsets: unused,
    join: unused,
    sync: unused,
    heartbeat: unused,
    leave: unused,
    describe: unused,
    committed: unused,
    commit: unused,
    end: () => void broker.ended++,
    ...own,
  }
  return broker
}

/** A partition: its leader, and its offsets, from `start` to below `end`. */
export interface FakePartition {
  /** -1 for none. */
  leader: number
  start: number
  end: number
}

/** The only topic of the two brokers, which a test may change. */
export interface FakeTopic {
  readonly partitions: FakePartition[]
  /** Brokers that fail every request about the topic. */
  readonly away: Set<number>
  /** Overrides the metadata in answers. */
  metadata?: () => Metadata
}

export function fakeTopic(...partitions: FakePartition[]): FakeTopic {
  return { partitions, away: new Set() }
}

const notLeader = 6
const offsetOutOfRange = 1

/** The two brokers with the topic. */
export function clusterWith(topic: FakeTopic) {
  return clusterOf(['node1:9092'], address => holding(topic, address))
}

/** A broker's answers about a topic. */
export function holding(topic: FakeTopic, { host }: Address): Pick<KafkaBroker, 'metadata' | 'offsets' | 'fetch'> {
  const nodeId = Number(host.slice(-1))
  function reach(): void {
    if (topic.away.has(nodeId)) throw new Error(`broker ${nodeId} is away`)
  }
  return {
    metadata: async () => topic.metadata?.() ?? metadataOf(topic),
    async offsets(_topics, asked, when) {
      reach()
      if (asked.some(at => topic.partitions[at]!.leader !== nodeId)) throw new BrokerError(notLeader, 'not the leader')
      return new Map(asked.map(at => [at, topic.partitions[at]![when === OffsetAt.start ? 'start' : 'end']]))
    },
    async fetch(request) {
      reach()
      await new Promise(resolve => setTimeout(resolve, request.waitMs))
      return answerOf(topic, nodeId, request)
    },
  }
}

export function metadataOf({ partitions }: FakeTopic): Metadata {
  const found = partitions.map(({ leader }, partition) => ({ partition, leader }))
  return { brokers: brokerAddresses, topics: [{ error: 0, id: 'x', partitions: found }] }
}

function answerOf(topic: FakeTopic, nodeId: number, { partitions }: FetchRequest): FetchAnswer {
  const answers = partitions.map(({ at, offset }) => {
    const { leader, start, end } = topic.partitions[at]!
    const isHeld = offset >= start && offset <= end
    const error = leader !== nodeId ? notLeader : isHeld ? 0 : offsetOutOfRange
    return { at, error, aborted: [], records: error === 0 && offset < end ? batch(offset, end) : Buffer.alloc(0) }
  })
  return { error: 0, partitions: answers }
}

/** The head of a batch, which is all that fetching reads. */
export function batch(from: number, to: number): Buffer {
  const bytes = Buffer.alloc(70)
  bytes.writeBigInt64BE(BigInt(from))
  bytes.writeInt32BE(58, 8)
  bytes.writeInt8(2, 16)
  bytes.writeInt32BE(to - from - 1, 23)
  return bytes
}
