// What the tools work on: the topics and the store of one writer, by the writer's own options; or a running `sluice up`, over HTTP.

import { type Command, Option } from 'commander'
import { type TObject, Type } from 'typebox'
import { ToolError } from '../../bin/streams.ts'
import { type Logger, openLogger } from '../../config/logger.ts'
import { loadOptions, type OptionSources, OptionsError } from '../../config/options.ts'
import type { CommittedOf } from '../../pipeline/audit/verify.ts'
import { type Decoder, openDecoder } from '../../pipeline/decode.ts'
import { messagesReader } from '../../pipeline/kafka/confluent/index.ts'
import { type KafkaConnection, kafkaConnection, openAdmin } from '../../pipeline/kafka/connection.ts'
import { openKafkaLog } from '../../pipeline/kafka/log.ts'
import { kafkaFaults } from '../../pipeline/kafka/options.ts'
import { openKafkaTopicReader } from '../../pipeline/kafka/topic-reader.ts'
import { describeTopic, readCommitted } from '../../pipeline/kafka/topics.ts'
import { type Letters, openLetters } from '../../pipeline/letters/letters.ts'
import { lettersTopicConfig, replaysTopicConfig } from '../../pipeline/letters/topic-config.ts'
import type { Log } from '../../pipeline/log.ts'
import { deadLettersTopic, replaysTopic } from '../../pipeline/replays.ts'
import { subjectFilter } from '../../pipeline/subject-filter.ts'
import type { TopicReader } from '../../pipeline/topic-reader.ts'
import type { StoreAudit } from '../../sinks/audit.ts'
import type { Positions } from '../../sinks/sink.ts'
import { flattening } from '../../transformers/flattening.ts'
import { openTransformer } from '../../transformers/select.ts'
import { storeKind } from '../stores/index.ts'
import { configPathVariable, type StoreName, storeNamesText, storeOf } from '../stores/store.ts'
import { type WriterOptions, writerOptionsOf } from '../writer-options.ts'
import { storeFailure } from './failure.ts'

/** Reads the environment and a file, with the variables of all roles known. */
export type Sources = (file: string | undefined, overrides: OptionSources['overrides'], fileVariable: string) => Promise<OptionSources>

export interface SiteFlags {
  readonly config?: string
  readonly writer?: string
  readonly url?: string
  readonly token?: string
}

export interface Site {
  /** Of the messages. */
  openTopic(): Promise<TopicReader>
  /**
   * Of the dead letters of the writer that the store belongs to; undefined where there is no such topic.
   *
   * @throws ToolError where another writer was asked for
   */
  openLettersTopic(owner: string): Promise<TopicReader | undefined>
  /** Of its replays, likewise. */
  openReplaysTopic(owner: string): Promise<TopicReader | undefined>
  /** @throws ToolError where there is no topic of dead letters */
  openLetters(): Promise<Letters>
  /** @throws ToolError where no store is given */
  openAudit(): Promise<StoreAudit>
  decoder(): Decoder
  /** For a store that keeps no positions. */
  readonly committed?: CommittedOf
  /** Closes whatever was opened. */
  close(): Promise<void>
}

/** The options that every tool has. */
export function addSiteOptions(command: Command): Command {
  return command
    .option('--writer <name>', "the writer's name (dlq: log.group, or that of the store; else the one that the store belongs to)")
    .option('--config <file>', "the writer's TOML file (default: what SVC_<STORE>_WRITER_CONFIG_PATH names)")
    .option('--url <url>', 'a running `sluice up` in place of Kafka and a store: http://127.0.0.1:8080')
    .addOption(new Option('--token <token>', 'of an administrator, for --url').env('SVC_TOKEN'))
}

/** The audit with errors that a person can read. */
function told(audit: StoreAudit): StoreAudit {
  const say = (error: unknown): never => {
    throw storeFailure(error)
  }
  return {
    logs: () => audit.logs().catch(say),
    rowsOf: (log, partition, offset, where) => audit.rowsOf(log, partition, offset, where).catch(say),
    async *messages(log, partition, from, to, after) {
      try {
        yield* audit.messages(log, partition, from, to, after)
      } catch (error) {
        say(error)
      }
    },
  }
}

/** @throws ToolError for a name that is none */
export function storeNamed(name: string): StoreName {
  const store = storeOf(name)
  if (store === undefined) throw new ToolError(`there is no store ${JSON.stringify(name)}: the stores are ${storeNamesText}`)
  return store
}

