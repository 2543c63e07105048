// Access control over HTTP: asks the control plane's internal listener, and follows its changes.

import { Value } from 'typebox/value'
import type { OutageReport } from '../../config/outage.ts'
import { type Access, type AccessChange, type AccessControl, AccessUnavailableError, noChannel, parseChannel } from '../client.ts'
import { answerSchema, authorizePath, type Question, secretLengthMax } from '../internal/wire.ts'
import { followChanges } from './changes.ts'
import { type ControlAddress, ControlPlaneRefusalError, openControlRequests } from './requests.ts'

export interface RemoteAccess extends AccessControl {
  heardMs(): number
  /**
   * The attempt under way to reach the control plane: resolves at once while changes are heard.
   *
   * @throws ControlPlaneRefusalError where waiting does not help, another error while the control plane is away
   */
  reach(): Promise<void>
  /** False while the control plane refuses the token, or something else answers in its place. */
  isAccepted(): boolean
  /** @throws AccessUnavailableError while changes are not heard */
  check(): Promise<void>
  close(): Promise<void>
}

export interface RemoteAccessOptions extends ControlAddress {
  readonly outage: OutageReport
}

/** How long an answer may take. Whoever waits for it is a device that comes again. */
const answerMsMax = 2_000
/** Beyond it the control plane is slower than what is asked of it, and more waiting helps nobody. */
const questionsMax = 1_000

/**
 * Asks one question for each call: put `cacheAccess` in front. Connects by itself, also to a control plane that starts later. Secrets are in
 * no error and no log line.
 */
export function openRemoteAccess({ outage, ...address }: RemoteAccessOptions): RemoteAccess {
  const requests = openControlRequests(address)
  const listeners = new Set<{ call: (change: AccessChange) => void }>()
  const changes = followChanges(requests, tell, outage)
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
    async authorize({ credential: { scheme, secret }, channel, action, address }) {
      // No key and no token is as long, and the control plane would not look at it.
      if (secret.length > secretLengthMax) return { allowed: false, reason: 'unauthenticated' }
      return ask({ scheme, secret, channel: parseChannel(channel) ?? noChannel, action, ...(address === undefined ? {} : { address }) })
    },
    onChange(listener) {
      const entry = { call: listener }
      listeners.add(entry)
      return () => void listeners.delete(entry)
    },
    heardMs: changes.heardMs,
    reach: () => changes.attempt(),
    isAccepted: () => !(changes.failure() instanceof ControlPlaneRefusalError),
    async check() {
      const cause = changes.failure()
      if (cause !== undefined || changes.heardMs() === -Infinity)
        throw new AccessUnavailableError(`changes are not heard from ${requests.name}`, { cause })
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
    const { allowed, publisher, owner, ends_in_ms: endsInMs, left_ms: leftMs = 0, reason } = answer
    if (!allowed && reason !== undefined) return reason === 'limited' ? { allowed, reason, leftMs } : { allowed, reason }
    if (allowed && publisher !== undefined && owner !== undefined) {
      return { allowed, publisher, owner, ...(endsInMs === undefined ? {} : { endsMs: Date.now() + endsInMs }) }
    }
  }
  throw new AccessUnavailableError(`${name} gave an answer that is none: run the same version on both sides`)
}
