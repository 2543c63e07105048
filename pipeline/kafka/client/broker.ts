// A broker connected by `@platformatic/kafka`, with the requests that a consumer sends.
//
// It has three connections: for quick requests, for fetches, and for joins, which are answered only when the whole group has joined. So
// other requests to the coordinator are answered while the group rebalances.

import { setTimeout as wait } from 'node:timers/promises'
import {
  apiVersionsV0,
  describeGroupsV5,
  fetchV13,
  findCoordinatorV3,
  heartbeatV4,
  joinGroupV7,
  joinGroupV9,
  leaveGroupV4,
  listOffsetsV7,
  metadataV12,
  offsetCommitV8,
  offsetFetchV7,
  syncGroupV5,
} from '@platformatic/kafka'
import { named } from '../../../config/options/variable.ts'
import { type LogPartition, logOf, logPartition, partitionOf } from '../../../transformers/log-partition.ts'
import { SystemicError } from '../../systemic-error.ts'
import type { KafkaConnection } from '../connection.ts'
import {
  type Address,
  BrokerError,
  type ConnectBroker,
  type Joined,
  type JoinRequest,
  type KafkaBroker,
  type TopicMetadata,
} from '../consumer/broker.ts'
import { code, metadataIn } from '../failure.ts'
import { fetchOn } from './fetch.ts'
import { type Line, openLine } from './line.ts'

const groupCoordinator = 0
const consumerReplica = -1
const readUncommitted = 0
const consumerProtocol = 'consumer'
const anyEpoch = -1
const noTopic: TopicMetadata = { error: code.unknownTopic, id: '', partitions: [] }

/** Opens brokers of one cluster. */
export function connectBrokers(connection: KafkaConnection): ConnectBroker {
  return async address => {
    const asks = openLine(connection, address)
    try {
      const { apiKeys: known } = await asks.ask(connection.connectTimeoutMs + connection.requestTimeoutMs, line =>
        apiVersionsV0.api.async(line, connection.clientId, ''),
      )
      if (!knows(known, fetchV13.api) || !knows(known, metadataV12.api)) {
        throw new SystemicError(`the broker ${address.host}:${address.port} does not support topic ids: use Kafka 3.1 or newer`)
      }
      return brokerOf(connection, address, asks, known)
    } catch (error) {
      asks.end()
      throw error
    }
  }
}

/** The request versions that a broker supports. */
type Known = readonly { readonly apiKey: number; readonly minVersion: number; readonly maxVersion: number }[]

function knows(known: Known, { key, version }: { readonly key: number; readonly version: number }): boolean {
  return known.some(({ apiKey, minVersion, maxVersion }) => apiKey === key && minVersion <= version && version <= maxVersion)
}

function topicOf({ errorCode, topicId, partitions }: metadataV12.MetadataResponse['topics'][number]): TopicMetadata {
  const found = partitions.map(({ partitionIndex, leaderId }) => ({ partition: partitionIndex, leader: leaderId }))
  return { error: errorCode, id: topicId, partitions: found.toSorted((left, right) => left.partition - right.partition) }
}

