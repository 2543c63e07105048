// The session of one connection, if it outlives it: taken when the client connects, saved as it goes on, and left for the next connection.

import type { MqttParts, Saving } from '../dependencies.ts'
import type { Session } from '../handshake.ts'
import { ReasonError, reasons } from '../reasons.ts'
import type { Timer } from '../timer.ts'
import type { KeptSession } from './records.ts'
import { connectedSeconds, type HeldSession, SessionsUnavailableError } from './store.ts'

export interface Persistence extends Saving {
  /** What an earlier connection left; undefined for nothing, or if the client does not want it. */
  readonly kept: KeptSession | undefined
  /** The connection has ended. Never rejects. */
  end(): Promise<void>
  /** After `end`: who takes the session from then on is not noticed. */
  release(): void
}

interface PersistenceParts {
  readonly session: Session
  readonly parts: MqttParts
  /** Of the connection now. @param hasEnded nothing is sent any more */
  readonly stateOf: (hasEnded: boolean) => Omit<KeptSession, 'keptSeconds'>
  readonly onTaken: () => void
}

const saveMs = 1_000
/** A larger session is saved less often, as it is written whole. */
const entriesASecond = 32
const saveMsMax = 10_000

/**
 * Takes the session of the client, or ends the one that it no longer wants.
 *
 * @returns undefined if the session ends with its connection
 * @throws ReasonError if the session cannot be had; SessionsUnavailableError
 */
export async function openPersistence({ session, parts, stateOf, onTaken }: PersistenceParts): Promise<Persistence | undefined> {
  const { sessions, options, startTimer, say } = parts
  const { thing, clientId, isClean } = session
  if (sessions === undefined) return undefined
  const key = { thing, clientId }
  if (session.expirySeconds === 0 && isClean) {
    await sessions.discard(key)
    return undefined
  }
  if (session.expirySeconds === 0 && !(await sessions.has(key))) return undefined
  const held: HeldSession = await sessions.take(key, onTaken, () => {
    if (sessions.count(thing) < options.thingSessionsMax) return
    throw new ReasonError(
      reasons.quotaExceeded,
      `the thing has ${options.thingSessionsMax} sessions that outlive their connections: end some, or connect with a clean one`,
    )
  })
  let soon: Timer | undefined
  let isOver = false
  /** Until then what was kept is left as it is. */
  let isTakenOver = false
  /** Subscriptions, channels and messages, when it was last saved. */
  let entries = 0
  const renewal = startTimer((connectedSeconds * 1000) / 2, () => {
    save().catch(note)
    renewal.restart()
  })

  async function save(hasEnded = false): Promise<void> {
    // Its subscriptions are closed by now.
    if (isOver && !hasEnded) throw new SessionsUnavailableError('the connection has ended')
    isTakenOver = true
    if (session.expirySeconds === 0) return held.remove()
    const state = stateOf(hasEnded)
    entries = state.subscriptions.length + Object.keys(state.positions).length + state.inFlight.length + state.receipts.messages.length
    return held.save({ ...state, keptSeconds: session.expirySeconds + (hasEnded ? 0 : connectedSeconds) })
  }

  /** What cannot be saved now is saved with the next progress, or at the end. */
  const note = (error: unknown): void => say(session, `the session was not saved: ${(error as Error).message}`)

  return {
    kept: isClean ? undefined : held.kept,
    save: () => save(),
    async saveHeld() {
      await save()
      if (!(await held.isHeld())) throw new SessionsUnavailableError('another connection has taken the session')
    },
    saveSoon() {
      if (soon !== undefined || isOver || session.expirySeconds === 0) return
      soon = startTimer(Math.min(saveMs * Math.ceil(Math.max(entries, 1) / entriesASecond), saveMsMax), () => {
        soon = undefined
        save().catch(note)
      })
    },
    async end() {
      isOver = true
      soon?.stop()
      renewal.stop()
      if (isTakenOver) await save(true).catch(note)
    },
    release: () => held.release(),
  }
}
