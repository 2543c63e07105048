// What is kept of the sessions that outlive their connection (MQTT 5 §4.1), in a compacted topic (records.ts).
//
// A session is its subscriptions and, for each channel, an offset in the log: messages are not copied. So any instance can go on where the last one was, after
// any crash, and what a client has not acknowledged is in the log. A position is saved after what is before it was acknowledged, never ahead, so a crash repeats
// messages and loses none.
//
// Who takes a session last holds it. It waits until its claim was read back, and so knows all that earlier holders saved; they read the claim too, and are
// notified, within milliseconds. What they save afterwards is ignored.
//
// In memory is the newest record of each key: 256 KiB of a thing and 256 MiB of all, beyond which no session grows.

import type { CompactedTopic, OpenCompactedTopic } from '../../compacted-topic.ts'
import { type KeptSession, openSessionRecords, recordName, type SessionKey, type SessionRecord } from './records.ts'

/** The sessions cannot be read or saved now: retry. */
export class SessionsUnavailableError extends Error {
  override readonly name = 'SessionsUnavailableError'
}

export type SessionStore = ReturnType<typeof openSessions>
/** A session that a connection of this process holds, until another takes it. */
export type HeldSession = Awaited<ReturnType<SessionStore['take']>>

/** Of a session that a connection of this process holds. */
interface Holding {
  readonly onTaken: () => void
  saveAgain(): void
}

export interface SessionsParts {
  readonly openTopic: OpenCompactedTopic
  /** Milliseconds since 1970. */
  readonly clock?: () => number
  /** How often sessions are removed that expired as long ago. */
  readonly sweepMs?: number
}

/** While it is connected, a session does not expire: it is kept for so much longer, and saved as often as half of it. After a crash it may stay as long. */
export const connectedSeconds = 3_600
/** What the sessions of a thing have at most: one may have 100 filters of 2 KiB. */
export const thingBytesMax = 256 * 1024
const allBytesMax = 256 * 1024 * 1024
const sweptAtOnce = 10_000
/** An earlier holder hears of a claim sooner; what it has begun to append may take the time of an append. */
const noticeMs = 2_000
/** Who holds a session for all instances saves it more often. */
const silentMs = 15_000

/** Until the topic was read, calls wait for it; while it is away, they reject. */
export function openSessions({ openTopic, clock = Date.now, sweepMs = 600_000 }: SessionsParts) {
  const records = openSessionRecords(clock)
  const holdings = new Map<string, Holding>()
  const saving = new Set<Promise<void>>()
  const topic: CompactedTopic = openTopic({
    name: 'mqtt-sessions',
    what: 'sessions of MQTT',
    unavailable,
    onRecord(name, offset, payload) {
      const applied = records.apply(name, offset, payload)
      const holding = holdings.get(name)
      if (applied === 'claim' && holding !== undefined) takeFrom(name, holding)
      else if (applied === 'overwritten') holding?.saveAgain()
      return applied !== 'unreadable'
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
    const expired = [...records.all()].filter(([, { untilMs }]) => untilMs <= clock() - sweepMs)
    for (let from = 0; from < expired.length; from += sweptAtOnce) {
      await Promise.all(expired.slice(from, from + sweptAtOnce).map(([name]) => topic.append(name, undefined)))
    }
    // Whose holder has left without saving again.
    for (const [name, { isOverwritten, holder, version, untilMs, session }] of records.all()) {
      if (isOverwritten && !holdings.has(name)) await topic.append(name, payloadOf({ holder, version, untilMs, session }))
    }
  }

  /** Resolves with its offset when it is durable. */
  function append(key: SessionKey, record: SessionRecord): Promise<number> {
    const payload = payloadOf(record)
    const more = payload.length - (records.get(key)?.bytes ?? 0)
    if (more > 0 && records.thingBytes(key.thing) + more > thingBytesMax)
      throw new SessionsUnavailableError(
        `the sessions of a thing have ${thingBytesMax} bytes at most: subscribe to fewer channels, or end sessions that are not needed`,
      )
    if (more > 0 && records.bytes + more > allBytesMax)
      throw new SessionsUnavailableError(`the sessions of MQTT have ${allBytesMax} bytes, the most that is kept: let some of them expire`)
    return topic.append(recordName(key), payload)
  }

  /**
   * Takes a session. An earlier holder, in whichever process, is notified by its `onTaken`, once.
   *
   * @param begins called if nothing is kept: if it throws, so does this, and nothing is taken
   * @throws SessionsUnavailableError
   */
  async function take(key: SessionKey, onTaken: () => void, begins?: () => void) {
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
      /** What was kept; undefined if there was none, or it had expired. */
      kept: kept ?? undefined,
      /**
       * Resolves when it is durable. Calls while one is under way may be saved together: the last one counts. Does nothing once another has taken the session.
       *
       * @throws SessionsUnavailableError
       */
      save: (session: KeptSession): Promise<void> => save(session),
      /** Whether no other had taken the session before what was saved last, and that was just now: what is begun then is over within `lateMs`. @throws SessionsUnavailableError */
      async isHeld(): Promise<boolean> {
        for (;;) {
          const beganMs = savedMs
          await topic.hasRead(savedTo)
          // Who takes it later waits for what is begun until then, and no longer.
          if (!isHeld() || performance.now() - beganMs < noticeMs) return isHeld()
          await save(latest)
        }
      },
      /** Ends the session. @throws SessionsUnavailableError */
      remove: (): Promise<void> => save(null),
      /** The connection has ended; what was saved stays, until it expires. A second call does nothing. */
      release(): void {
        if (isHeld()) holdings.delete(name)
      },
    }
  }

  /**
   * Whether something is kept. While the topic is away, what is known here decides, so that clients without a session can connect.
   *
   * @throws SessionsUnavailableError only if it was never known
   */
  async function has(key: SessionKey): Promise<boolean> {
    await (topic.isAway ? topic.hasRead(0) : topic.hasReadAll())
    return records.session(key) !== null
  }

  return {
    /** How long after a take an earlier holder may go on to append messages to the log. */
    lateMs: topic.appendMsMax + noticeMs,
    take,
    has,
    /**
     * Ends the session, as a client without one asks for. An earlier holder is notified.
     *
     * @throws SessionsUnavailableError only if there may be one
     */
    async discard(key: SessionKey): Promise<void> {
      if (!(await has(key)) && !holdings.has(recordName(key))) return
      const held = await take(key, () => undefined)
      await held.remove()
      held.release()
    },
    /** Whether another process holds the session: it has saved it within 15 s, and not as an end. @throws SessionsUnavailableError only if it was never known */
    async isHeldElsewhere(key: SessionKey): Promise<boolean> {
      if (!topic.isShared || !(await has(key)) || holdings.has(recordName(key))) return false
      const { session, readMs } = records.get(key)!
      return performance.now() - readMs < silentMs && Object.values(session!.positions).some(({ isEnd }) => !isEnd)
    },
    /** How many sessions a thing has, without those that expired. */
    count: (thing: string): number => records.count(thing),
    /** What they have, and those that expired a while ago: at most `thingBytesMax`. */
    bytes: (thing: string): number => records.thingBytes(thing),
    /** Waits for what is being saved; later calls reject. A second call does nothing. */
    async close(): Promise<void> {
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
  return new SessionsUnavailableError(`the sessions of MQTT cannot be read or saved: ${(cause as Error).message}`, { cause })
}
