// The records of sessions in a log: what each means for those before it, and what is kept after all of them.
//
//   key     <thing> <client id>
//   claim   {untilMs, session}            takes the session: the offset of this record is its new holder. What earlier ones saved stays
//   save    {holder, version, untilMs, session}    counts unless another has claimed the session since, or the holder has saved a later version; session null:
//                                         it was removed
//   none    a tombstone                   it had expired, and compaction forgets the key
//
// Compaction keeps only the last record of a key. That is why a claim repeats the session, for readers that know none, and why a save is compared by
// the offset of its claim, which may be gone.

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

export const nothingKept: Omit<KeptSession, 'keptSeconds'> = {
  subscriptions: [],
  positions: {},
  inFlight: [],
  receipts: { messages: [], origins: {} },
}

export interface SessionRecord {
  /** Absent in a claim. */
  readonly holder?: number
  /** Of one holder, from 1; 0 in a claim. */
  readonly version?: number
  /** When it expires, in milliseconds since 1970. */
  readonly untilMs: number
  readonly session: KeptSession | null
}

interface Entry extends Required<SessionRecord> {
  readonly bytes: number
  /** The last record of the key in the log is another one, which does not count. */
  readonly isOverwritten: boolean
  /** When the last record that counts was read, on the clock of the process. */
  readonly readMs: number
}

/**
 * What the holder of the session does about a record: `claim` took it; after `overwritten` it saves again, as compaction keeps the last record, which
 * came too late to count, or is a tombstone.
 */
export type Applied = 'claim' | 'overwritten' | 'unreadable' | undefined

/** What an entry takes in addition to its record. */
const entryBytes = 256

/** @param clock milliseconds since 1970 */
export function openSessionRecords(clock: () => number) {
  const things = new Map<string, Map<string, Entry>>()
  let bytes = 0

  /** The newest of a key, whether it has expired or not. */
  function get({ thing, clientId }: SessionKey): Entry | undefined {
    return things.get(thing)?.get(clientId)
  }

  function set(key: SessionKey, entry: Entry): void {
    bytes += entry.bytes - (get(key)?.bytes ?? 0)
    const clients = things.get(key.thing) ?? new Map<string, Entry>()
    things.set(key.thing, clients.set(key.clientId, entry))
  }

  function remove(key: SessionKey): void {
    bytes -= get(key)?.bytes ?? 0
    const clients = things.get(key.thing)
    if (clients?.delete(key.clientId) === true && clients.size === 0) things.delete(key.thing)
  }

  function keptIn(entry: Entry | undefined): KeptSession | null {
    return entry === undefined || entry.untilMs <= clock() ? null : entry.session
  }

  return {
    /** Of all that is kept. */
    get bytes(): number {
      return bytes
    },
    thingBytes: (thing: string): number => [...(things.get(thing)?.values() ?? [])].reduce((sum, entry) => sum + entry.bytes, 0),
    /** @param payload empty for a tombstone */
    apply(name: string, offset: number, payload: Uint8Array): Applied {
      const key = sessionKey(name)
      if (key === undefined) return 'unreadable'
      if (payload.length === 0) {
        remove(key)
        return 'overwritten'
      }
      const record = recordIn(payload)
      if (record === undefined) return 'unreadable'
      const { holder = offset, version = 0, untilMs, session } = record
      const known = get(key)
      if (known !== undefined && (holder < known.holder || (holder === known.holder && version < known.version))) {
        set(key, { ...known, isOverwritten: true })
        return 'overwritten'
      }
      const isClaim = record.holder === undefined
      const read = { holder, version, isOverwritten: false, readMs: performance.now() }
      if (isClaim && known !== undefined) set(key, { ...known, ...read })
      else set(key, { untilMs, session, bytes: entryBytes + name.length + payload.length, ...read })
      return isClaim ? 'claim' : undefined
    },
    get,
    /** What is kept; null if there is none, or it has expired. */
    session: (key: SessionKey): KeptSession | null => keptIn(get(key)),
    count: (thing: string): number => [...(things.get(thing)?.values() ?? [])].filter(entry => keptIn(entry) !== null).length,
    /** By name, the newest of each key. */
    *all(): Iterable<[string, Entry]> {
      for (const [thing, clients] of things) for (const [clientId, entry] of clients) yield [recordName({ thing, clientId }), entry]
    },
    clear(): void {
      things.clear()
      bytes = 0
    },
  }
}

/** The key of a record, as text. */
export function recordName({ thing, clientId }: SessionKey): string {
  return `${thing} ${clientId}`
}

function sessionKey(name: string): SessionKey | undefined {
  const space = name.indexOf(' ')
  return space < 1 ? undefined : { thing: name.slice(0, space), clientId: name.slice(space + 1) }
}

function recordIn(payload: Uint8Array): SessionRecord | undefined {
  try {
    const record = JSON.parse(new TextDecoder().decode(payload)) as SessionRecord | null
    return typeof record?.untilMs === 'number' && record.session !== undefined ? record : undefined
  } catch {
    return undefined
  }
}
