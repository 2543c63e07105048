// Sessions in an SQLite file, for `up`.

import type { Logger } from '../../../config/logger.ts'
import { openSqliteFile } from '../../sqlite-file.ts'
import {
  type HeldSession,
  type KeptSession,
  type SessionKey,
  type SessionStore,
  SessionsUnavailableError,
  thingBytesMax,
  tooLarge,
} from './store.ts'

const schema = `
  CREATE TABLE IF NOT EXISTS sessions (
    thing TEXT NOT NULL,
    client TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    session TEXT NOT NULL,
    PRIMARY KEY (thing, client)
  ) STRICT, WITHOUT ROWID;
`
const sweepMs = 3_600_000
/** What was begun is in the file of the log sooner. */
const lateMs = 2_000

interface Change {
  readonly key: SessionKey
  /** As JSON; undefined: removed. */
  readonly session: string | undefined
  readonly untilMs: number
}

interface EmbeddedSessionsParts {
  readonly path: string
  readonly logger: Pick<Logger, 'error'>
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

/** @throws SystemicError if the file is not one of sessions, or is open in another process */
export function openEmbeddedSessions({ path, logger, clock = Date.now }: EmbeddedSessionsParts): SessionStore {
  const file = openSqliteFile<Change>({ path, schema, what: "MQTT's sessions", write: writeChange, unavailable })
  const { database } = file
  const select = database.prepare('SELECT session FROM sessions WHERE thing = ? AND client = ? AND until_ms > ?')
  const write = database.prepare('INSERT OR REPLACE INTO sessions (thing, client, until_ms, session) VALUES (?, ?, ?, ?)')
  const erase = database.prepare('DELETE FROM sessions WHERE thing = ? AND client = ?')
  const counted = database.prepare('SELECT count(*) AS sessions FROM sessions WHERE thing = ? AND until_ms > ?')
  const others = database.prepare(
    'SELECT coalesce(sum(octet_length(session)), 0) AS bytes FROM sessions WHERE thing = ? AND client <> ? AND until_ms > ?',
  )
  const expired = database.prepare('DELETE FROM sessions WHERE until_ms <= ?')
  /** By key, the `onTaken` of who holds it. */
  const holders = new Map<string, () => void>()
  const sweep = setInterval(() => {
    try {
      expired.run(clock())
    } catch (error) {
      logger.error({ err: error }, 'cannot remove expired sessions of MQTT')
    }
  }, sweepMs).unref()

  function writeChange({ key, session, untilMs }: Change): void {
    if (session === undefined) erase.run(key.thing, key.clientId)
    else write.run(key.thing, key.clientId, untilMs, session)
  }

  async function change(key: SessionKey, kept: KeptSession | undefined): Promise<void> {
    const session = kept && JSON.stringify(kept)
    if (session !== undefined && bytesOf(key.thing, key.clientId) + Buffer.byteLength(session) > thingBytesMax) throw tooLarge()
    await file.change(keyOf(key), { key, session, untilMs: clock() + (kept?.keptSeconds ?? 0) * 1000 })
  }

  /** Of the thing, without this client. */
  function bytesOf(thing: string, clientId = ''): number {
    return Number(file.read(() => others.get(thing, clientId, clock()))!['bytes'])
  }

  function tell(key: SessionKey): void {
    const holder = holders.get(keyOf(key))
    holders.delete(keyOf(key))
    holder?.()
  }

  /** What is about to be written counts already. */
  function keptOf(key: SessionKey): KeptSession | undefined {
    const pending = file.pending(keyOf(key))
    if (pending === undefined) return parsed(file.read(() => select.get(key.thing, key.clientId, clock()))?.['session'])
    return pending.untilMs > clock() ? parsed(pending.session) : undefined
  }

  function unavailable(cause: unknown): SessionsUnavailableError {
    return new SessionsUnavailableError(`the sessions of MQTT in ${path} cannot be read or saved: ${(cause as Error).message}`, { cause })
  }

  return {
    lateMs,
    async take(key, onTaken, begins): Promise<HeldSession> {
      const kept = keptOf(key)
      if (kept === undefined) begins?.()
      tell(key)
      const held = (): void => onTaken()
      holders.set(keyOf(key), held)
      const isHeld = (): boolean => holders.get(keyOf(key)) === held
      return {
        kept,
        async save(session) {
          if (isHeld()) await change(key, session)
        },
        isHeld: async () => isHeld(),
        async remove() {
          if (isHeld()) await change(key, undefined)
        },
        release() {
          if (isHeld()) holders.delete(keyOf(key))
        },
      }
    },
    has: async key => keptOf(key) !== undefined,
    async discard(key) {
      tell(key)
      if (keptOf(key) !== undefined) await change(key, undefined)
    },
    count: thing => Number(counted.get(thing, clock())!['sessions']),
    bytes: thing => bytesOf(thing),
    close() {
      clearInterval(sweep)
      return file.close()
    },
  }
}

function parsed(session: unknown): KeptSession | undefined {
  return typeof session === 'string' ? (JSON.parse(session) as KeptSession) : undefined
}

function keyOf({ thing, clientId }: SessionKey): string {
  return `${thing} ${clientId}`
}
