// Sessions in a compacted topic of Kafka, which instances share. Each reads the topic whole at its start, and then follows its end.
//
// The topic has one partition, so every instance sees the same order (records.ts). Who takes a session waits until its claim was read back, and so knows
// all that earlier holders saved; they read the claim too, and are notified, within about a second.
//
// In memory is the newest record of each key: at most 256 KiB each, and 256 MiB of all, beyond which no session grows.

import { pause, unlessAborted } from '../../../config/aborting.ts'
import type { Logger } from '../../../config/logger.ts'
import type { OutageReport } from '../../../config/outage.ts'
import { kafkaConnection } from '../../kafka/connection.ts'
import { type KafkaLog, type KafkaLogSettings, openKafkaLog } from '../../kafka/log.ts'
import { openKafkaTopicReader } from '../../kafka/topic-reader.ts'
import { openTopics } from '../../kafka/topics.ts'
import { SystemicError } from '../../systemic-error.ts'
import type { TopicReader } from '../../topic-reader.ts'
import { openSessionRecords, recordName, type SessionRecord } from './records.ts'
import { type HeldSession, type KeptSession, type SessionKey, type SessionStore, SessionsUnavailableError } from './store.ts'

export interface KafkaSessionsParts {
  /** The options of the section `log`: the topic is that of the messages. */
  readonly log: KafkaLogSettings
  readonly outage: OutageReport
  readonly logger: Logger
  /** Milliseconds since 1970. */
  readonly clock?: () => number
  /** How often sessions are removed that expired as long ago. */
  readonly sweepMs?: number
}

/** A session that a connection of this process holds. */
interface Holding {
  readonly onTaken: () => void
  saveAgain(): void
}