function brokerOf(connection: KafkaConnection, address: Address, asks: Line, known: Known): KafkaBroker {
  const { requestTimeoutMs } = connection
  const fetches = openLine(connection, address)
  const joins = openLine(connection, address)
  const lines = [asks, fetches, joins]

  async function join({ group, memberId, instance, sessionMs, rebalanceMs, protocol, metadata }: JoinRequest): Promise<Joined> {
    // Older brokers do not tell a returning leader that it leads, so added partitions would go unnoticed.
    if (instance !== undefined && !knows(known, joinGroupV9.api)) {
      throw new SystemicError(
        `the broker ${address.host}:${address.port} does not support static membership fully: use Kafka 3.2 or newer, or unset ${named('log.instance')}`,
      )
    }
    return joins.ask(rebalanceMs + requestTimeoutMs, async line => {
      const protocols = [{ name: protocol, metadata }]
      const { api } = instance === undefined ? joinGroupV7 : joinGroupV9
      const answer = await api.async(line, group, sessionMs, rebalanceMs, memberId, instance, consumerProtocol, protocols)
      const { generationId: generation, leader: leaderId, skipAssignment: skipsAssignment, members } = answer
      return { generation, memberId: answer.memberId, leaderId, skipsAssignment, members }
    })
  }

  return {
    isWhole: () => lines.every(line => line.isWhole()),

    async metadata(names) {
      const { brokers, topics } = await asks.ask(requestTimeoutMs, line =>
        metadataV12.api.async(line, [...names], false, false).catch(metadataIn),
      )
      const found = new Map(topics.map(topic => [topic.name, topicOf(topic)]))
      return { brokers, topics: names.map(name => found.get(name) ?? noTopic) }
    },

    async fetch(request) {
      const answer = await fetches.ask(request.waitMs + requestTimeoutMs, line => fetchOn(line, request))
      if (answer.throttleMs > 0) await wait(answer.throttleMs)
      return answer
    },

    async offsets(names, partitions, when) {
      const asked = byTopic(names, partitions, at => ({
        partitionIndex: partitionOf(at),
        currentLeaderEpoch: anyEpoch,
        timestamp: BigInt(when),
      }))
      const { topics } = await asks.ask(requestTimeoutMs, line => listOffsetsV7.api.async(line, consumerReplica, readUncommitted, asked))
      return new Map(eachPartition(names, topics).map(([at, { offset }]) => [at, Number(offset)]))
    },

    async coordinatorOf(group) {
      const { coordinators } = await asks.ask(requestTimeoutMs, line => findCoordinatorV3.api.async(line, groupCoordinator, [group]))
      return coordinators[0]!
    },

    async join(request) {
      try {
        return await join(request)
      } catch (error) {
        // The group first assigns an id to a new member, which must join again with it.
        const memberId = error instanceof BrokerError && error.apiCode === code.memberIdRequired ? givenId(error) : undefined
        if (memberId === undefined) throw error
        request.onMemberId?.(memberId)
        return join({ ...request, memberId })
      }
    },

    async sync({ group, memberId, instance, generation, protocol, rebalanceMs, assignments }) {
      const given = [...assignments].map(([memberId, assignment]) => ({ memberId, assignment }))
      const { assignment } = await joins.ask(rebalanceMs + requestTimeoutMs, line =>
        syncGroupV5.api.async(line, group, generation, memberId, instance, consumerProtocol, protocol, given),
      )
      return assignment
    },

    async heartbeat({ group, memberId, instance, generation }) {
      await asks.ask(requestTimeoutMs, line => heartbeatV4.api.async(line, group, generation, memberId, instance))
    },

    async leave({ group, memberId, instance }) {
      await asks.ask(requestTimeoutMs, line => leaveGroupV4.api.async(line, group, [{ memberId, groupInstanceId: instance }]))
    },

    async describe(group) {
      const { groups } = await asks.ask(requestTimeoutMs, line => describeGroupsV5.api.async(line, [group], false))
      const { groupState: state, members } = groups[0]!
      return {
        state,
        members: members.map(({ clientId, clientHost, memberAssignment }) => ({
          clientId,
          host: clientHost,
          assignment: memberAssignment,
        })),
      }
    },

    async committed(group, names, partitions) {
      const asked = byTopic(names, partitions, partitionOf).map(({ name, partitions }) => ({ name, partitionIndexes: partitions }))
      const { topics } = await asks.ask(requestTimeoutMs, line => offsetFetchV7.api.async(line, [{ groupId: group, topics: asked }], false))
      const found = eachPartition(names, topics).filter(([, { committedOffset }]) => committedOffset >= 0n)
      return new Map(found.map(([at, { committedOffset }]) => [at, Number(committedOffset)]))
    },

    async commit({ group, memberId, instance, generation }, names, positions) {
      const committed = byTopic(names, [...positions.keys()], at => ({
        partitionIndex: partitionOf(at),
        committedOffset: BigInt(positions.get(at)!),
        committedLeaderEpoch: anyEpoch,
        committedMetadata: '',
      }))
      await asks.ask(requestTimeoutMs, line => offsetCommitV8.api.async(line, group, generation, memberId, instance, committed))
    },

    end() {
      for (const line of lines) line.end()
    },
  }
}

/** What a request says of each partition, by topic. */
function byTopic<Asked>(
  names: readonly string[],
  partitions: readonly LogPartition[],
  asked: (at: LogPartition) => Asked,
): { name: string; partitions: Asked[] }[] {
  return [...Map.groupBy(partitions, logOf)].map(([log, own]) => ({ name: names[log]!, partitions: own.map(asked) }))
}

/** What an answer says of each partition. */
function eachPartition<Found extends { readonly partitionIndex: number }>(
  names: readonly string[],
  topics: readonly { readonly name: string; readonly partitions: readonly Found[] }[],
): [LogPartition, Found][] {
  return topics.flatMap(({ name, partitions }) => {
    const log = names.indexOf(name)
    return partitions.map((found): [LogPartition, Found] => [logPartition(log, found.partitionIndex), found])
  })
}

/** The member id in the answer. */
function givenId({ cause }: BrokerError): string | undefined {
  const { response } = cause as { response?: { memberId?: string } }
  return response?.memberId
}
