// A broker by kafkajs: two of its connections, and its calls of a group.

import type { Logger } from '../../../config/logger.ts'
import { type KafkaConnection, openKafkajs } from '../connection.ts'
import type { ConnectBroker, KafkaBroker } from '../consumer/broker.ts'
import { fetchRequest } from '../consumer/fetch-request.ts'
import { metadataRequest } from '../consumer/metadata-request.ts'
import { checkVersions } from '../consumer/versions.ts'
import type { WireRequest } from '../consumer/wire-request.ts'
import { brokerFailure } from './failure.ts'
import { type InnerBroker, type InnerClient, openInner } from './inner.ts'
import { innerRequest } from './inner-request.ts'

const groupCoordinator = 0
const consumerReplica = -1
const readUncommitted = 0

/** Brokers of one cluster. kafkajs is loaded for the first. */
export function connectWithKafkajs(connection: KafkaConnection, logger: Logger): ConnectBroker {
  let client: Promise<InnerClient> | undefined
  return async address => {
    client ??= openKafkajs(connection, logger).then(openInner)
    const broker = await (await client).broker(address)
    try {
      await broker.connect()
      checkVersions(address, apiKey => broker.versions?.[apiKey])
    } catch (error) {
      end(broker)
      throw brokerFailure(error)
    }
    return brokerOf(broker, connection.requestTimeoutMs)
  }
}

function brokerOf(broker: InnerBroker, requestTimeoutMs: number): KafkaBroker {
  async function call<Answer>(called: Promise<Answer>): Promise<Answer> {
    try {
      return await called
    } catch (error) {
      throw brokerFailure(error)
    }
  }

  function send<Answer>(request: WireRequest<Answer>): Promise<Answer> {
    return call(broker.connectionPool.send(innerRequest(request, requestTimeoutMs)))
  }

  return {
    isWhole() {
      const { pool } = broker.connectionPool
      return pool[0]!.isConnected() && (pool[1]!.socket === undefined || pool[1]!.isConnected())
    },

    metadata: topic => send(metadataRequest(topic)),

    async fetch(question) {
      const answer = await send(fetchRequest(question))
      // kafkajs keeps a view into the last answer until the next one comes, and with it the whole.
      const connection = broker.connectionPool.pool[1]!
      if (connection.bytesBuffered === 0) connection.chunks = []
      return answer
    },

    async offsets(topic, partitions, at) {
      const topics = [{ topic, partitions: partitions.map(partition => ({ partition, timestamp: at })) }]
      const { responses } = await call(broker.listOffsets({ replicaId: consumerReplica, isolationLevel: readUncommitted, topics }))
      const found = responses.flatMap(response => response.partitions)
      return new Map(found.map(({ partition, offset }) => [partition, Number(offset)]))
    },

    async coordinatorOf(groupId) {
      const { coordinator } = await call(broker.findGroupCoordinator({ groupId, coordinatorType: groupCoordinator }))
      return coordinator
    },

    async join({ group: groupId, memberId, sessionMs, rebalanceMs, protocol, metadata }) {
      const groupProtocols = [{ name: protocol, metadata }]
      const asked = { groupId, memberId, sessionTimeout: sessionMs, rebalanceTimeout: rebalanceMs, groupProtocols }
      const { generationId, leaderId, members, ...own } = await call(broker.joinGroup(asked))
      const found = members.map(({ memberId, memberMetadata }) => ({ memberId, metadata: memberMetadata }))
      return { generation: generationId, memberId: own.memberId, leaderId, members: found }
    },

    async sync({ group: groupId, memberId, generation: generationId, assignments }) {
      const groupAssignment = [...assignments].map(([memberId, memberAssignment]) => ({ memberId, memberAssignment }))
      return (await call(broker.syncGroup({ groupId, memberId, generationId, groupAssignment }))).memberAssignment
    },

    async heartbeat({ group: groupId, memberId, generation: groupGenerationId }) {
      await call(broker.heartbeat({ groupId, memberId, groupGenerationId }))
    },

    async leave(groupId, memberId) {
      await call(broker.leaveGroup({ groupId, memberId }))
    },

    async committed(groupId, topic, partitions) {
      const topics = [{ topic, partitions: partitions.map(partition => ({ partition })) }]
      const { responses } = await call(broker.offsetFetch({ groupId, topics }))
      const found = responses.flatMap(response => response.partitions).filter(({ offset }) => Number(offset) >= 0)
      return new Map(found.map(({ partition, offset }) => [partition, Number(offset)]))
    },

    async commit({ group: groupId, memberId, generation: groupGenerationId }, topic, positions) {
      const partitions = [...positions].map(([partition, offset]) => ({ partition, offset: String(offset) }))
      await call(broker.offsetCommit({ groupId, memberId, groupGenerationId, topics: [{ topic, partitions }] }))
    },

    end: () => end(broker),
  }
}

function end({ connectionPool: { pool } }: InnerBroker): void {
  for (const connection of pool) {
    connection.rejectRequests(new Error('the connection was given up'))
    // Nothing is under way any more, so that this is over at once; the socket need not wait for the other side.
    void connection.disconnect().catch(() => undefined)
    connection.socket?.destroy()
  }
}
