// Sessions in a compacted topic of Kafka, which instances share (pipeline/kafka/compacted-topic.ts, records.ts).
//
// Who takes a session waits until its claim was read back, and so knows all that earlier holders saved; they read the claim too, and are notified, within
// milliseconds.
//
// In memory is the newest record of each key: 256 KiB of a thing and 256 MiB of all, beyond which no session grows.

import { type CompactedTopicParts, openCompactedTopic } from '../../kafka/compacted-topic.ts'
import type { KafkaLogSettings } from '../../kafka/log.ts'
import { openSessionRecords, recordName, type SessionRecord } from './records.ts'
import {
  type HeldSession,
  type KeptSession,
  type SessionKey,
  type SessionStore,
  SessionsUnavailableError,
  thingBytesMax,
  tooLarge,
} from './store.ts'

export interface KafkaSessionsParts extends Pick<CompactedTopicParts, 'outage' | 'logger'> {
  /** The options of the section `log`: the topic is that of the messages. */
  readonly log: KafkaLogSettings
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

const allBytesMax = 256 * 1024 * 1024
const sweptAtOnce = 10_000
/** An earlier holder hears of a claim sooner; what it has begun to append may take the time of an append. */
const noticeMs = 2_000
/** Who holds a session for all instances saves it more often. */
const silentMs = 15_000

export function sessionsTopic(topic: string): string {
  return `${topic}.mqtt-sessions`
}

/** Opens in the background. Until the topic was read, calls wait for it; while the log is away, they reject. */
export function openKafkaSessions(parts: KafkaSessionsParts): SessionStore {
  const { outage, logger, clock = Date.now, sweepMs = 600_000 } = parts
  const settings = { ...parts.log, topic: sessionsTopic(parts.log.topic) }
  const records = openSessionRecords(clock)
  const holdings = new Map<string, Holding>()
  const saving = new Set<Promise<void>>()
  const topic = openCompactedTopic({
    settings,
    what: 'sessions of MQTT',
    outage,
    logger,
    unavailable,
    onRecord(name, offset, payload) {
      const applied = records.apply(name, offset, payload)
      const holding = holdings.get(name)
      if (applied === 'unreadable') logger.warn({ topic: settings.topic, offset }, 'a record is not one of a session of MQTT: skipping it')
      else if (applied === 'claim' && holding !== undefined) takeFrom(name, holding)
      else if (applied === 'overwritten') holding?.saveAgain()
    },
    onLost() {
      records.clear()
      for (const [name, holding] of holdings) takeFrom(name, holding)
    },
  })
  // What cannot be written now is written by the next sweep.
  const sweeping = setInterval(() => void sweep().catch(() => undefined), sweepMs).unref()

  function takeFrom(name: string, holding: Holding): void {
    holdings.delete(name)
    holding.onTaken()
  }

  /** Right after reading, as another instance may have saved an expired session again. */
  async function sweep(): Promise<void> {
    await topic.hasReadAll()
    const expired = records.expired(clock() - sweepMs)
    for (let from = 0; from < expired.length; from += sweptAtOnce) {
      await Promise.all(expired.slice(from, from + sweptAtOnce).map(name => topic.append(name, undefined)))
    }
    // Whose holder has left without saving again.
    for (const [name, record] of records.overwritten()) if (!holdings.has(name)) await topic.append(name, payloadOf(record))
  }

  /** Resolves with its offset when it is durable. */
  function append(key: SessionKey, record: SessionRecord): Promise<number> {
    const payload = payloadOf(record)
    const more = payload.length - (records.get(key)?.bytes ?? 0)
    if (more > 0 && records.thingBytes(key.thing) + more > thingBytesMax) throw tooLarge()
    if (more > 0 && records.bytes + more > allBytesMax)
      throw new SessionsUnavailableError(`the sessions of MQTT have ${allBytesMax} bytes, the most that is kept: let some of them expire`)
    return topic.append(recordName(key), payload)
  }

  async function take(key: SessionKey, onTaken: () => void, begins?: () => void): Promise<HeldSession> {
    // What was saved elsewhere is in the claim, which compaction may leave as the only record.
    await topic.hasReadAll()
    const repeated = records.session(key)
    if (repeated === null) begins?.()
    const holder = await append(key, { untilMs: records.get(key)?.untilMs ?? clock(), session: repeated })
    await topic.hasRead(holder + 1)
    const kept = records.session(key)
    const name = recordName(key)
    let latest = kept
    let version = 0
    let savedTo = 0
    /** When that save was begun. */
    let savedMs = 0
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
      version++
      const beganMs = performance.now()
      const offset = await append(key, { holder, version, untilMs: clock() + (latest?.keptSeconds ?? 0) * 1000, session: latest })
      savedTo = offset + 1
      savedMs = beganMs
    }

    // Another may have taken it meanwhile.
    if ((records.get(key)?.holder ?? holder) === holder) holdings.set(name, holding)
    else setImmediate(onTaken)
    // It was saved between the look and the claim.
    if (kept !== repeated) save(kept).catch(() => undefined)
    return {
      kept: kept ?? undefined,
      save,
      async isHeld() {
        for (;;) {
          const beganMs = savedMs
          await topic.hasRead(savedTo)
          // Who takes it later waits for what is begun until then, and no longer.
          if (!isHeld() || performance.now() - beganMs < noticeMs) return isHeld()
          await save(latest)
        }
      },
      remove: () => save(null),
      release() {
        if (isHeld()) holdings.delete(name)
      },
    }
  }

  /** While Kafka is away, what is known here decides, so that clients without a session can connect. */
  async function has(key: SessionKey): Promise<boolean> {
    await (topic.isAway ? topic.hasRead(0) : topic.hasReadAll())
    return records.session(key) !== null
  }

  return {
    lateMs: settings.appendTimeoutMs + noticeMs,
    take,
    has,
    async discard(key) {
      if (!(await has(key)) && !holdings.has(recordName(key))) return
      const held = await take(key, () => undefined)
      await held.remove()
      held.release()
    },
    async isHeldElsewhere(key) {
      if (!(await has(key)) || holdings.has(recordName(key))) return false
      const { session, readMs } = records.get(key)!
      return performance.now() - readMs < silentMs && Object.values(session!.positions).some(({ isEnd }) => !isEnd)
    },
    count: thing => records.count(thing),
    bytes: thing => records.thingBytes(thing),
    async close() {
      clearInterval(sweeping)
      if (!topic.isAway) await Promise.all(saving)
      await topic.close()
    },
  }
}

function payloadOf(record: SessionRecord): Buffer {
  return Buffer.from(JSON.stringify(record))
}

function unavailable(cause: unknown): SessionsUnavailableError {
  if (cause instanceof SessionsUnavailableError) return cause
  return new SessionsUnavailableError(`the sessions of MQTT cannot be read or saved: ${(cause as Error).message}`, { cause })
}
