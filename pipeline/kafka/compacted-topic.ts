// A compacted topic of one partition that instances share: each reads it whole at its start and then follows its end, so all see its records in the same order.
// Compaction keeps the last record of each key.

import { pause, unlessAborted } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import { emptyMessage } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicReader } from '../topic-reader.ts'
import { kafkaConnection } from './connection.ts'
import { type KafkaLog, type KafkaLogSettings, openKafkaLog } from './log.ts'
import { openKafkaTopicReader } from './topic-reader.ts'
import { openTopics } from './topics.ts'

export interface CompactedTopicParts {
  /** With the name of this topic. */
  readonly settings: KafkaLogSettings
  /** What is in it, for messages: "sessions of MQTT". */
  readonly what: string
  readonly outage: OutageReport
  readonly logger: Logger
  /** @param payload empty for a tombstone */
  readonly onRecord: (key: string, offset: number, payload: Uint8Array) => void
  /** Another topic has the name, or its last records were lost: all that was read counts no more, and offsets are given again. */
  readonly onLost: () => void
  /** Each time that everything was read. */
  readonly onRead?: () => void
  /** The error of what cannot be done now: retry. */
  readonly unavailable: (cause: unknown) => Error
}

export interface CompactedTopic {
  /** Whether it cannot be read now. */
  readonly isAway: boolean
  /**
   * Resolves when everything below this offset was read, and what was there at the start.
   *
   * @throws unavailable
   */
  hasRead(offset: number): Promise<void>
  /** Resolves when everything was read that is there now. @throws unavailable */
  hasReadAll(): Promise<void>
  /**
   * @param payload undefined for a tombstone
   * @returns its offset, when it is durable
   * @throws unavailable
   */
  append(key: string, payload: Buffer | undefined): Promise<number>
  /** Later calls reject. Waits for what is being appended. */
  close(): Promise<void>
}

interface Waiter {
  readonly offset: number
  /** Reads of the topic are numbered; one that began before the call does not count. */
  readonly round: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

const fetchBytes = 1024 * 1024
const patienceMs = 5_000
const pollMs = 1_000
/** While a record was appended and not read: the end that a leader reports may be older. */
const pollMsAwaited = 200
const retryMs = 500
/** A start reads all that is not compacted, and the last segment never is. */
const topicConfig = { 'cleanup.policy': 'compact', 'segment.bytes': String(16 * 1024 * 1024) }

/** Opens in the background, and creates the topic if it is missing. Until it was read, calls wait for it; while Kafka is away, they reject. */
export function openCompactedTopic(parts: CompactedTopicParts): CompactedTopic {
  const { what, outage, logger, onRecord, onLost, onRead, unavailable } = parts
  const settings = { ...parts.settings, partitions: 1 }
  const { topic, appendTimeoutMs } = settings
  const closing = new AbortController()
  let waking = new AbortController()
  let log: KafkaLog | undefined
  let reader: TopicReader | undefined
  /** Of the topic that was read. */
  let id = ''
  let next = 0
  /** The end up to which everything was read; -1 before the first time. */
  let readTo = -1
  let round = 0
  let fault: Error | undefined
  let waiters: Waiter[] = []

  async function reach(): Promise<TopicReader> {
    const connection = await kafkaConnection(settings)
    const make = { partitions: 1, replicationFactor: settings.replicationFactor, config: topicConfig, logger }
    const [found] = await openTopics(connection, [topic], make)
    if (found!.partitions !== 1) throw new SystemicError(`the topic ${topic} has ${found!.partitions} partitions, but needs 1: delete it`)
    log ??= await openKafkaLog(settings, logger, topicConfig)
    return openKafkaTopicReader({ connection, topic, fetchBytes, patienceMs })
  }

  async function readNews(from: TopicReader): Promise<void> {
    const { start, end } = (await from.bounds()).get(0)!
    if (from.id !== id || end < next) {
      readTo = -1
      onLost()
      id = from.id
      next = start
    }
    for await (const chunk of from.read(0, next, end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) onRecord(cursor.message.channel, cursor.message.offset, cursor.message.payload)
      next = chunk.to
    }
    next = Math.max(next, end)
    readTo = next
  }

  async function follow(): Promise<void> {
    while (!closing.signal.aborted) {
      waking = new AbortController()
      round++
      try {
        reader ??= await reach()
        await readNews(reader)
        if (closing.signal.aborted) break
        onRead?.()
        fault = undefined
        outage.recovered()
        const hasCome = (waiter: Waiter): boolean => waiter.offset <= readTo && waiter.round <= round
        for (const waiter of waiters) if (hasCome(waiter)) waiter.resolve()
        waiters = waiters.filter(waiter => !hasCome(waiter))
        await pause(waiters.length > 0 ? pollMsAwaited : pollMs, waking.signal)
      } catch (error) {
        if (closing.signal.aborted) break
        fail(error)
        outage.failed(error, { waitMs: retryMs, meanwhile: `${what} wait for it` })
        await reader?.close().catch(() => undefined)
        reader = undefined
        await pause(retryMs, closing.signal)
      }
    }
    // What was opened in the meantime.
    await Promise.allSettled([reader?.close(), log?.close()])
  }

  function fail(error: unknown): void {
    fault = unavailable(error)
    for (const { reject } of waiters) reject(fault)
    waiters = []
  }

  async function reached(offset: number, fromRound: number): Promise<void> {
    if (fault !== undefined) throw fault
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waiters.push({ offset, round: fromRound, resolve, reject })
    waking.abort()
    try {
      await unlessAborted(promise, AbortSignal.timeout(appendTimeoutMs))
    } catch (error) {
      throw unavailable(error)
    }
  }

  void follow()

  return {
    get isAway() {
      return fault !== undefined
    },
    hasRead: async offset => {
      if (readTo < offset) await reached(offset, 0)
    },
    hasReadAll: () => reached(0, round + 1),
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
      waking.abort()
      fail(new Error(`the ${what} are closed`))
      outage.close()
      await Promise.allSettled([log?.close(), reader?.close()])
    },
  }
}
