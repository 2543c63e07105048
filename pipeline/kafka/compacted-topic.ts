// A compacted topic of one partition in Kafka, which instances share: all see its records in the same order, within milliseconds.

import { pause, unlessAborted } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import type { CompactedTopic, CompactedTopicUse } from '../compacted-topic.ts'
import { LogUnavailableError } from '../log.ts'
import { emptyMessage } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicReader } from '../topic-reader.ts'
import { kafkaConnection } from './connection.ts'
import { followTopics } from './follow.ts'
import { type KafkaLog, type KafkaLogSettings, openKafkaLog } from './log.ts'
import { openKafkaTopicReader } from './topic-reader.ts'
import { openTopics } from './topics.ts'

export interface CompactedTopicParts extends CompactedTopicUse {
  /** The options of the section `log`: the topic has the name of that of the messages, and then its own. */
  readonly log: KafkaLogSettings
  readonly outage: OutageReport
  readonly logger: Logger
}

const fetchBytes = 1024 * 1024
const patienceMs = 5_000
const retryMs = 500
/** A start reads all that is not compacted, and the last segment never is. */
const topicConfig = { 'cleanup.policy': 'compact', 'segment.bytes': String(16 * 1024 * 1024) }

/** Opens in the background, and creates the topic if it is missing. Until it was read, calls wait for it; while Kafka is away, they reject. */
export function openCompactedTopic(parts: CompactedTopicParts): CompactedTopic {
  const { what, outage, logger, onRecord, onLost, unavailable } = parts
  const settings = { ...parts.log, topic: `${parts.log.topic}.${parts.name}`, partitions: 1 }
  const { topic, appendTimeoutMs } = settings
  const closing = new AbortController()
  let log: KafkaLog | undefined
  let reader: TopicReader | undefined
  /** Of `reader`: what follows it ends with the reason. */
  let broken = new AbortController()
  /** Of the topic that was read. */
  let id = ''
  let next = 0
  /** The end up to which everything was read; -1 before the first time. */
  let readTo = -1
  let fault: Error | undefined
  /** Resolves when more was read, or that failed. */
  let progress = Promise.withResolvers<void>()
  let lastEnd = Promise.resolve(0)
  let nextEnd: Promise<number> | undefined

  /** Reads it, and what is appended. Returns if it is closed. @throws LogUnavailableError, SystemicError if it cannot go on */
  async function read(): Promise<void> {
    const connection = await kafkaConnection(settings)
    const make = { partitions: 1, replicationFactor: settings.replicationFactor, config: topicConfig, logger }
    const [found] = await openTopics(connection, [topic], make)
    if (found!.partitions !== 1) throw new SystemicError(`the topic ${topic} has ${found!.partitions} partitions, but needs 1: delete it`)
    log ??= await openKafkaLog(settings, logger, topicConfig)
    reader = await openKafkaTopicReader({ connection, topic, fetchBytes, patienceMs })
    broken = new AbortController()
    const { start, end } = (await reader.bounds()).get(0)!
    if (reader.id !== id || end < next) {
      readTo = -1
      onLost()
      id = reader.id
      next = start
    }
    if (next === end) advance()
    const options = { connection, topics: [reader], fetchBytes, patienceMs, logger }
    const over = AbortSignal.any([closing.signal, broken.signal])
    for await (const chunk of followTopics(options, new Map([[logPartition(0, 0), next]]), over)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        const { channel: key, offset, payload } = cursor.message
        if (!onRecord(key, offset, payload)) logger.warn({ topic, offset }, `a record is not one of the ${what}: skipping it`)
      }
      next = chunk.to
      if (next >= end) advance()
    }
    if (closing.signal.aborted) return
    broken.signal.throwIfAborted()
    throw new LogUnavailableError(`the topic ${topic} was recreated, or has lost its last records`)
  }

  function advance(): void {
    if (closing.signal.aborted) return
    readTo = next
    outage.recovered()
    wake(undefined)
  }

  function wake(found: Error | undefined): void {
    fault = found
    progress.resolve()
    progress = Promise.withResolvers()
  }

  async function follow(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await read()
      } catch (error) {
        if (closing.signal.aborted) break
        wake(unavailable(error))
        outage.failed(error, { waitMs: retryMs, meanwhile: `${what} wait for it` })
        await reader?.close().catch(() => undefined)
        await pause(retryMs, closing.signal)
      }
    }
    // What was opened in the meantime.
    await Promise.allSettled([reader?.close(), log?.close()])
  }

  async function readEnd(): Promise<number> {
    nextEnd = undefined
    const asked = broken
    try {
      return (await reader!.bounds()).get(0)!.end
    } catch (error) {
      asked.abort(error)
      throw error
    }
  }

  /** The end now. Calls while it is asked share the next answer, as this one may be from before them. */
  function endNow(): Promise<number> {
    nextEnd ??= lastEnd = lastEnd.then(readEnd, readEnd)
    return nextEnd
  }

  /** @throws unavailable */
  async function reached(end: () => number | Promise<number>): Promise<void> {
    const timeout = AbortSignal.timeout(appendTimeoutMs)
    async function passed(offset: number): Promise<void> {
      for (; !timeout.aborted; await progress.promise) {
        if (fault !== undefined) throw fault
        if (readTo >= offset) return
      }
    }
    try {
      await unlessAborted(
        passed(0).then(async () => passed(await end())),
        timeout,
      )
    } catch (error) {
      throw error === fault ? error : unavailable(error)
    }
  }

  void follow()

  return {
    isShared: true,
    appendMsMax: appendTimeoutMs,
    get isAway() {
      return fault !== undefined
    },
    hasRead: async offset => {
      if (readTo < offset) await reached(() => offset)
    },
    hasReadAll: () => reached(endNow),
    async append(key, payload) {
      try {
        const record = { ...emptyMessage(), key: Buffer.from(key) }
        const [position] = await log!.append([payload === undefined ? { ...record, isTombstone: true } : { ...record, payload }])
        return position!.offset
      } catch (error) {
        throw unavailable(error)
      }
    },
    async close() {
      closing.abort()
      wake(unavailable(new Error(`the ${what} are closed`)))
      outage.close()
      await Promise.allSettled([log?.close(), reader?.close()])
    },
  }
}
