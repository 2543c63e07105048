// What ingest and readers ask of the control plane, in process or over HTTP (remote/): the only file of this folder that they import.

import { hash } from 'node:crypto'
import { idSchema, isId } from './ids.ts'

/** The Authorization header, taken apart. */
export interface Credential {
  readonly scheme: 'Thing' | 'Bearer'
  readonly secret: string
}

export interface AccessRequest {
  readonly credential: Credential
  readonly channel: string
  readonly action: 'publish' | 'read'
}

/**
 * The answer. `publisher` is the thing whose key was shown; null where the channel's owner reads the whole channel.
 * `owner` is the user that the thing or the channel belongs to. `endsMs` is the instant at which the credential itself ends, in
 * milliseconds since 1970; a thing's key has none. A refusal does not tell whether the channel exists.
 */
export type Access =
  | { readonly allowed: true; readonly publisher: string | null; readonly owner: string; readonly endsMs?: number }
  | { readonly allowed: false; readonly reason: 'unauthenticated' | 'forbidden' }

/** Something that may end an access granted before; `unheard`: changes were missed, so it may be any. */
export type AccessChange =
  | { readonly kind: 'unheard' }
  | { readonly kind: 'disconnected'; readonly thing: string; readonly channel: string }
  | { readonly kind: 'thing'; readonly thing: string }
  | { readonly kind: 'channel'; readonly channel: string }
  | { readonly kind: 'user'; readonly user: string }

export interface AccessControl {
  /**
   * A thing may publish to and read from the channels it is connected to; a user may read the channels that they own and
   * publish to none.
   *
   * @throws AccessUnavailableError when it cannot be known now
   */
  authorize(request: AccessRequest): Promise<Access>
  /** Calls `listener` before the operation that caused the change is answered. Returns the way to stop. */
  onChange(listener: (change: AccessChange) => void): () => void
  /**
   * Up to when the listeners have heard of every change, by the clock of `performance.now()`. It stands still while changes may go
   * unheard. Left out where none can, in process.
   */
  heardMs?(): number
}

/** The control plane cannot be asked now: answer 503, never a guess. */
export class AccessUnavailableError extends Error {
  override readonly name = 'AccessUnavailableError'
}

/** A channel that is never made. Asked for in place of an id that is none, it tells only whether the credential is good. */
export const noChannel = '00000000-0000-0000-0000-000000000000'

/** The channel in a path. */
export const channelParameter = idSchema("The channel's id.")

/** A channel's id in the form in which it is stored and compared, lower case; undefined for what is no id. */
export function parseChannel(text: string): string | undefined {
  return isId(text) ? text.toLowerCase() : undefined
}

/**
 * Takes an Authorization header apart (RFC 9110 §11.4; the scheme's case does not matter). Undefined where it is missing,
 * of another scheme, or not one token after the scheme.
 */
export function parseCredential(header: string | undefined): Credential | undefined {
  const match = header === undefined ? null : /^(thing|bearer) +([^\s,]+) *$/i.exec(header)
  if (match === null) return undefined
  const scheme = match[1]?.length === 5 ? 'Thing' : 'Bearer'
  return { scheme, secret: match[2] as string }
}

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
  /** About 450 bytes each. */
  readonly entriesMax: number
}

interface Grant {
  readonly access: Promise<Access>
  readonly publisher: string | null
  readonly owner: string
  readonly channel: string
  readonly askedMs: number
  readonly endsMs: number
}

/**
 * Remembers grants, never refusals: a right given works at once. A change drops what it concerns before the operation that
 * caused it is answered, and a lookup that was under way then is neither kept nor joined. Lookups of the same question at
 * the same time are one.
 */
export function cacheAccess(
  access: AccessControl,
  { lifetimeMs, unheardMsMax = Infinity, entriesMax }: AccessCacheLimits,
): AccessControl & { close(): void } {
  // All grants live equally long but for those whose credential ends sooner, so what is first goes first; one that ended sooner
  // is no longer used, and lies here at most until its lifetime would have been over.
  const grants = new Map<string, Grant>()
  const lookups = new Map<string, Promise<Access>>()
  let changes = 0

  const stop = access.onChange(change => {
    changes++
    lookups.clear()
    for (const [key, grant] of grants) if (concerns(change, grant)) grants.delete(key)
  })

  async function ask(key: string, request: AccessRequest): Promise<Access> {
    const changesBefore = changes
    const askedMs = performance.now()
    try {
      const answer = await access.authorize(request)
      if (answer.allowed && changes === changesBefore) {
        const credentialEndsMs = answer.endsMs === undefined ? Infinity : performance.now() + answer.endsMs - Date.now()
        keep(key, answer, request.channel, askedMs, Math.min(askedMs + lifetimeMs, credentialEndsMs))
      }
      return answer
    } finally {
      // After a change the entry may be a newer lookup's.
      if (changes === changesBefore) lookups.delete(key)
    }
  }

  function keep(key: string, answer: Access & { allowed: true }, channel: string, askedMs: number, endsMs: number): void {
    dropExpired()
    const oldest = grants.keys().next()
    if (grants.size >= entriesMax && !oldest.done) grants.delete(oldest.value)
    const { publisher, owner } = answer
    grants.set(key, { access: Promise.resolve(answer), publisher, owner, channel, askedMs, endsMs })
  }

  function isUsable({ askedMs, endsMs }: Grant): boolean {
    const nowMs = performance.now()
    return endsMs > nowMs && Math.max(askedMs, access.heardMs?.() ?? Infinity) + unheardMsMax > nowMs
  }

  function dropExpired(): void {
    const nowMs = performance.now()
    for (const [key, grant] of grants) {
      if (grant.endsMs > nowMs) return
      grants.delete(key)
    }
  }

  return {
    authorize(request) {
      const key = cacheKey(request)
      const grant = grants.get(key)
      if (grant !== undefined) {
        if (isUsable(grant)) return grant.access
        grants.delete(key)
      }
      const underWay = lookups.get(key)
      if (underWay !== undefined) return underWay
      const lookup = ask(key, request)
      lookups.set(key, lookup)
      return lookup
    },
    onChange: listener => access.onChange(listener),
    close() {
      stop()
      changes++
      grants.clear()
      lookups.clear()
    },
  }
}

/** A digest, so that no secret lies in the cache and every key has the same size: 0.3 µs, where HMAC takes 9. */
function cacheKey({ credential, channel, action }: AccessRequest): string {
  return hash('sha256', `${action} ${credential.scheme} ${channel.length} ${channel}${credential.secret}`, 'base64')
}

function concerns(change: AccessChange, { publisher, owner, channel }: Grant): boolean {
  if (change.kind === 'unheard') return true
  if (change.kind === 'disconnected') return publisher === change.thing && channel === change.channel
  if (change.kind === 'thing') return publisher === change.thing
  if (change.kind === 'channel') return channel === change.channel
  return owner === change.user
}
