// A broker by `@platformatic/kafka`: its connections, and its calls of a group.
//
// Of its three connections one is for what is answered at once, one for fetches, and one for joining, whose answers wait for the whole
// group. So what is asked of the coordinator beside a join is answered while the group rebalances.

import { setTimeout as wait } from 'node:timers/promises'
import type { KafkaConnection } from '../connection.ts'
import { type Address, BrokerError, type ConnectBroker, type Joined, type JoinQuestion, type KafkaBroker } from '../consumer/broker.ts'
import { fetchRequest } from '../consumer/fetch-request.ts'
import { metadataRequest } from '../consumer/metadata-request.ts'
import { checkVersions } from '../consumer/versions.ts'
import { code } from '../failure.ts'
import type { KafkaClient } from '../produce.ts'
import { type Line, openLine, sendOn } from './line.ts'

const groupCoordinator = 0
const consumerReplica = -1
const readUncommitted = 0
const consumerProtocol = 'consumer'
const noInstance = null
const anyEpoch = -1

/** Brokers of one cluster. */
export function connectWithPlatformatic(connection: KafkaConnection): ConnectBroker {
  return async address => {
    const client = await import('@platformatic/kafka')
    const asks = openLine(client, connection, address)
    try {
      const { apiKeys } = await asks.ask(connection.connectTimeoutMs + connection.requestTimeoutMs, line =>
        client.apiVersionsV0.api.async(line, connection.clientId, ''),
      )
      checkVersions(address, apiKey => apiKeys.find(range => range.apiKey === apiKey))
    } catch (error) {
      asks.end()
      throw error
    }
    return brokerOf(client, connection, address, asks)
  }
}

function brokerOf(client: KafkaClient, connection: KafkaConnection, address: Address, asks: Line): KafkaBroker {
  const { requestTimeoutMs } = connection
  const fetches = openLine(client, connection, address)
  const joins = openLine(client, connection, address)
  const lines = [asks, fetches, joins]

  function join({ group, memberId, sessionMs, rebalanceMs, protocol, metadata }: JoinQuestion): Promise<Joined> {
    return joins.ask(rebalanceMs + requestTimeoutMs, async line => {
      const protocols = [{ name: protocol, metadata }]
      const { api } = client.joinGroupV7
      const answer = await api.async(line, group, sessionMs, rebalanceMs, memberId, noInstance, consumerProtocol, protocols)
      return { generation: answer.generationId, memberId: answer.memberId, leaderId: answer.leader, members: answer.members }
    })
  }

  return {
    isWhole: () => lines.every(line => line.isWhole()),

    metadata: topic => asks.ask(requestTimeoutMs, line => sendOn(client, line, metadataRequest(topic))),

    async fetch(question) {
      const answer = await fetches.ask(question.waitMs + requestTimeoutMs, line => sendOn(client, line, fetchRequest(question)))
      if (answer.throttleMs > 0) await wait(answer.throttleMs)
      return answer
    },

    async offsets(name, partitions, at) {
      const asked = partitions.map(partitionIndex => ({ partitionIndex, currentLeaderEpoch: anyEpoch, timestamp: BigInt(at) }))
      const { topics } = await asks.ask(requestTimeoutMs, line =>
        client.listOffsetsV7.api.async(line, consumerReplica, readUncommitted, [{ name, partitions: asked }]),
      )
      const found = topics.flatMap(topic => topic.partitions)
      return new Map(found.map(({ partitionIndex, offset }) => [partitionIndex, Number(offset)]))
    },

    async coordinatorOf(group) {
      const { coordinators } = await asks.ask(requestTimeoutMs, line => client.findCoordinatorV3.api.async(line, groupCoordinator, [group]))
      return coordinators[0]!
    },

    async join(question) {
      try {
        return await join(question)
      } catch (error) {
        // A group gives a new member its id first, and is to be asked again with it.
        const memberId = error instanceof BrokerError && error.apiCode === code.memberIdRequired ? givenId(error) : undefined
        if (memberId === undefined) throw error
        question.onMemberId?.(memberId)
        return join({ ...question, memberId })
      }
    },

    async sync({ group, memberId, generation, protocol, rebalanceMs, assignments }) {
      const given = [...assignments].map(([memberId, assignment]) => ({ memberId, assignment }))
      const { assignment } = await joins.ask(rebalanceMs + requestTimeoutMs, line =>
        client.syncGroupV5.api.async(line, group, generation, memberId, noInstance, consumerProtocol, protocol, given),
      )
      return assignment
    },

    async heartbeat({ group, memberId, generation }) {
      await asks.ask(requestTimeoutMs, line => client.heartbeatV4.api.async(line, group, generation, memberId, noInstance))
    },

    async leave(group, memberId) {
      await asks.ask(requestTimeoutMs, line => client.leaveGroupV4.api.async(line, group, [{ memberId, groupInstanceId: noInstance }]))
    },

    async committed(group, name, partitions) {
      const asked = [{ groupId: group, topics: [{ name, partitionIndexes: [...partitions] }] }]
      const { topics } = await asks.ask(requestTimeoutMs, line => client.offsetFetchV7.api.async(line, asked, false))
      const found = topics.flatMap(topic => topic.partitions).filter(({ committedOffset }) => committedOffset >= 0n)
      return new Map(found.map(({ partitionIndex, committedOffset }) => [partitionIndex, Number(committedOffset)]))
    },

    async commit({ group, memberId, generation }, name, positions) {
      const partitions = [...positions].map(([partitionIndex, offset]) => ({
        partitionIndex,
        committedOffset: BigInt(offset),
        committedLeaderEpoch: anyEpoch,
        committedMetadata: '',
      }))
      await asks.ask(requestTimeoutMs, line =>
        client.offsetCommitV8.api.async(line, group, generation, memberId, noInstance, [{ name, partitions }]),
      )
    },

    end() {
      for (const line of lines) line.end()
    },
  }
}

/** The id that came with the answer. */
function givenId({ cause }: BrokerError): string | undefined {
  const { response } = cause as { response?: { memberId?: string } }
  return response?.memberId
}
