// Ends what follows a channel, a stream or a subscription, when its access is revoked: the access is rechecked when a change may concern it, and periodically.
//
// When changes were missed, the access of all of them is rechecked, in addition to normal requests. So only a limited number runs at a time, those
// after a change first. A missing answer ends one only if something may have changed since the last one.

import type { Logger } from '../../config/logger.ts'
import { type Access, type AccessControl, type AccessRequest, AccessUnavailableError, concerns } from '../../control-plane/client.ts'

/** What ends with its access. */
export interface Followed {
  end(reason: 'access_ended' | 'unavailable'): void
  /** Why it ended; undefined while it is open. */
  ended(): unknown
}

/** The authenticated reader. */
export interface StreamReader {
  readonly request: AccessRequest
  readonly right: Access & { readonly allowed: true }
}

/** The access rights of all that is followed. */
export interface Rights {
  /**
   * Watches the access until `forget`. Resolves after a first check that nothing has changed since: if it is not allowed, `followed` has been ended.
   *
   * @param publisher who must have it: a thing, or null for the owner of the channel
   */
  watch(followed: Followed, request: AccessRequest, publisher: string | null): Promise<void>
  forget(followed: Followed): void
}

interface Watched {
  readonly followed: Followed
  readonly request: AccessRequest
  readonly publisher: string | null
  /** As the last positive answer says; undefined before the first, when any change may concern it. */
  owner: string | undefined
  /** Resolves after the first check. */
  readonly looked: PromiseWithResolvers<void>
  state: 'resting' | 'waiting' | 'asking'
  /** A change that may concern it happened since the request with the last positive answer. */
  isInDoubt: boolean
  /** Number of changes that concerned it. */
  changes: number
  askedMs: number
  /** Time of the request with the last positive answer. */
  knownMs: number
  endsMs: number | undefined
  /** Its end was asked for, which may take a moment. */
  isEnded: boolean
}

/** Parallel checks. The control plane's client allows ten times as many, reserved for waiting requests. */
const requestsAtOnce = 100
const sweepMs = 1_000
/** Recheck interval while changes may be missed: a lookup in the cache of grants, which knows how long a grant may be used. */
const askAgainMs = 5_000
/** Recheck interval while changes are received: a safety net, each time with a database query. */
const askAgainHeardMs = 60_000
/** How long an access is assumed to be valid after it was last certain, as for a cached grant. */
const unheardMsMax = 5_000

/** Listens for changes while something is watched. */
export function watchRights(access: AccessControl, logger: Pick<Logger, 'error'>): Rights {
  const watched = new Map<Followed, Watched>()
  const pressing: Watched[] = []
  const routine: Watched[] = []
  let underWay = 0
  let stopListening: (() => void) | undefined

  function listen(): () => void {
    const forget = access.onChange(change => {
      for (const one of watched.values()) {
        const { publisher, owner, request } = one
        if (owner === undefined || concerns(change, { publisher, owner, channel: request.channel })) doubt(one)
      }
      work()
    })
    const againMs = access.heardMs === undefined ? askAgainHeardMs : askAgainMs
    const sweep = setInterval(() => {
      const nowMs = performance.now()
      for (const one of watched.values()) {
        if (one.endsMs !== undefined && one.endsMs <= Date.now()) endOne(one, 'access_ended')
        else if (one.state === 'resting' && (nowMs - one.askedMs >= againMs || !isCertain(one))) {
          one.state = 'waiting'
          routine.push(one)
        }
      }
      work()
    }, sweepMs)
    return () => {
      forget()
      clearInterval(sweep)
    }
  }

  function doubt(one: Watched): void {
    one.changes++
    one.isInDoubt = true
    if (one.state === 'asking') return
    // It may also be in the other queue, where it is then skipped.
    one.state = 'waiting'
    pressing.push(one)
  }

  function work(): void {
    while (underWay < requestsAtOnce) {
      const one = pressing.shift() ?? routine.shift()
      if (one === undefined) return
      if (one.state !== 'waiting') continue
      if (isOpen(one)) void ask(one)
      else one.looked.resolve()
    }
  }

  /** Ends it if the access is revoked, or if it may have changed and cannot be checked. Never rejects. */
  async function ask(one: Watched): Promise<void> {
    const { request, publisher, changes } = one
    one.state = 'asking'
    underWay++
    const askedMs = performance.now()
    one.askedMs = askedMs
    try {
      const now = await access.authorize(request)
      if (!now.allowed || now.publisher !== publisher) endOne(one, 'access_ended')
      else {
        one.owner = now.owner
        one.endsMs = now.endsMs
        one.knownMs = askedMs
        // An answer that was pending when a change arrived may be from before it.
        one.isInDoubt = one.changes !== changes
      }
    } catch (error) {
      if (!(error instanceof AccessUnavailableError)) logger.error({ err: error }, 'cannot check the access of one who follows a channel')
      if (one.isInDoubt || !isCertain(one)) endOne(one, 'unavailable')
      // Rechecked by the next sweep.
      one.askedMs = -Infinity
    }
    underWay--
    one.state = 'resting'
    if (one.isInDoubt && isOpen(one)) {
      one.state = 'waiting'
      pressing.push(one)
    } else one.looked.resolve()
    work()
  }

  function endOne(one: Watched, reason: 'access_ended' | 'unavailable'): void {
    one.isEnded = true
    one.followed.end(reason)
  }

  /** Whether no revocation can have been missed. */
  function isCertain({ knownMs }: Watched): boolean {
    return Math.max(knownMs, access.heardMs?.() ?? Infinity) + unheardMsMax > performance.now()
  }

  function isOpen(one: Watched): boolean {
    return watched.get(one.followed) === one && !one.isEnded && one.followed.ended() === undefined
  }

  return {
    async watch(followed, request, publisher) {
      const one: Watched = {
        followed,
        request,
        publisher,
        owner: undefined,
        looked: Promise.withResolvers(),
        state: 'resting',
        isInDoubt: true,
        changes: 0,
        askedMs: -Infinity,
        knownMs: -Infinity,
        endsMs: undefined,
        isEnded: false,
      }
      watched.set(followed, one)
      stopListening ??= listen()
      doubt(one)
      work()
      await one.looked.promise
    },
    forget(followed) {
      watched.delete(followed)
      if (watched.size > 0) return
      stopListening?.()
      stopListening = undefined
    },
  }
}
