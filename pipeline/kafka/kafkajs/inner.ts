// What is used of kafkajs 2.2.4 behind its door: its connections (framing, TLS, SASL, timeouts, throttling) and the calls of a group.
//
// Its own consumer is not: it fetches only when everything fetched before has been worked on, makes an object of each record, goes on
// elsewhere by itself where an offset is gone, and tells of a rebalance when it is over. Nor is its pool of brokers, which hides why a
// coordinator was not found. What is used was read in that version alone, so its shape is checked when it is opened.

import type { Kafka } from 'kafkajs'
import { SystemicError } from '../../systemic-error.ts'

/** A request with how its answer is read, as a connection takes it. */
export interface InnerRequest<Answer> {
  readonly request: {
    readonly apiKey: number
    readonly apiVersion: number
    readonly apiName: string
    /** Of its encoder it looks at these two. */
    encode(): Promise<{ readonly buf: Buffer; readonly buffer: Buffer }>
  }
  readonly response: { decode(payload: Buffer): Promise<Answer>; parse(answer: Answer): Promise<Answer> }
  /** Counts where it is above that of the connection. */
  readonly requestTimeout?: number
}

export interface InnerConnection {
  readonly socket?: { destroy(): unknown } | undefined
  /** What came and was not read yet: one empty piece is a view into the answer before. */
  chunks: readonly Buffer[]
  readonly bytesBuffered: number
  isConnected(): boolean
  connect(): Promise<unknown>
  disconnect(): Promise<unknown>
  rejectRequests(error: Error): void
}

export interface InnerPool {
  /** The second is for fetches, so that nothing waits behind one. */
  readonly pool: readonly InnerConnection[]
  getConnection(index?: number): Promise<InnerConnection>
  send<Answer>(request: InnerRequest<Answer>): Promise<Answer>
}

interface PartitionOffset {
  readonly partition: number
  readonly offset: string
}

interface Topics<Partition> {
  readonly topics: readonly { readonly topic: string; readonly partitions: readonly Partition[] }[]
}

interface Responses<Partition> {
  readonly responses: readonly { readonly topic: string; readonly partitions: readonly Partition[] }[]
}

interface InGroup {
  readonly groupId: string
  readonly memberId: string
}

interface InGeneration extends InGroup {
  readonly groupGenerationId: number
}

/** A broker with its two connections. Its calls throw kafkajs's errors. */
export interface InnerBroker {
  readonly connectionPool: InnerPool
  readonly versions: Readonly<Record<number, { readonly minVersion: number; readonly maxVersion: number }>> | null
  connect(): Promise<void>
  findGroupCoordinator(asked: { groupId: string; coordinatorType: number }): Promise<{
    coordinator: { nodeId: number; host: string; port: number }
  }>
  joinGroup(
    asked: InGroup & {
      sessionTimeout: number
      rebalanceTimeout: number
      groupProtocols: readonly { name: string; metadata: Buffer }[]
    },
  ): Promise<{ generationId: number; leaderId: string; memberId: string; members: readonly { memberId: string; memberMetadata: Buffer }[] }>
  syncGroup(
    asked: InGroup & { generationId: number; groupAssignment: readonly { memberId: string; memberAssignment: Buffer }[] },
  ): Promise<{ memberAssignment: Buffer }>
  heartbeat(asked: InGeneration): Promise<unknown>
  leaveGroup(asked: InGroup): Promise<unknown>
  offsetCommit(asked: InGeneration & Topics<PartitionOffset>): Promise<unknown>
  offsetFetch(asked: { groupId: string } & Topics<{ partition: number }>): Promise<Responses<PartitionOffset>>
  listOffsets(
    asked: { replicaId: number; isolationLevel: number } & Topics<{ partition: number; timestamp: number }>,
  ): Promise<Responses<PartitionOffset>>
}

/** Makes brokers, as the client was configured. */
export interface InnerClient {
  broker(address: { host: string; port: number }): Promise<InnerBroker>
}

interface InnerCluster {
  readonly rootLogger: unknown
  readonly connectionPoolBuilder: { build(address: { host: string; port: number }): Promise<InnerPool> }
  readonly brokerPool: { createBroker(options: { connectionPool: InnerPool; logger: unknown }): InnerBroker }
}

const clusterSymbol = 'private:Kafka:createCluster'

/** @throws SystemicError where kafkajs is not as it was when it was read */
export function openInner(kafka: Kafka): InnerClient {
  const key = Object.getOwnPropertySymbols(kafka).find(symbol => symbol.description === clusterSymbol)
  const create = key === undefined ? undefined : (kafka as unknown as Record<symbol, unknown>)[key]
  if (typeof create !== 'function') throw changed(`it has no ${clusterSymbol}`)
  const cluster = create({ allowAutoTopicCreation: false }) as InnerCluster
  return {
    async broker(address) {
      const connectionPool = await cluster.connectionPoolBuilder.build(address)
      connectOnce(connectionPool)
      const broker = cluster.brokerPool.createBroker({ connectionPool, logger: cluster.rootLogger })
      for (const call of calls) if (typeof broker[call] !== 'function') throw changed(`its brokers have no ${call}`)
      return broker
    },
  }
}

const calls = [
  'connect',
  'findGroupCoordinator',
  'joinGroup',
  'syncGroup',
  'heartbeat',
  'leaveGroup',
  'offsetCommit',
  'offsetFetch',
  'listOffsets',
] as const

function changed(what: string): SystemicError {
  return new SystemicError(`kafkajs is not as the source was written for (${what}): install the version that package.json names`)
}

/** Two requests on a connection that is not there would each open a socket, and both answers would run into one another. */
function connectOnce(pool: InnerPool): void {
  if (!Array.isArray(pool.pool) || pool.pool.length !== 2) throw changed('a broker has no two connections')
  const connecting: (Promise<unknown> | undefined)[] = []
  pool.getConnection = async (index = 0) => {
    const connection = pool.pool[index]!
    if (connection.isConnected()) return connection
    connecting[index] ??= connection.connect().finally(() => {
      connecting[index] = undefined
    })
    await connecting[index]
    return connection
  }
}
