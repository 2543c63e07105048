// The contract of a session store: what is kept of the MQTT sessions that outlive their connection (MQTT 5 §4.1).
//
// A session is its subscriptions and, for each channel, an offset in the log: messages are not copied. So any instance can go on where the last one was, after
// any crash, and what a client has not acknowledged is in the log.
//
// Who takes a session last holds it: what an earlier holder saves afterwards is ignored, and it is notified. A position is saved after what is before it was
// acknowledged, never ahead, so a crash repeats messages and loses none.

import type { GroupPosition } from '../../live/dispatch.ts'

/** Whose session it is: client ids are those of a thing, which another thing cannot take. */
export interface SessionKey {
  readonly thing: string
  readonly clientId: string
}

export type Qos = 0 | 1 | 2

export interface KeptSubscription {
  /** As it was sent. */
  readonly filter: string
  readonly qos: Qos
  /** Leaves out what the thing itself published. */
  readonly isNoLocal: boolean
  /** What comes live has the retain flag with which it was published (MQTT 5 §3.3.1.3). */
  readonly isRetainAsPublished: boolean
  readonly identifier?: number | undefined
}

/** Where a session is in a channel, or a shared subscription: what is in flight is in `inFlight` of the one, and in `unacknowledged` of the other. */
export interface KeptPosition extends GroupPosition {
  /** Nothing beyond was sent. Only once the connection has ended, and had got to the end of what one before a crash may have sent. */
  readonly isEnd: boolean
}

/** Where a message is in the log. */
export interface LogOffset {
  readonly channel: string
  readonly partition: number
  readonly offset: number
}

/** A message that was sent to the client, which has not acknowledged it. */
export interface KeptDelivery {
  /** Of its packet. */
  readonly id: number
  readonly qos: 1 | 2
  /** undefined: of QoS 2, and the client has it, or it is not sent again. */
  readonly at?: LogOffset
}

/** A message with QoS 2 of the client, until its PUBREL. */
export interface KeptReceipt {
  readonly id: number
  readonly channel: string
  /** When it was received, microseconds since 1970: names it in the log, with the CRC-32 of its payload. */
  readonly createdUs: number
  readonly checksum: number
  /** false: it may be in the log or not. */
  readonly isStored: boolean
  /** How long later connections have had the session: while they wait, the one that began to store it may go on. */
  readonly waitedMs: number
}

export interface KeptReceipts {
  readonly messages: readonly KeptReceipt[]
  /** By channel, offsets that are not behind those of its messages that may be in the log. */
  readonly origins: Readonly<Record<string, { readonly log: string; readonly offsets: readonly number[] }>>
}

export interface KeptSession {
  readonly subscriptions: readonly KeptSubscription[]
  /** By channel. */
  readonly positions: Readonly<Record<string, KeptPosition>>
  readonly inFlight: readonly KeptDelivery[]
  readonly receipts: KeptReceipts
  /** How long it is kept after this save. */
  readonly keptSeconds: number
}

/** While it is connected, a session does not expire: it is kept for so much longer, and saved as often as half of it. After a crash it may stay as long. */
export const connectedSeconds = 3_600

/** The sessions cannot be read or saved now: retry. */
export class SessionsUnavailableError extends Error {
  override readonly name = 'SessionsUnavailableError'
}

/** What the sessions of a thing have at most: one may have 100 filters of 2 KiB. */
export const thingBytesMax = 256 * 1024

export function tooLarge(): SessionsUnavailableError {
  return new SessionsUnavailableError(
    `the sessions of a thing have ${thingBytesMax} bytes at most: subscribe to fewer channels, or end sessions that are not needed`,
  )
}

/** A session that a connection of this process holds, until another takes it. */
export interface HeldSession {
  /** What was kept; undefined if there was none, or it had expired. */
  readonly kept: KeptSession | undefined
  /**
   * Resolves when it is durable. Calls while one is under way may be saved together: the last one counts. Does nothing once another has taken the session.
   *
   * @throws SessionsUnavailableError
   */
  save(session: KeptSession): Promise<void>
  /** Whether no other had taken the session before what was saved last, and that was just now: what is begun then is over within `lateMs`. @throws SessionsUnavailableError */
  isHeld(): Promise<boolean>
  /** Ends the session. @throws SessionsUnavailableError */
  remove(): Promise<void>
  /** The connection has ended; what was saved stays, until it expires. A second call does nothing. */
  release(): void
}

export interface SessionStore {
  /** How long after a take an earlier holder may go on to append messages to the log. */
  readonly lateMs: number
  /**
   * Takes a session. An earlier holder, in whichever process, is notified by its `onTaken`, once.
   *
   * @param begins called if nothing is kept: if it throws, so does this, and nothing is taken
   * @throws SessionsUnavailableError
   */
  take(key: SessionKey, onTaken: () => void, begins?: () => void): Promise<HeldSession>
  /** Whether something is kept. @throws SessionsUnavailableError only if it was never known */
  has(key: SessionKey): Promise<boolean>
  /**
   * Ends the session, as a client without one asks for. An earlier holder is notified.
   *
   * @throws SessionsUnavailableError only if there may be one
   */
  discard(key: SessionKey): Promise<void>
  /**
   * Whether another process holds the session: it has saved it within 15 s, and not as an end. Absent where there is no other.
   *
   * @throws SessionsUnavailableError only if it was never known
   */
  isHeldElsewhere?(key: SessionKey): Promise<boolean>
  /** How many sessions a thing has, without those that expired. */
  count(thing: string): number
  /** What they have, and on Kafka those that expired a while ago: at most `thingBytesMax`. */
  bytes(thing: string): number
  /** Waits for what is being saved; later calls reject. A second call does nothing. */
  close(): Promise<void>
}