/**
 * @throws OptionsError with every fault
 * @throws SecretError for a certificate that cannot be used
 */
export async function openSite(store: StoreName, flags: SiteFlags, sources: Sources): Promise<Site> {
  const kind = await storeKind(store)
  const { properties } = writerOptionsOf(kind)
  // A tool that asks no store needs none.
  const siteOptions: TObject = Type.Object({ ...properties, store: Type.Optional(properties['store']!) })
  const options = loadOptions(siteOptions, await sources(flags.config, {}, configPathVariable('writer', store))) as WriterOptions
  const faults = [...kafkaFaults(options.log, options.env), ...(options.store === undefined ? [] : kind.faults(options.store))]
  if (faults.length > 0) throw new OptionsError(faults)
  const { topic } = options.log
  const { fetchBytes } = options.consumer
  const logger: Logger = openLogger({ ...options.logging, level: 'error' })
  const connection: KafkaConnection = await kafkaConnection(options.log)
  const closings: (() => Promise<void>)[] = []
  const kept = <Part extends { close(): Promise<void> }>(part: Part): Part => {
    closings.push(() => part.close())
    return part
  }

  const openReader = async (name: string): Promise<TopicReader> => kept(await openKafkaTopicReader({ connection, topic: name, fetchBytes }))
  const openLog = async (name: string, config: Record<string, string>): Promise<Log> =>
    kept(await openKafkaLog({ ...options.log, topic: name, partitions: 1 }, logger, config))

  async function openIfThere(name: string): Promise<TopicReader | undefined> {
    const admin = await openAdmin(connection)
    try {
      if ((await describeTopic(admin, name)) === undefined) return undefined
    } finally {
      await admin.close()
    }
    return openReader(name)
  }

  async function committedOf(group: string, { name, partitions }: Pick<TopicReader, 'name' | 'partitions'>): Promise<Positions> {
    const admin = await openAdmin(connection)
    try {
      return await readCommitted(admin, group, name, [...Array(partitions).keys()])
    } finally {
      await admin.close()
    }
  }

  /** The name of a writer is an option, and the store knows whose it is: with the letters of another, what it lacks could seem right. */
  function checkOwner(owner: string): void {
    if (flags.writer === undefined || flags.writer === owner) return
    throw new ToolError(`the store belongs to writer ${owner}: give --writer ${owner}, or leave it out`)
  }

  return {
    openTopic: async () => messagesReader(await openReader(topic), options.log, logger),

    async openLettersTopic(owner) {
      checkOwner(owner)
      return openIfThere(deadLettersTopic(topic, owner))
    },

    async openReplaysTopic(owner) {
      checkOwner(owner)
      return openIfThere(replaysTopic(topic, owner))
    },

    async openLetters() {
      const writer = flags.writer ?? options.log.group ?? store
      const reader = await openIfThere(deadLettersTopic(topic, writer))
      if (reader === undefined) {
        throw new ToolError(
          `there is no topic ${deadLettersTopic(topic, writer)}: no writer of this name has run on it; name another with --writer, its store with --store, or look at SVC_LOG_TOPIC`,
        )
      }
      const { payloadBytes } = options.message
      const log = await openLog(reader.name, lettersTopicConfig(payloadBytes))
      let replays: Promise<Log> | undefined
      return openLetters({
        reader,
        log,
        replays: () => (replays ??= openLog(replaysTopic(topic, writer), replaysTopicConfig(payloadBytes))),
      })
    },

    async openAudit() {
      if (options.store === undefined) {
        throw new ToolError(
          `where the ${store} store is was not said: set SVC_${store.toUpperCase()}_URL, name the writer's file with --config, or name another kind of store`,
        )
      }
      return told(kept(await kind.openAudit(options.store)))
    },

    decoder() {
      const { message, transformer } = options
      const decoding = openTransformer(
        transformer,
        { timeMinUs: message.earliestSeconds * 1e6, timeAheadMaxUs: message.aheadDays * 86_400e6 },
        { payloadBytesMax: message.payloadBytes },
      )
      return openDecoder({
        transformer: kind.takesFlat ? flattening(decoding) : decoding,
        subscribed: subjectFilter(options.subscriber.subjects),
        message,
      })
    },

    ...(kind.keepsPositions ? {} : { committed: committedOf }),

    async close() {
      for (const closing of closings.toReversed()) await closing()
    },
  }
}