interface Waiter {
  readonly offset: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

const recordBytesMax = 256 * 1024
const allBytesMax = 256 * 1024 * 1024
const fetchBytes = 1024 * 1024
const patienceMs = 5_000
const pollMs = 1_000
/** While a record was appended and not read: the end that a leader reports may be older. */
const pollMsAwaited = 200
const retryMs = 500
const sweptMax = 10_000
/** A start reads all that is not compacted, and the last segment never is. */
const topicConfig = { 'cleanup.policy': 'compact', 'segment.bytes': String(16 * 1024 * 1024) }

export function sessionsTopic(topic: string): string {
  return `${topic}.mqtt-sessions`
}

/** Opens in the background. Until the topic was read, calls wait for it; while the log is away, they reject. */
export function openKafkaSessions(parts: KafkaSessionsParts): SessionStore {
  const { outage, logger, clock = Date.now, sweepMs = 600_000 } = parts
  const settings = { ...parts.log, topic: sessionsTopic(parts.log.topic), partitions: 1 }
  const { topic, appendTimeoutMs } = settings
  const records = openSessionRecords(clock)
  const holdings = new Map<string, Holding>()
  const saving = new Set<Promise<void>>()
  const closing = new AbortController()
  let waking = new AbortController()
  let log: KafkaLog | undefined
  let reader: TopicReader | undefined
  /** Of the topic that was read. */
  let id = ''
  let next = 0
  /** The end up to which everything was read; -1 before the first time. */
  let readTo = -1
  /** Above the last record of this instance. */
  let appendedTo = 0
  let sweptMs = performance.now()
  let fault: SessionsUnavailableError | undefined
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
      // Another topic, or its last records were lost: offsets are given again, so those of claims mean nothing any more.
      records.clear()
      readTo = -1
      appendedTo = 0
      for (const [name, holding] of holdings) takeFrom(name, holding)
      id = from.id
      next = start
    }
    for await (const chunk of from.read(0, next, end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) apply(cursor.message.channel, cursor.message.offset, cursor.message.payload)
      next = chunk.to
    }
    next = Math.max(next, end)
    readTo = next
  }

  function apply(name: string, offset: number, payload: Uint8Array): void {
    const applied = records.apply(name, offset, payload)
    const holding = holdings.get(name)
    if (applied === 'unreadable') logger.warn({ topic, offset }, 'a record is not one of a session of MQTT: skipping it')
    else if (applied === 'claim' && holding !== undefined) takeFrom(name, holding)
    else if (applied === 'overwritten') holding?.saveAgain()
  }

  function takeFrom(name: string, holding: Holding): void {
    holdings.delete(name)
    holding.onTaken()
  }

  /** Right after reading, as another instance may have saved an expired session again. What cannot be removed now is removed by the next sweep. */
  function sweep(): void {
    sweptMs = performance.now()
    const tombstones = records
      .expired(clock() - sweepMs)
      .slice(0, sweptMax)
      .map(name => ({ ...noEnvelope, key: Buffer.from(name), isTombstone: true as const }))
    log!.append(tombstones).catch(() => undefined)
  }

  async function follow(): Promise<void> {
    while (!closing.signal.aborted) {
      waking = new AbortController()
      try {
        reader ??= await reach()
        await readNews(reader)
        if (closing.signal.aborted) break
        if (performance.now() - sweptMs >= sweepMs) sweep()
        fault = undefined
        outage.recovered()
        for (const { offset, resolve } of waiters) if (offset <= readTo) resolve()
        waiters = waiters.filter(({ offset }) => offset > readTo)
        await pause(waiters.length > 0 ? pollMsAwaited : pollMs, waking.signal)
      } catch (error) {
        if (closing.signal.aborted) break
        fail(error)
        outage.failed(error, { waitMs: retryMs, meanwhile: 'sessions of MQTT wait for it' })
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

  /** Resolves when everything below this offset was read, and what was there at the start. */
  async function hasRead(offset: number): Promise<void> {
    if (readTo >= offset) return
    if (fault !== undefined) throw fault
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waiters.push({ offset, resolve, reject })
    waking.abort()
    try {
      await unlessAborted(promise, AbortSignal.timeout(appendTimeoutMs))
    } catch (error) {
      throw unavailable(error)
    }
  }

  /** Resolves with its offset when it is durable. */
  async function append(key: SessionKey, record: SessionRecord): Promise<number> {
    const payload = Buffer.from(JSON.stringify(record))
    const more = payload.length - (records.get(key)?.bytes ?? 0)
    if (payload.length > recordBytesMax)
      throw new SessionsUnavailableError(
        `a session of MQTT has ${payload.length} bytes, and at most ${recordBytesMax} are kept: subscribe to fewer channels`,
      )
    if (more > 0 && records.bytes + more > allBytesMax)
      throw new SessionsUnavailableError(`the sessions of MQTT have ${allBytesMax} bytes, the most that is kept: let some of them expire`)
    try {
      const [position] = await log!.append([{ ...noEnvelope, key: Buffer.from(recordName(key)), payload }])
      appendedTo = Math.max(appendedTo, position!.offset + 1)
      return position!.offset
    } catch (error) {
      throw unavailable(error)
    }
  }

  async function take(key: SessionKey, onTaken: () => void): Promise<HeldSession> {
    if (fault !== undefined) throw fault
    await hasRead(0)
    const repeated = records.session(key)
    const holder = await append(key, { untilMs: records.get(key)?.untilMs ?? clock(), session: repeated })
    await hasRead(holder + 1)
    const kept = records.session(key)
    const name = recordName(key)
    let latest = kept
    let last = Promise.resolve()
    let queued: Promise<void> | undefined

    const holding: Holding = {
      onTaken,
      saveAgain() {
        if (latest !== null) save(latest).catch(() => undefined)
      },
    }
    const isHeld = (): boolean => holdings.get(name) === holding

    /** One record at a time: what is saved during an append is the next one, and only the latest of it. */
    function save(session: KeptSession | null): Promise<void> {
      if (!isHeld()) return Promise.resolve()
      latest = session
      if (queued !== undefined) return queued
      queued = last.then(saveLatest)
      const settled = queued.catch(() => undefined)
      last = settled
      saving.add(settled)
      void settled.then(() => saving.delete(settled))
      return queued
    }

    async function saveLatest(): Promise<void> {
      queued = undefined
      await append(key, { holder, untilMs: clock() + (latest?.expirySeconds ?? 0) * 1000, session: latest })
    }

    // Another may have taken it meanwhile.
    if ((records.get(key)?.holder ?? holder) === holder) holdings.set(name, holding)
    else setImmediate(onTaken)
    // The claim repeats less than was saved, and compaction keeps the claim.
    if (kept !== repeated) save(kept).catch(() => undefined)
    return {
      kept: kept ?? undefined,
      save,
      remove: () => save(null),
      release() {
        if (isHeld()) holdings.delete(name)
      },
    }
  }

  void follow()

  return {
    take,
    async discard(key) {
      // What another instance saved is known after about a second; what it holds and never saved is not looked for.
      await hasRead(appendedTo)
      if (records.session(key) === null && !holdings.has(recordName(key))) return
      const held = await take(key, () => undefined)
      await held.remove()
      held.release()
    },
    count: thing => records.count(thing),
    async close() {
      await Promise.all(saving)
      closing.abort()
      waking.abort()
      fail(new SessionsUnavailableError('the sessions of MQTT are closed'))
      outage.close()
      await Promise.allSettled([log?.close(), reader?.close()])
    },
  }
}

/** A record has a key of its own, and no envelope. */
const noEnvelope = {
  channel: '',
  subtopic: '',
  publisher: '',
  protocol: '',
  contentType: '',
  createdUs: 0,
  createdRestNs: 0,
  payload: Buffer.alloc(0),
}

function unavailable(error: unknown): SessionsUnavailableError {
  if (error instanceof SessionsUnavailableError) return error
  return new SessionsUnavailableError(`the sessions of MQTT cannot be read or saved: ${(error as Error).message}`, { cause: error })
}
