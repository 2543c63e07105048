// What a writer needs to start, as checks: its topics with those of their dead letters, its consumer group, its memory, and its store.

import { named } from '../../config/options/variable.ts'
import { kafkaConnection, openAdmin } from '../../pipeline/kafka/connection.ts'
import { consumerGroup, isPattern, wantedTopics } from '../../pipeline/kafka/topic-patterns.ts'
import { readCommitted, type Topic } from '../../pipeline/kafka/topics.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { deadLettersTopic } from '../../pipeline/writer/dead-letters.ts'
import type { LogIdentity } from '../../sinks/logs.ts'
import { UnpreparedStoreError } from '../../sinks/sink-error.ts'
import type { ServerCheck } from '../checks.ts'
import { lookAtTopics, topicsCheck } from '../kafka-check.ts'
import { databaseNames, type StoreKind } from '../stores/store.ts'
import { assertWriterMemory, writerMemoryBytesMax } from './memory.ts'
import type { WriterOptions } from './options.ts'

/** Of the log: for each start, before it opens the topics. @param onFound gets the topics that exist */
export function writerLogCheck(
  store: StoreKind['name'],
  options: WriterOptions,
  onFound?: (topics: readonly Topic[]) => void,
): ServerCheck {
  const { log } = options
  const needed = { settings: log, wanted: wantedTopics(log), use: 'read', mayCreate: log.create } as const
  return topicsCheck(needed, async topics => {
    const [first] = topics
    if (first === undefined) return ''
    onFound?.(topics)
    const deadLetters = topics.map(({ name }) => deadLettersTopic(name, log.group ?? store))
    await lookAtTopics({ settings: log, wanted: deadLetters, use: 'write', mayCreate: true }, () => undefined)
    await checkGroup(options, consumerGroup(store, first.name, log.group), first.name)
    const { count } = workersOf(options, topics)
    const idle = options.workers.count - count
    return `; ${count} workers${idle > 0 ? ` instead of ${options.workers.count} (workers.count): more partitions would use them` : ''}`
  })
}

/** @throws SystemicError if this user may not use the consumer group */
async function checkGroup({ log }: WriterOptions, group: string, topic: string): Promise<void> {
  const admin = await openAdmin(await kafkaConnection(log))
  try {
    await readCommitted(admin, group, topic, [0])
  } finally {
    await admin.close()
  }
}

/** Of the log and of the store, to which the log's check gives what it found. */
export async function writerChecks(kind: StoreKind, options: WriterOptions): Promise<ServerCheck[]> {
  const { log, transformer, store } = options
  const writer = log.group ?? kind.name
  const classify = await kind.classifier()
  let logs: LogIdentity[] = []
  const logCheck = writerLogCheck(kind.name, options, topics => {
    const { contentTypes } = transformer
    logs = topics.map(({ name, id }) => ({ logName: name, logId: id, writer, contentTypes, acceptNewLog: log.acceptNew }))
  })
  const storeCheck: ServerCheck = {
    name: 'store',
    subject: databaseNames[kind.name],
    options: named('store.url', `SVC_${kind.name.toUpperCase()}_URL`),
    isAway: error => !(error instanceof SystemicError) && classify(error) === 'transient',
    async run(warn) {
      try {
        return await kind.check(store, writer, logs, warn)
      } catch (error) {
        if (!(error instanceof UnpreparedStoreError)) throw error
        return `a start of this writer prepares it: ${error.message}`
      }
    },
  }
  return [logCheck, storeCheck]
}

/**
 * How many workers a writer starts, and how many bytes they hold at most; 0 works in the main thread.
 *
 * @throws SystemicError if that is above `workers.memory_bytes`: the number of leading brokers is not known from the options
 */
export function workersOf(options: WriterOptions, topics: readonly Topic[]): { readonly count: number; readonly memoryBytes: number } {
  const partitions = topics.reduce((sum, topic) => sum + topic.partitions, 0)
  // New topics bring more partitions.
  const hasPattern = wantedTopics(options.log).some(isPattern)
  const count = hasPattern ? options.workers.count : Math.min(options.workers.count, partitions)
  const sized = { ...options, workers: { ...options.workers, count } }
  // A partition without a leader counts as led by one more broker.
  const leaders = new Set(topics.flatMap(topic => topic.leaders).map(leader => `${leader?.host}:${leader?.port}`)).size
  try {
    assertWriterMemory(sized, leaders)
  } catch (error) {
    throw new SystemicError((error as Error).message, { cause: error })
  }
  return { count, memoryBytes: writerMemoryBytesMax(sized, leaders) }
}
