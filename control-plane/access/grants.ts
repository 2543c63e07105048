// Cached grants, found by their request and by what a change may end.

import { type Access, type AccessChange, concerns } from '../client.ts'

export interface Grant {
  readonly access: Access
  readonly publisher: string | null
  readonly owner: string
  readonly channel: string
  readonly askedMs: number
  readonly endsMs: number
}

export interface Grants {
  get(key: string): Grant | undefined
  /** Replaces the grant under this key; drops the oldest of all if there would be too many. */
  keep(key: string, grant: Grant): void
  drop(key: string): void
  /** Drops the grants that the change may end. Looks only at the grants of one thing, channel or user. */
  dropConcerned(change: AccessChange): void
  /** Drops grants from the oldest on, up to the first that is still valid at this time (`performance.now()`). */
  dropEnded(nowMs: number): void
  clear(): void
}

export function openGrants(entriesMax: number): Grants {
  // In the order in which they were added.
  const grants = new Map<string, Grant>()
  /** The keys of the grants of a thing, channel or user, by its id. Most have one, and a set for each would be 150 bytes. */
  const keysOf = new Map<string, string | Set<string>>()

  function link(id: string, key: string): void {
    const keys = keysOf.get(id)
    if (keys instanceof Set) keys.add(key)
    else keysOf.set(id, keys === undefined ? key : new Set([keys, key]))
  }

  function unlink(id: string, key: string): void {
    const keys = keysOf.get(id)
    if (keys instanceof Set) keys.delete(key)
    if (keys === key || (keys instanceof Set && keys.size === 0)) keysOf.delete(id)
  }

  function drop(key: string): void {
    const grant = grants.get(key)
    if (grant === undefined) return
    grants.delete(key)
    for (const id of idsOf(grant)) unlink(id, key)
  }

  function clear(): void {
    grants.clear()
    keysOf.clear()
  }

  return {
    get: key => grants.get(key),
    keep(key, grant) {
      drop(key)
      const oldest = grants.keys().next()
      if (grants.size >= entriesMax && !oldest.done) drop(oldest.value)
      grants.set(key, grant)
      for (const id of idsOf(grant)) link(id, key)
    },
    drop,
    dropConcerned(change) {
      if (change.kind === 'unheard') return clear()
      const keys = keysOf.get(idOf(change)) ?? []
      for (const key of typeof keys === 'string' ? [keys] : keys) if (concerns(change, grants.get(key)!)) drop(key)
    },
    dropEnded(nowMs) {
      for (const [key, grant] of grants) {
        if (grant.endsMs > nowMs) return
        drop(key)
      }
    },
    clear,
  }
}

function idsOf({ publisher, owner, channel }: Grant): string[] {
  return publisher === null ? [owner, channel] : [publisher, owner, channel]
}

/** The thing, channel or user whose grants the change concerns. */
function idOf(change: Exclude<AccessChange, { kind: 'unheard' }>): string {
  if (change.kind === 'channel') return change.channel
  return change.kind === 'user' ? change.user : change.thing
}
