// Topics: what the brokers say of one, making one that is missing, and the offsets that it and a consumer group have.

import { setTimeout as wait } from 'node:timers/promises'
import type { Admin, API, Broker, Connection, FetchIsolationLevelValue, metadataV12 } from '@platformatic/kafka'
import { named } from '../../config/option-variable.ts'
import { LogUnavailableError } from '../log.ts'
import { SystemicError } from '../systemic-error.ts'
import { type KafkaConnection, openAdmin } from './connection.ts'
import { brokerCodes, code, reasonOf, systemicFault } from './failure.ts'
import { type KafkaLogOptions, partitionsMax } from './options.ts'

export interface Topic {
  readonly name: string
  /** A UUID that the cluster made with the topic: a topic made anew under the same name has another. */
  readonly id: string
  readonly partitions: number
  /** The leader of each partition by its number; undefined while it has none. */
  readonly leaders: readonly (Broker | undefined)[]
}

/** How a topic is made where it is missing. */
export interface TopicToMake {
  readonly partitions: number
  /** 0: what the brokers are set to. */
  readonly replicationFactor: number
  /** More of its configuration: `{ 'max.message.bytes': '2097152' }`. */
  readonly config?: Readonly<Record<string, string>>
}

type MetadataResponse = metadataV12.MetadataResponse

const noId = '00000000-0000-0000-0000-000000000000'
/** Metadata has topic ids from this version on (KIP-516, Kafka 2.8). */
const versionWithIds = 10

/**
 * Asks one of the brokers, another one at each attempt.
 *
 * @returns undefined where there is no such topic
 * @throws SystemicError for brokers without topic ids, a topic of more partitions than a position can hold, and missing rights
 * @throws LogUnavailableError while no broker answers
 */
export async function describeTopic(admin: Admin, name: string, attempt = 0): Promise<Topic | undefined> {
  const { brokers, topics } = await readMetadata(admin, name, attempt)
  const found = topics.find(topic => topic.name === name)
  if (found === undefined || found.errorCode === code.unknownTopic) return undefined
  if (found.errorCode === code.topicAuthorization) {
    throw new SystemicError(`the brokers do not show the topic ${name} to this user: give it the right to describe, read and write it`)
  }
  if (found.errorCode === code.invalidTopic) {
    throw new SystemicError(
      `${name} is no name for a topic: correct ${named('log.topic')} and ${named('log.group')}, from which it is made`,
    )
  }
  if (found.errorCode !== code.none && found.errorCode !== code.leaderNotAvailable) {
    throw new LogUnavailableError(`the brokers answer error ${found.errorCode} for the topic ${name}: look at their logs`)
  }
  if (found.topicId === noId) throw tooOld(name)
  const count = found.partitions.length
  checkPartitions(name, count)
  const leaders: (Broker | undefined)[] = Array.from({ length: count }, () => undefined)
  const byNode = new Map(brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }]))
  for (const { partitionIndex, leaderId } of found.partitions) leaders[partitionIndex] = byNode.get(leaderId)
  return { name, id: found.topicId, partitions: count, leaders }
}

/** @throws SystemicError where they are more than a position can tell apart */
export function checkPartitions(name: string, count: number): void {
  if (count > partitionsMax) {
    throw new SystemicError(
      `the topic ${name} has ${count} partitions, and a stored position has room for ${partitionsMax}: use a topic with fewer`,
    )
  }
}

