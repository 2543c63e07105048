// The target of the tools: the topics and the store of one writer, opened with the writer's own options, or a running `./sluice up` over HTTP.

import { type TObject, Type } from 'typebox'
import { ToolError } from '../../../bin/streams.ts'
import { type Logger, openLogger } from '../../../config/logger.ts'
import { loadOptions, OptionsError } from '../../../config/options/options.ts'
import { type CommittedOf, type GroupOffsets, positionsOf as ledgerPositions, unknownPosition } from '../../../pipeline/audit/verify.ts'
import { deadLetterHeadersMax } from '../../../pipeline/dead-letters/headers.ts'
import { type DeadLetterQueue, openDeadLetterQueue } from '../../../pipeline/dead-letters/queue.ts'
import { type Replay, replay } from '../../../pipeline/dead-letters/replay.ts'
import { queueOfSeveral, replayOfSeveral } from '../../../pipeline/dead-letters/several.ts'
import { deadLettersTopicConfig } from '../../../pipeline/dead-letters/topic-config.ts'
import type { ErasedTopic } from '../../../pipeline/erase/erase.ts'
import { type KafkaConnection, kafkaConnection, openAdmin } from '../../../pipeline/kafka/connection.ts'
import { systemicFault } from '../../../pipeline/kafka/failure.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { deadLettersReader, messagesReader } from '../../../pipeline/kafka/messages.ts'
import { kafkaFaults } from '../../../pipeline/kafka/options.ts'
import { topicRetention } from '../../../pipeline/kafka/retention.ts'
import { consumerGroup, wantedTopics } from '../../../pipeline/kafka/topic-patterns.ts'
import { openKafkaTopicReader } from '../../../pipeline/kafka/topic-reader.ts'
import { commitOffsets, describeTopic, readCommitted, topicNames } from '../../../pipeline/kafka/topics.ts'
import type { Log, PartitionOffsets } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import type { TopicReader } from '../../../pipeline/topic-reader.ts'
import { deadLettersTopic } from '../../../pipeline/writer/dead-letters.ts'
import { type Decoder, openDecoder } from '../../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../../pipeline/writer/subject-filter.ts'
import type { AuditedLog, StoreAudit } from '../../../sinks/audit.ts'
import type { StoreErasure } from '../../../sinks/erasure.ts'
import { logToFree, type RegisteredLog } from '../../../sinks/logs.ts'
import { flattening } from '../../../transformers/flattening.ts'
import { configuredTransformer } from '../../../transformers/select.ts'
import { storeKind } from '../../stores/index.ts'
import { storeOptions } from '../../stores/options.ts'
import { configPathVariable, type StoreKind, type StoreName } from '../../stores/store.ts'
import { type WriterOptions, writerOptionsOf } from '../../writer/options.ts'
import { storeFailure } from '../failure.ts'
import { orUp, type Sources, type TargetFlags } from './flags.ts'

