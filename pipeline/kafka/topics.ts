// Describes and creates topics, and reads the offsets of topics and consumer groups.

import { setTimeout as wait } from 'node:timers/promises'
import { type Admin, type API, type Broker, type Connection, kGetApi, kGetBootstrapConnection, type metadataV12 } from '@platformatic/kafka'
import type { Logger } from '../../config/logger.ts'
import { named } from '../../config/options/variable.ts'
import { partitionsMax } from '../../transformers/log-partition.ts'
import { LogUnavailableError } from '../log.ts'
import { SystemicError } from '../systemic-error.ts'
import { type KafkaConnection, openAdmin } from './connection.ts'
import { brokerCodes, code, metadataIn, reasonOf, systemicFault } from './failure.ts'
import { isPattern, matchingTopics, topicsText } from './topic-patterns.ts'

export interface Topic {
  readonly name: string
  /** UUID assigned by the cluster; a recreated topic of the same name has another. */
  readonly id: string
  readonly partitions: number
  /** The leader of each partition by its number; undefined while it has none. */
  readonly leaders: readonly (Broker | undefined)[]
}

/** How to create a missing topic. */
export interface TopicToMake {
  readonly partitions: number
  /** 0: the brokers' default. */
  readonly replicationFactor: number
  /** Further configuration: `{ 'max.message.bytes': '2097152' }`. */
  readonly config?: Readonly<Record<string, string>>
  /** Gets a line for each topic that is created. */
  readonly logger: Logger
}

type MetadataResponse = metadataV12.MetadataResponse

/** What a process does with a topic. */
export type TopicUse = 'read' | 'write'

/** Bits of a topic's authorized operations (KIP-430), by Kafka's `AclOperation`. */
const operationBits = { read: 1 << 3, write: 1 << 4, describe: 1 << 8 } as const

const noId = '00000000-0000-0000-0000-000000000000'
/** Metadata contains topic ids since this version (KIP-516, Kafka 2.8). */
const versionWithIds = 10

/**
 * Asks one of the brokers, a different one at each attempt.
 *
 * @returns undefined if there is no such topic
 * @throws SystemicError for brokers without topic ids, a topic with more partitions than a position can represent, and missing rights
 * @throws LogUnavailableError while no broker answers
 */
export async function describeTopic(admin: Admin, name: string, attempt = 0): Promise<Topic | undefined> {
  return (await describeTopics(admin, [name], attempt))[0]
}

/** As `describeTopic`, for several topics in the order of their names. */
async function describeTopics(admin: Admin, names: readonly string[], attempt = 0, use?: TopicUse): Promise<(Topic | undefined)[]> {
  const metadata = await readMetadata(admin, names, attempt)
  return names.map(name => topicIn(metadata, name, use))
}

function topicIn({ brokers, topics }: MetadataResponse, name: string, use: TopicUse | undefined): Topic | undefined {
  const found = topics.find(topic => topic.name === name)
  if (found === undefined || found.errorCode === code.unknownTopic) return undefined
  if (found.errorCode === code.topicAuthorization) {
    throw new SystemicError(`no permission to see the topic ${name}: grant describe on it to the user`)
  }
  if (found.errorCode === code.invalidTopic) {
    throw new SystemicError(
      `${name} is not a valid topic name: correct ${named('log.topic')} and ${named('log.group')}, from which it is built`,
    )
  }
  if (found.errorCode !== code.none && found.errorCode !== code.leaderNotAvailable) {
    throw new LogUnavailableError(`the brokers answer error ${found.errorCode} for the topic ${name}: check their logs`)
  }
  if (found.topicId === noId) throw tooOld(`the topic ${name}`)
  if (use !== undefined) checkRight(name, found.topicAuthorizedOperations, use)
  const count = found.partitions.length
  checkPartitions(name, count)
  const leaders: (Broker | undefined)[] = Array.from({ length: count }, () => undefined)
  const byNode = new Map(brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }]))
  for (const { partitionIndex, leaderId } of found.partitions) leaders[partitionIndex] = byNode.get(leaderId)
  return { name, id: found.topicId, partitions: count, leaders }
}

/**
 * A user who sees a topic may describe it: an answer without that bit is of a broker that does not report rights.
 *
 * @throws SystemicError if this user may not use the topic so
 */