async function readMetadata(admin: Admin, name: string, attempt: number): Promise<MetadataResponse> {
  const client = await import('@platformatic/kafka')
  try {
    const connection = await new Promise<Connection>((resolve, reject) => {
      admin[client.kGetBootstrapConnection]((error, found) => (found === undefined ? reject(asError(error)) : resolve(found)), attempt)
    })
    const metadata = await new Promise<API<[string[], boolean, boolean], MetadataResponse>>((resolve, reject) => {
      admin[client.kGetApi]<[string[], boolean, boolean], MetadataResponse>('Metadata', (error, found) =>
        found === undefined ? reject(asError(error)) : resolve(found),
      )
    })
    if (metadata.version < versionWithIds) throw tooOld(name)
    return await metadata.async(connection, [name], false, false)
  } catch (error) {
    // The client makes an error of an answer in which anything is wrong: a partition without a leader, say.
    const { response } = error as { response?: MetadataResponse }
    if (response?.topics !== undefined) return response
    throw systemicFault(error, `the topic ${name} cannot be looked at`) ?? away(name, error)
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

function tooOld(name: string): SystemicError {
  return new SystemicError(
    `the brokers give the topic ${name} no id, so that a topic made anew could not be told from it: use Kafka 2.8 or later, in KRaft mode`,
  )
}

function away(name: string, cause: unknown): LogUnavailableError {
  return new LogUnavailableError(`the topic ${name} cannot be reached (${reasonOf(cause)}): look at the brokers`, { cause })
}

/** A topic is there for all brokers some time after it was made. */
const settleMsMax = 30_000
const settleWaitMs = 50

/**
 * The topic of the section `log`, made where it is missing and may be. Any number of processes may do that at once. Of a topic that was
 * there partitions may have no leader now: who reads begins with the others.
 *
 * @throws SystemicError where it cannot be used or made
 * @throws LogUnavailableError while no broker answers
 */
export async function openTopic(
  connection: KafkaConnection,
  { topic, partitions, replicationFactor }: Pick<KafkaLogOptions, 'topic' | 'partitions' | 'replicationFactor'>,
  config: TopicToMake['config'] = {},
): Promise<Topic> {
  const admin = await openAdmin(connection)
  try {
    const present = await describeTopic(admin, topic)
    if (present !== undefined && present.partitions > 0) return present
    return await reachTopic(admin, topic, { partitions, replicationFactor, config })
  } finally {
    await admin.close()
  }
}

/**
 * The topic with a leader for each partition, made where it is missing and `make` says how.
 *
 * @throws SystemicError where it is missing and not to be made, or may not be, and as `describeTopic`
 * @throws LogUnavailableError while no broker answers
 */
export async function reachTopic(admin: Admin, name: string, make: TopicToMake | undefined): Promise<Topic> {
  let made = false
  const givenUpMs = performance.now() + settleMsMax
  for (let attempt = 0; ; attempt++) {
    const topic = await describeTopic(admin, name, attempt)
    if (topic !== undefined && topic.partitions > 0 && !topic.leaders.includes(undefined)) return topic
    if (topic === undefined && !made) {
      if (make === undefined)
        throw new SystemicError(`there is no topic ${name}: make it, or set ${named('log.topic')} to the one that is meant`)
      await makeTopic(admin, name, make)
      made = true
    }
    if (performance.now() > givenUpMs) {
      throw new LogUnavailableError(`the topic ${name} has partitions without a leader: look at the brokers`)
    }
    await wait(settleWaitMs)
  }
}

async function makeTopic(admin: Admin, name: string, { partitions, replicationFactor, config = {} }: TopicToMake): Promise<void> {
  const replicas = replicationFactor === 0 ? -1 : replicationFactor
  const configs = Object.entries(config).map(([key, value]) => ({ name: key, value }))
  try {
    await admin.createTopics({ topics: [name], partitions, replicas, configs })
  } catch (error) {
    if (brokerCodes(error).includes(code.topicExists)) return
    throw systemicFault(error, `the topic ${name} is missing and cannot be made`) ?? away(name, error)
  }
}

/** The first offset that is still there, and the one that the next message will get. */
export interface Bounds {
  readonly start: number
  readonly end: number
}

/**
 * @returns by partition
 * @throws SystemicError, LogUnavailableError
 */
export async function readBounds(admin: Admin, name: string, partitions: readonly number[]): Promise<Map<number, Bounds>> {
  const { FetchIsolationLevels, ListOffsetTimestamps } = await import('@platformatic/kafka')
  const isolation = FetchIsolationLevels.READ_UNCOMMITTED
  const [starts, ends] = await Promise.all([
    readOffsets(admin, name, partitions, ListOffsetTimestamps.EARLIEST, isolation),
    readOffsets(admin, name, partitions, ListOffsetTimestamps.LATEST, isolation),
  ])
  return new Map(partitions.map(partition => [partition, { start: starts.get(partition)!, end: ends.get(partition)! }]))
}

async function readOffsets(
  admin: Admin,
  name: string,
  partitions: readonly number[],
  timestamp: bigint,
  isolationLevel: FetchIsolationLevelValue,
): Promise<Map<number, number>> {
  const asked = partitions.map(partitionIndex => ({ partitionIndex, timestamp }))
  try {
    const topics = await admin.listOffsets({ topics: [{ name, partitions: asked }], isolationLevel })
    const found = topics.flatMap(topic => topic.partitions.map(({ partitionIndex, offset }) => [partitionIndex, Number(offset)] as const))
    return new Map(found)
  } catch (error) {
    throw systemicFault(error, `the offsets of the topic ${name} cannot be read`) ?? away(name, error)
  }
}

/**
 * What a consumer group has committed: the offsets below which everything is done.
 *
 * @returns by partition; those without a commit are missing
 * @throws SystemicError, LogUnavailableError
 */
export async function readCommitted(
  admin: Admin,
  group: string,
  name: string,
  partitions: readonly number[],
): Promise<Map<number, number>> {
  try {
    const groups = await admin.listConsumerGroupOffsets({
      groups: [{ groupId: group, topics: [{ name, partitionIndexes: [...partitions] }] }],
    })
    const committed = new Map<number, number>()
    for (const { topics } of groups) {
      for (const topic of topics) {
        for (const { partitionIndex, committedOffset } of topic.partitions) {
          if (topic.name === name && committedOffset >= 0n) committed.set(partitionIndex, Number(committedOffset))
        }
      }
    }
    return committed
  } catch (error) {
    throw systemicFault(error, `the offsets of the group ${group} cannot be read`) ?? away(name, error)
  }
}