export interface Target {
  /** The names of the topics of messages. */
  topics(): Promise<readonly string[]>
  openTopic(name: string): Promise<TopicReader>
  /**
   * Opens the dead-letter topic of a topic and the writer that owns the store; undefined if there is no such topic.
   *
   * @throws ToolError if another writer was named on the command line
   */
  openDeadLettersTopic(topic: string, owner: string): Promise<TopicReader | undefined>
  /** Those of all topics. @throws ToolError if there is no dead-letter topic */
  openDeadLetters(): Promise<DeadLetterQueue>
  /** Of all topics. @throws ToolError if there is no dead-letter topic, or no store is given */
  openReplay(): Promise<Replay>
  /** @throws ToolError if no store is given */
  openAudit(): Promise<StoreAudit>
  /** @throws ToolError if no store is given */
  openErasure(): Promise<StoreErasure>
  /** The topic of any log of the store, and that of its dead letters; undefined if it is not there, or another one. */
  openErasedTopic(log: Pick<AuditedLog, 'name' | 'id' | 'writer'>): Promise<ErasedTopic | undefined>
  decoder(): Decoder
  /** The writer's name, by the command line or its options. */
  readonly writer: string
  /** Frees the number of a log in the store. @throws SinkError that says why it cannot be freed */
  freeLog(number: number): Promise<void>
  /** For a store that stores no positions. */
  readonly committed?: CommittedOf
  readonly kind: StoreKind
  readonly options: WriterOptions
  /** @throws SystemicError while a process of the log's writer is in its consumer group */
  checkStopped(log: RegisteredLog): Promise<void>
  /**
   * By partition, where the writer of a log goes on; undefined for a log that is not written any more.
   *
   * @throws SystemicError if that is unknown
   */
  positionsOf(log: AuditedLog): Promise<PartitionOffsets | undefined>
  /** Lets the writer of a log go on there. It must be stopped. */
  commit(log: RegisteredLog, offsets: PartitionOffsets): Promise<void>
  /** Closes everything that was opened. */
  close(): Promise<void>
}

function sayStoreFailure(error: unknown): never {
  throw storeFailure(error)
}

/** The audit with readable errors. */
function withReadableErrors(audit: StoreAudit): StoreAudit {
  const say = sayStoreFailure
  return {
    logs: () => audit.logs().catch(say),
    erasures: () => audit.erasures().catch(say),
    hasRows: log => audit.hasRows(log).catch(say),
    rowsOf: (log, partition, offset, where) => audit.rowsOf(log, partition, offset, where).catch(say),
    ...(audit.statementOf === undefined ? {} : { statementOf: (...of) => audit.statementOf?.(...of) }),
    rows: (...of) => audit.rows(...of).catch(say),
    replayed: (...of) => audit.replayed(...of).catch(say),
    async *messages(...of) {
      try {
        yield* audit.messages(...of)
      } catch (error) {
        say(error)
      }
    },
  }
}

/**
 * The options of the writer of a store, from its file and the environment; the store itself may be missing.
 *
 * @param storeUrl instead of the address in the options
 * @throws OptionsError with every fault
 */
export async function loadTargetOptions(
  store: StoreName,
  file: string | undefined,
  sources: Sources,
  storeUrl?: string,
): Promise<WriterOptions> {
  const known = await storeOptions(store)
  const { properties } = writerOptionsOf(known)
  const targetOptions: TObject = Type.Object({ ...properties, store: Type.Optional(properties['store']!) })
  const overrides = storeUrl === undefined ? {} : { store: { url: storeUrl } }
  const options = loadOptions(
    targetOptions,
    await sources(targetOptions, file, overrides, configPathVariable('writer', store)),
  ) as WriterOptions
  const faults = [...kafkaFaults(options.log, options.env), ...(options.store === undefined ? [] : known.faults(options.store))]
  if (faults.length > 0) throw new OptionsError(faults)
  return options
}

/**
 * @throws OptionsError with every fault
 * @throws SecretError for an unusable certificate
 */
