// The session of one connection, if it outlives it: taken when the client connects, saved as it goes on, and left for the next connection.

import type { MqttParts } from '../dependencies.ts'
import type { Session } from '../handshake.ts'
import type { Timer } from '../timer.ts'
import { type HeldSession, type KeptSession, SessionsUnavailableError } from './store.ts'

export interface Persistence {
  /** What an earlier connection left; undefined for nothing, or if the client does not want it. */
  readonly kept: KeptSession | undefined
  /**
   * Saves at once; first when the connection has what was kept. Resolves when it is durable.
   *
   * @throws SessionsUnavailableError
   */
  save(): Promise<void>
  /** Saves within a second: after a crash as much is sent again. */
  saveSoon(): void
  /** The connection has ended. Never rejects. */
  end(): Promise<void>
}

/** The session cannot be had; the sentence is for the client. */
export class SessionRefusal extends Error {
  override readonly name = 'SessionRefusal'
}

interface PersistenceParts {
  readonly session: Session
  readonly parts: MqttParts
  /** Of the connection now. @param hasEnded nothing is sent any more */
  readonly stateOf: (hasEnded: boolean) => Omit<KeptSession, 'expirySeconds'>
  readonly onTaken: () => void
}

const saveMs = 1_000

/**
 * Takes the session of the client, or ends the one that it no longer wants.
 *
 * @returns undefined if the session ends with its connection
 * @throws SessionRefusal, SessionsUnavailableError
 */
export async function openPersistence({ session, parts, stateOf, onTaken }: PersistenceParts): Promise<Persistence | undefined> {
  const { sessions, options, startTimer, logger, say } = parts
  const { thing, clientId, isClean } = session
  if (sessions === undefined) return undefined
  const key = { thing, clientId }
  if (session.expirySeconds === 0 && isClean) {
    await sessions.discard(key)
    return undefined
  }
  const held: HeldSession = await sessions.take(key, onTaken)
  if (held.kept === undefined && sessions.count(thing) >= options.thingSessionsMax) {
    held.release()
    throw new SessionRefusal(
      `the thing has ${options.thingSessionsMax} sessions that outlive their connections: end some, or connect with a clean one`,
    )
  }
  let soon: Timer | undefined
  let isDue = false
  /** Until then what was kept is left as it is. */
  let isTakenOver = false

  function save(hasEnded = false): Promise<void> {
    isTakenOver = true
    return held.save({ ...stateOf(hasEnded), expirySeconds: session.expirySeconds })
  }

  function saveLater(): void {
    isDue = true
    soon ??= startTimer(saveMs, () => {
      isDue = false
      // It is saved again with the next progress, or at the end.
      save().catch((error: unknown) => say(session, `the session was not saved: ${(error as Error).message}`))
    })
    soon.restart()
  }

  return {
    kept: isClean ? undefined : held.kept,
    save: () => save(),
    saveSoon() {
      if (!isDue) saveLater()
    },
    async end() {
      soon?.stop()
      try {
        if (!isTakenOver) return
        if (session.expirySeconds === 0) await held.remove()
        else await save(true)
      } catch (error) {
        if (error instanceof SessionsUnavailableError) say(session, `the session was not saved: ${error.message}`)
        else logger.error({ err: error }, 'cannot save a session of MQTT')
      } finally {
        held.release()
      }
    },
  }
}