function checkRight(name: string, allowed: number, use: TopicUse): void {
  if ((allowed & operationBits.describe) === 0 || (allowed & operationBits[use]) !== 0) return
  throw new SystemicError(
    `no permission to ${use} the topic ${name}: grant it (kafka-acls.sh --add --allow-principal User:<user> --operation ${use} --topic ${name}), or set another user in ${named('log.sasl_username')}`,
  )
}

/** @throws SystemicError if there are more than a position can represent */
export function checkPartitions(name: string, count: number): void {
  if (count > partitionsMax) {
    throw new SystemicError(
      `the topic ${name} has ${count} partitions, but a stored position allows only ${partitionsMax}: use a topic with fewer`,
    )
  }
}

/** @param names null for all topics that this user may see */
async function readMetadata(admin: Admin, names: readonly string[] | null, attempt: number): Promise<MetadataResponse> {
  const what = names === null ? 'the topics' : topicsText(names)
  try {
    const connection = await new Promise<Connection>((resolve, reject) => {
      admin[kGetBootstrapConnection]((error, found) => (found === undefined ? reject(asError(error)) : resolve(found)), attempt)
    })
    type Request = [string[] | null, boolean, boolean]
    const metadata = await new Promise<API<Request, MetadataResponse>>((resolve, reject) => {
      admin[kGetApi]<Request, MetadataResponse>('Metadata', (error, found) =>
        found === undefined ? reject(asError(error)) : resolve(found),
      )
    })
    if (metadata.version < versionWithIds) throw tooOld(what)
    return await metadata.async(connection, names === null ? null : [...names], false, names !== null).catch(metadataIn)
  } catch (error) {
    throw systemicFault(error, `${what} cannot be described`) ?? away(what, error)
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}

function tooOld(what: string): SystemicError {
  return new SystemicError(
    `the brokers return no id for ${what}, so a recreated topic could not be detected: use Kafka 3.1 or newer, in KRaft mode`,
  )
}

/** @param what `the topic messages` */
function away(what: string, cause: unknown): LogUnavailableError {
  return new LogUnavailableError(`${what} cannot be reached (${reasonOf(cause)}): check the brokers`, { cause })
}

/** How long it may take until all brokers know a new topic. */
const settleMsMax = 30_000
const settleWaitMs = 50

/** How long a topic may be unknown to brokers after it was created. */
const missingMsMax = 2_000

/**
 * The topics with these names, or that match these patterns, sorted by name. Several processes may create a missing one at once. Partitions of an
 * existing topic may have no leader: readers start with the others.
 *
 * @param wanted names, and patterns that begin with `^`
 * @param make how to create missing topics; undefined if they must exist
 * @param use what this user must be allowed to do
 * @throws SystemicError if one cannot be used or created, or is missing and `make` is not set
 * @throws LogUnavailableError while no broker answers, and while no topic matches
 */
export async function openTopics(
  connection: KafkaConnection,
  wanted: readonly string[],
  make: TopicToMake | undefined,
  use?: TopicUse,
): Promise<readonly Topic[]> {
  const admin = await openAdmin(connection)
  try {
    const names = await namesOf(admin, wanted)
    const deadlineMs = performance.now() + (make === undefined ? missingMsMax : settleMsMax)
    for (let attempt = 0; ; attempt++) {
      const found = await describeTopics(admin, names, attempt, use)
      const missing = names.filter((_, at) => found[at] === undefined || found[at].partitions === 0)
      if (missing.length === 0) return found as Topic[]
      if (performance.now() > deadlineMs) throw stillMissing(missing[0]!, make, connection)
      const absent = missing.filter(name => found[names.indexOf(name)] === undefined)
      if (make !== undefined && absent.length > 0) await makeTopics(admin, absent, make, deadlineMs)
      await wait(settleWaitMs)
    }
  } finally {
    await admin.close()
  }
}

/**
 * Those of the topics that exist. Throws as `openTopics`, but not for missing ones; creates nothing.
 */
export async function existingTopics(connection: KafkaConnection, wanted: readonly string[], use: TopicUse): Promise<readonly Topic[]> {
  const admin = await openAdmin(connection)
  try {
    const found = await describeTopics(admin, await namesOf(admin, wanted), 0, use)
    return found.filter(topic => topic !== undefined && topic.partitions > 0) as Topic[]
  } finally {
    await admin.close()
  }
}

/** The wanted names, and those of the topics that match the patterns. Throws as `openTopics`, but does not look for named topics. */
export async function topicNames(connection: KafkaConnection, wanted: readonly string[]): Promise<string[]> {
  if (!wanted.some(isPattern)) return matchingTopics(wanted, [])
  const admin = await openAdmin(connection)
  try {
    return await namesOf(admin, wanted)
  } finally {
    await admin.close()
  }
}

async function namesOf(admin: Admin, wanted: readonly string[]): Promise<string[]> {
  const all = wanted.some(isPattern) ? (await readMetadata(admin, null, 0)).topics : []
  const names = matchingTopics(
    wanted,
    all.flatMap(({ name }) => name ?? []),
  )
  if (names.length === 0) throw new LogUnavailableError(`no topic matches ${wanted.join(', ')} yet`)
  return names
}

function stillMissing(name: string, make: TopicToMake | undefined, { brokers }: KafkaConnection): Error {
  if (make !== undefined) return new LogUnavailableError(`the topic ${name} has no partitions yet: check the brokers`)
  return new SystemicError(
    `the topic ${name} does not exist: create it (kafka-topics.sh --bootstrap-server ${brokers[0]} --create --topic ${name} --partitions 12), set ${named('log.create')} to true, or correct ${named('log.topic')}`,
  )
}

/**
 * The topic with a leader for each partition; it is created if it is missing and `make` is set.
 *
 * @param use what this user must be allowed to do
 * @throws SystemicError if it is missing and `make` is not set or creating it is not allowed, and as `describeTopic`
 * @throws LogUnavailableError while no broker answers
 */
export async function reachTopic(admin: Admin, name: string, make: TopicToMake | undefined, use?: TopicUse): Promise<Topic> {
  const deadlineMs = performance.now() + settleMsMax
  for (let attempt = 0; ; attempt++) {
    const [topic] = await describeTopics(admin, [name], attempt, use)
    if (topic !== undefined && topic.partitions > 0 && !topic.leaders.includes(undefined)) return topic
    if (topic === undefined) {
      if (make === undefined) throw new SystemicError(`the topic ${name} does not exist: create it, or correct ${named('log.topic')}`)
      await makeTopics(admin, [name], make, deadlineMs)
    }
    if (performance.now() > deadlineMs) {
      throw new LogUnavailableError(`the topic ${name} has partitions without a leader: check the brokers`)
    }
    await wait(settleWaitMs)
  }
}

/** Creates those that do not exist: another process may do the same. Until `deadlineMs`, a topic may stay missing: try again. */
async function makeTopics(admin: Admin, names: readonly string[], make: TopicToMake, deadlineMs: number): Promise<void> {
  const { partitions, replicationFactor, config = {}, logger } = make
  const replicas = replicationFactor === 0 ? -1 : replicationFactor
  const configs = Object.entries(config).map(([key, value]) => ({ name: key, value }))
  for (const name of names) {
    try {
      await admin.createTopics({ topics: [name], partitions, replicas, configs })
      logger.info({ topic: name, partitions }, 'created a topic')
    } catch (error) {
      const codes = brokerCodes(error)
      if (codes.includes(code.topicExists)) continue
      // Also the answer while no broker is registered, for example after a restart or a pause.
      if (codes.includes(code.invalidReplicationFactor) && performance.now() < deadlineMs) {
        const { brokers } = await readMetadata(admin, [], 0)
        if (brokers.length === 0 || replicationFactor <= brokers.length) continue
      }
      throw systemicFault(error, `the topic ${name} does not exist and cannot be created`) ?? away(`the topic ${name}`, error)
    }
  }
}

/** The first existing offset, and the offset of the next message. */
export interface Bounds {
  readonly start: number
  readonly end: number
}

/**
 * The committed offsets of a consumer group, below which everything is processed.
 *
 * @returns by partition; without those that have no commit
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
    throw systemicFault(error, `the offsets of the group ${group} cannot be read`) ?? away(`the topic ${name}`, error)
  }
}

/**
 * Commits offsets for a consumer group without members.
 *
 * @param offsets by partition
 * @throws SystemicError, LogUnavailableError
 */
export async function commitOffsets(admin: Admin, group: string, name: string, offsets: ReadonlyMap<number, number>): Promise<void> {
  const partitionOffsets = Array.from(offsets, ([partition, offset]) => ({ partition, offset: BigInt(offset) }))
  try {
    await admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name, partitionOffsets }] })
  } catch (error) {
    throw systemicFault(error, `the offsets of the group ${group} cannot be committed`) ?? away(`the topic ${name}`, error)
  }
}
