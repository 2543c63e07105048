// Remembers grants in front of an access control, and forgets them with the changes that end them.

import { hash } from 'node:crypto'
import { type Access, type AccessChange, type AccessControl, type AccessRequest, concerns } from './client.ts'
import { type Grant, openGrants } from './grants.ts'

export interface AccessCacheLimits {
  /**
   * How long a grant may be used after it was asked for: the longest that a removed right works where news of its end got lost.
   * A grant is never used beyond its credential's end.
   */
  readonly lifetimeMs: number
  /**
   * How long a grant may be used after the last moment at which it was certain that it had not ended: when it was asked for, or up to
   * when changes were heard. Left out where none go unheard.
   */
  readonly unheardMsMax?: number
  /** About 900 bytes each, or 1,300 where each has a channel of its own. */
  readonly entriesMax: number
}

/** A question that waits for its answer. */
interface Lookup {
  readonly access: Promise<Access>
  readonly channel: string
}

/** As many changes are remembered, for answers that were under way when they came. */
const recentMax = 1_000

/**
 * Remembers grants, never refusals: a right given works at once. A change drops what it concerns before the operation that
 * caused it is answered. Lookups of the same question at the same time are one.
 *
 * An answer that was under way when a change came may be from before it. It is kept where no change since the question concerns it, which
 * is known once it is there and says whose it is. A question is joined unless a change came that may concern its answer.
 */
export function cacheAccess(
  access: AccessControl,
  { lifetimeMs, unheardMsMax = Infinity, entriesMax }: AccessCacheLimits,
): AccessControl & { close(): void } {
  // All grants live equally long but for those whose credential ends sooner, so what is first goes first; one that ended sooner
  // is no longer used, and lies here at most until its lifetime would have been over.
  const grants = openGrants(entriesMax)
  const lookups = new Map<string, Lookup>()
  const recent = openRecentChanges()
  let closed = false

  const stop = access.onChange(change => {
    recent.add(change)
    grants.dropConcerned(change)
    for (const [key, { channel }] of lookups) if (mayConcern(change, channel)) lookups.delete(key)
  })

  async function ask(key: string, request: AccessRequest): Promise<Access> {
    const { channel } = request
    const changesBefore = recent.count()
    const askedMs = performance.now()
    const lookup = { access: access.authorize(request), channel }
    lookups.set(key, lookup)
    try {
      const answer = await lookup.access
      if (answer.allowed && !closed) {
        const { publisher, owner, endsMs } = answer
        const nowMs = performance.now()
        const credentialEndsMs = endsMs === undefined ? Infinity : nowMs + endsMs - Date.now()
        const grant = {
          access: lookup.access,
          publisher,
          owner,
          channel,
          askedMs,
          endsMs: Math.min(askedMs + lifetimeMs, credentialEndsMs),
        }
        grants.dropEnded(nowMs)
        if (!recent.mayHaveEnded(grant, changesBefore)) grants.keep(key, grant)
      }
      return answer
    } finally {
      // After a change the entry may be a newer lookup's.
      if (lookups.get(key) === lookup) lookups.delete(key)
    }
  }

  function isUsable({ askedMs, endsMs }: Grant): boolean {
    const nowMs = performance.now()
    return endsMs > nowMs && Math.max(askedMs, access.heardMs?.() ?? Infinity) + unheardMsMax > nowMs
  }

  return {
    authorize(request) {
      const key = cacheKey(request)
      const grant = grants.get(key)
      if (grant !== undefined) {
        if (isUsable(grant)) return grant.access
        grants.drop(key)
      }
      return lookups.get(key)?.access ?? ask(key, request)
    },
    onChange: listener => access.onChange(listener),
    ...(access.heardMs === undefined ? {} : { heardMs: () => access.heardMs!() }),
    close() {
      stop()
      closed = true
      grants.clear()
      lookups.clear()
    },
  }
}

interface RecentChanges {
  add(change: AccessChange): void
  /** How many there were, from the start on. */
  count(): number
  /** Whether one of those after the first `before` may have ended the grant; true, too, where not all of them are remembered. */
  mayHaveEnded(grant: Grant, before: number): boolean
}

function openRecentChanges(): RecentChanges {
  const changes: AccessChange[] = []
  let count = 0
  return {
    add(change) {
      changes[count % recentMax] = change
      count++
    },
    count: () => count,
    mayHaveEnded(grant, before) {
      if (count - before > recentMax) return true
      for (let number = before; number < count; number++) if (concerns(changes[number % recentMax]!, grant)) return true
      return false
    },
  }
}

/** Whether the change may end what is granted on the channel; who publishes and who owns it is not known before the answer. */
function mayConcern(change: AccessChange, channel: string): boolean {
  return change.kind === 'disconnected' || change.kind === 'channel' ? change.channel === channel : true
}

/** A digest, so that no secret lies in the cache and every key has the same size: 0.3 µs, where HMAC takes 9. */
function cacheKey({ credential, channel, action }: AccessRequest): string {
  return hash('sha256', `${action} ${credential.scheme} ${channel.length} ${channel}${credential.secret}`, 'base64')
}
