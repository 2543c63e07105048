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

import type { KeptSession, SessionKey } from './store.ts'

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
    /** The names of those that had expired at this time. */
    expired: (atMs: number): string[] =>
      [...things].flatMap(([thing, clients]) =>
        [...clients].filter(([, { untilMs }]) => untilMs <= atMs).map(([clientId]) => recordName({ thing, clientId })),
      ),
    /** By name, what counts though another record is the last of its key. */
    overwritten: (): [string, SessionRecord][] =>
      [...things].flatMap(([thing, clients]) =>
        [...clients]
          .filter(([, { isOverwritten }]) => isOverwritten)
          .map(([clientId, { holder, version, untilMs, session }]): [string, SessionRecord] => [
            recordName({ thing, clientId }),
            { holder, version, untilMs, session },
          ]),
      ),
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
