// Access control over HTTP: sends requests to the control plane's internal listener, and follows its changes.

import { Check } from 'typebox/schema'
import type { OutageReport } from '../../config/outage.ts'
import { type Access, type AccessChange, type AccessControl, AccessUnavailableError, noChannel, parseStoredChannel } from '../client.ts'
import { type AccessRequest, answerSchema, authorizePath, channelsSchema, deletedChannelsPath, secretLengthMax } from '../internal/wire.ts'
import { followChanges } from './changes.ts'
import { type ControlAddress, ControlPlaneRefusalError, openControlRequests } from './requests.ts'

export interface RemoteAccess extends AccessControl {
  heardMs(): number
  /**
   * Waits for the current attempt to reach the control plane; resolves immediately while changes arrive.
   *
   * @throws ControlPlaneRefusalError if waiting does not help, another error while the control plane is away
   */
  reach(): Promise<void>
  /** False while the control plane refuses the token, or something else answers in its place. */
  isAccepted(): boolean
  /** @throws AccessUnavailableError while no changes arrive */
  check(): Promise<void>
  close(): Promise<void>
}

export interface RemoteAccessOptions extends ControlAddress {
  readonly outage: OutageReport
  /** How long an answer may take. A device is waiting for it, and retries. */
  readonly answerMsMax?: number
  /** How long the stream of changes may send nothing before it is opened again. */
  readonly streamMsMax?: number
}

/** Requests that may wait for an answer. With more, the control plane is slower than its load, and waiting would not help. */
const requestsMax = 1_000

/**
 * Sends one request for each call, so put `cacheAccess` in front. Connects by itself, also to a control plane that starts later. No error and no
 * log line contains secrets.
 */
export function openRemoteAccess({ outage, answerMsMax = 2_000, streamMsMax, ...address }: RemoteAccessOptions): RemoteAccess {
  const requests = openControlRequests(address)
  const listeners = new Set<{ call: (change: AccessChange) => void }>()
  const changes = followChanges(requests, notifyListeners, outage, streamMsMax)
  let underWay = 0

  function notifyListeners(change: AccessChange): void {
    for (const { call } of listeners) call(change)
  }

  async function ask(path: string, request: object): Promise<unknown> {
    if (underWay >= requestsMax)
      throw new AccessUnavailableError(`${requests.name} is overloaded: ${requestsMax} requests wait for an answer`)
    underWay++
    try {
      return await requests.post(path, JSON.stringify(request), AbortSignal.timeout(answerMsMax))
    } finally {
      underWay--
    }
  }

  return {
    async authorize({ credential: { scheme, secret }, channel, action, address }) {
      // No key and no token is as long, and the control plane would refuse it.
      if (secret.length > secretLengthMax) return { allowed: false, reason: 'unauthenticated' }
      const known = parseStoredChannel(channel) ?? noChannel
      const request: AccessRequest = { scheme, secret, channel: known, action, ...(address === undefined ? {} : { address }) }
      return accessOf(await ask(authorizePath, request), requests.name)
    },
    async deletedChannels(channels) {
      const answer = await ask(deletedChannelsPath, { channels })
      if (Check(channelsSchema, answer)) return answer.channels
      throw invalidAnswer(requests.name)
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
        throw new AccessUnavailableError(`no changes arrive from ${requests.name}`, { cause })
    },
    async close() {
      await changes.close()
      await requests.close()
      listeners.clear()
    },
  }
}

function accessOf(answer: unknown, name: string): Access {
  if (Check(answerSchema, answer)) {
    const { allowed, publisher, owner, bounded, ends_in_ms: endsInMs, left_ms: leftMs = 0, reason } = answer
    if (!allowed && reason === 'limited') return { allowed, reason, leftMs }
    if (!allowed && reason === 'unauthenticated') return { allowed, reason }
    const ends = {
      ...(bounded === undefined ? {} : { isBounded: bounded }),
      ...(endsInMs === undefined ? {} : { endsMs: Date.now() + endsInMs }),
    }
    if (!allowed && reason === 'forbidden') {
      return {
        allowed,
        reason,
        ...(typeof publisher === 'string' ? { publisher } : {}),
        ...(owner === undefined ? {} : { owner }),
        ...ends,
      }
    }
    if (allowed && publisher !== undefined && owner !== undefined) return { allowed, publisher, owner, ...ends }
  }
  throw invalidAnswer(name)
}

function invalidAnswer(name: string): AccessUnavailableError {
  return new AccessUnavailableError(`${name} sent an invalid answer: run the same version on both sides`)
}