export async function openTarget(store: StoreName, flags: TargetFlags, sources: Sources): Promise<Target> {
  const kind = await storeKind(store)
  const options = await loadTargetOptions(store, flags.config, sources, flags.storeUrl)
  const { skipBatch } = options.log
  const { fetchBytes } = options.consumer
  const logger: Logger = openLogger({ ...options.logging, level: 'error' })
  const connection: KafkaConnection = await kafkaConnection(options.log)
  const cleanup: (() => Promise<void>)[] = []
  const kept = <Part extends { close(): Promise<void> }>(part: Part): Part => {
    cleanup.push(() => part.close())
    return part
  }

  const openReader = async (name: string, headersMax?: number): Promise<TopicReader> =>
    kept(
      await openKafkaTopicReader({ connection, topic: name, fetchBytes, skipBatch, ...(headersMax === undefined ? {} : { headersMax }) }),
    )
  const openLog = async (name: string, config: Record<string, string>): Promise<Log> =>
    kept(await openKafkaLog({ ...options.log, topic: name, partitions: 1 }, logger, config))

  /** A consumer group that a process of the log's writer is in. Whether its name was given or is the default, a running writer is in one of them. */
  async function busyGroup({ name, writer }: RegisteredLog): Promise<string | undefined> {
    for (const group of [writer, consumerGroup(store, name, undefined)]) if (!(await isWithoutMembers(group))) return group
    return undefined
  }

  /** Undefined if there is no such topic. */
  async function describedTopic(name: string) {
    const admin = await openAdmin(connection)
    try {
      return await describeTopic(admin, name)
    } finally {
      await admin.close()
    }
  }

  /** Whether no process of the writer is in its consumer group. */
  async function isWithoutMembers(group: string): Promise<boolean> {
    const admin = await openAdmin(connection)
    try {
      const groups = await admin.describeGroups({ groups: [group] })
      return (groups.get(group)?.members.size ?? 0) === 0
    } catch (error) {
      throw systemicFault(error, `the consumer group ${group} cannot be described`) ?? error
    } finally {
      await admin.close()
    }
  }

  /** @param name of the topic of dead letters */
  async function openDeadLettersIfThere(name: string): Promise<TopicReader | undefined> {
    return (await describedTopic(name)) === undefined ? undefined : openReader(name, deadLetterHeadersMax)
  }

  /** With the tool's options the writer's own. */
  function groupOf(writer: string, topic: string): string {
    return writer === options.log.group || writer !== store ? writer : consumerGroup(store, topic, undefined)
  }

  async function committedOf(writer: string, { name, partitions }: Pick<TopicReader, 'name' | 'partitions'>): Promise<GroupOffsets> {
    const group = groupOf(writer, name)
    const admin = await openAdmin(connection)
    try {
      return { group, offsets: await readCommitted(admin, group, name, [...Array(partitions).keys()]) }
    } finally {
      await admin.close()
    }
  }

  const writer = flags.writer ?? options.log.group ?? store

  const topics = (): Promise<readonly string[]> => topicNames(connection, wantedTopics(options.log))

  /** The dead-letter topics that exist, with their topics of messages. */
  async function deadLettersParts(): Promise<{ topic: string; reader: TopicReader; log: Log }[]> {
    const parts: { topic: string; reader: TopicReader; log: Log }[] = []
    const names = (await topics()).map(topic => ({ topic, name: deadLettersTopic(topic, writer) }))
    for (const { topic, name } of names) {
      const reader = await openDeadLettersIfThere(name)
      if (reader !== undefined)
        parts.push({ topic, reader, log: await openLog(name, deadLettersTopicConfig(options.message.payloadBytes)) })
    }
    if (parts.length === 0) {
      throw new ToolError(
        `the topic ${names[0]!.name} does not exist: no writer of this name has run; set another with --writer, its store with --store, or check SVC_LOG_TOPIC`,
      )
    }
    return parts
  }

  function checkStoreGiven(): void {
    if (options.store !== undefined) return
    throw new ToolError(
      `the address of the ${store} store is missing: set SVC_${store.toUpperCase()}_URL, give the writer's file with --config, choose another kind of store, ${orUp}`,
    )
  }

  function decoder(): Decoder {
    const transformer = configuredTransformer(options)
    return openDecoder({
      transformer: kind.takesFlat ? flattening(transformer) : transformer,
      subscribed: subjectFilter(options.subscriber.subjects),
      message: options.message,
    })
  }

  /** Checks the writer's name against the store's owner: with the letters of another writer, missing rows could look dead-lettered. */
  function checkOwner(owner: string): void {
    if (flags.writer === undefined || flags.writer === owner) return
    throw new ToolError(`the store belongs to writer ${owner}: use --writer ${owner}, or omit it`)
  }

  return {
    topics,
    openTopic: async name => messagesReader(await openReader(name), options, logger),

    async openDeadLettersTopic(topic, owner) {
      checkOwner(owner)
      return openDeadLettersIfThere(deadLettersTopic(topic, owner))
    },

    async openDeadLetters() {
      const parts = await deadLettersParts()
      return queueOfSeveral(
        parts.map(({ topic, reader, log }) =>
          openDeadLetterQueue({ reader: deadLettersReader(reader, topic, options, logger, 'listed'), log }),
        ),
      )
    },

    async openReplay() {
      checkStoreGiven()
      const parts = await deadLettersParts()
      const { audit, openSink } = kept(await kind.openReplays(options.store, writer))
      return replayOfSeveral(
        parts.map(
          ({ topic, reader, log }): Replay =>
            (filter, replayOptions) =>
              replay(
                {
                  reader: deadLettersReader(reader, topic, options, logger, 'replayed'),
                  log,
                  decoder: decoder(),
                  audit: withReadableErrors(audit),
                  sinkOf: number => openSink(number).catch(sayStoreFailure),
                  topic,
                  writer,
                },
                filter,
                replayOptions,
              ),
        ),
      )
    },

    async openAudit() {
      checkStoreGiven()
      return withReadableErrors(kept(await kind.openAudit(options.store)))
    },

    async openErasure() {
      checkStoreGiven()
      const erasure = kept(await kind.openErasure(options.store))
      return {
        count: (...given) => erasure.count(...given).catch(sayStoreFailure),
        erase: (...given) => erasure.erase(...given).catch(sayStoreFailure),
        note: given => erasure.note(given).catch(sayStoreFailure),
        close: () => erasure.close(),
      }
    },

    async openErasedTopic({ name, id, writer: owner }) {
      if ((await describedTopic(name))?.id !== id) return undefined
      const deadLettersName = deadLettersTopic(name, owner)
      const deadLetters = await openDeadLettersIfThere(deadLettersName)
      return {
        topic: await openReader(name),
        retention: await topicRetention(connection, name),
        deadLetters: deadLetters && {
          reader: deadLettersReader(deadLetters, name, options, logger, 'replayed'),
          log: await openLog(deadLettersName, deadLettersTopicConfig(options.message.payloadBytes)),
          retention: await topicRetention(connection, deadLettersName),
        },
      }
    },

    async freeLog(number) {
      checkStoreGiven()
      const audit = withReadableErrors(kept(await kind.openAudit(options.store)))
      const logs = await audit.logs()
      const known = logs.find(log => log.number === number)
      const isIdle = known !== undefined && (await busyGroup(known)) === undefined
      logToFree(logs, number, isIdle)
      await kind.freeLog(options.store, number, isIdle).catch(sayStoreFailure)
    },

    decoder,
    writer,

    ...(kind.keepsPositions ? {} : { committed: committedOf }),
    kind,
    options,

    async checkStopped(log) {
      const group = await busyGroup(log)
      if (group === undefined) return
      throw new SystemicError(
        `the writer "${log.writer}" is running (the consumer group ${group} has members): stop all its processes first`,
      )
    },

    async positionsOf(log) {
      if (kind.keepsPositions) return ledgerPositions(log)
      const topic = await describedTopic(log.name)
      if (topic === undefined || topic.id !== log.id) return undefined
      const { group, offsets } = await committedOf(log.writer, topic)
      if (offsets.size === 0) throw unknownPosition(group, log.writer, log.name)
      return offsets
    },

    async commit({ name, writer }, offsets) {
      const admin = await openAdmin(connection)
      try {
        await commitOffsets(admin, groupOf(writer, name), name, offsets)
      } finally {
        await admin.close()
      }
    },

    async close() {
      for (const closing of cleanup.toReversed()) await closing()
    },
  }
}
