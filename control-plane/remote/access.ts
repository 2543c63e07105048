// Access control over HTTP: asks the control plane's internal listener, and follows its changes.

import { Value } from 'typebox/value'
import type { Logger } from '../../config/logger.ts'
import { type Access, type AccessChange, type AccessControl, AccessUnavailableError, noChannel, parseChannel } from '../client.ts'
import { answerSchema, authorizePath, type Question, secretLengthMax } from '../internal/wire.ts'
import { followChanges } from './changes.ts'
import { type ControlAddress, openControlRequests } from './requests.ts'

export interface RemoteAccess extends AccessControl {
  heardMs(): number
  /** @throws AccessUnavailableError while changes are not heard */
  check(): Promise<void>
  close(): Promise<void>
}

export interface RemoteAccessOptions extends ControlAddress {
  readonly logger: Logger
}

/** How long an answer may take. Whoever waits for it is a device that comes again. */
const answerMsMax = 2_000
/** Beyond it the control plane is slower than what is asked of it, and more waiting helps nobody. */
const questionsMax = 1_000

/**
 * Asks one question for each call: put `cacheAccess` in front. Connects by itself, also to a control plane that starts later. Secrets are in
 * no error and no log line.
 */
export function openRemoteAccess({ logger, ...address }: RemoteAccessOptions): RemoteAccess {
  const requests = openControlRequests(address)
  const listeners = new Set<{ call: (change: AccessChange) => void }>()
  const changes = followChanges(requests, tell, logger)
  let underWay = 0

  function tell(change: AccessChange): void {
    for (const { call } of listeners) call(change)
  }

  async function ask(question: Question): Promise<Access> {
    if (underWay >= questionsMax)
      throw new AccessUnavailableError(`${requests.name} is slower than it is asked: ${questionsMax} answers are due`)
    underWay++
    try {
      const answer = await requests.post(authorizePath, JSON.stringify(question), AbortSignal.timeout(answerMsMax))
      return accessOf(answer, requests.name)
    } finally {
      underWay--
    }
  }

  return {
    async authorize({ credential: { scheme, secret }, channel, action }) {
      // No key and no token is as long, and the control plane would not look at it.
      if (secret.length > secretLengthMax) return { allowed: false, reason: 'unauthenticated' }
      return ask({ scheme, secret, channel: parseChannel(channel) ?? noChannel, action })
    },
    onChange(listener) {
      const entry = { call: listener }
      listeners.add(entry)
      return () => void listeners.delete(entry)
    },
    heardMs: changes.heardMs,
    async check() {
      if (!changes.whole()) throw new AccessUnavailableError(`changes are not heard from ${requests.name}`)
    },
    async close() {
      await changes.close()
      await requests.close()
      listeners.clear()
    },
  }
}

function accessOf(answer: unknown, name: string): Access {
  if (Value.Check(answerSchema, answer)) {
    const { allowed, publisher, owner, ends_in_ms: endsInMs, reason } = answer
    if (!allowed && reason !== undefined) return { allowed, reason }
    if (allowed && publisher !== undefined && owner !== undefined) {
      return { allowed, publisher, owner, ...(endsInMs === undefined ? {} : { endsMs: Date.now() + endsInMs }) }
    }
  }
  throw new AccessUnavailableError(`${name} gave an answer that is none: run the same version on both sides`)
}
