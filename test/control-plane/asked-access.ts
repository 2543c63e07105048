// An access control whose answers a test gives, and which records its requests.

import { randomUUID } from 'node:crypto'
import type { Access, AccessChange, AccessControl, AccessRequest } from '../../control-plane/client.ts'

export const channel = randomUUID()
export const granted: Access = { allowed: true, publisher: 'thing-1', owner: 'user-1' }

export function publishWith(secret: string, on: string = channel): AccessRequest {
  return { credential: { scheme: 'Thing', secret }, channel: on, action: 'publish' }
}

/** An access control whose answers the test gives, one by one or always the same. */
export function openAccess(answer: (request: AccessRequest) => Access | Promise<Access>, heardMs?: () => number) {
  const listeners = new Set<(change: AccessChange) => void>()
  const asked: AccessRequest[] = []
  const control: AccessControl = {
    async authorize(request) {
      asked.push(request)
      return await answer(request)
    },
    deletedChannels: async () => [],
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    ...(heardMs === undefined ? {} : { heardMs }),
  }
  return {
    control,
    asked,
    listeners,
    change(change: AccessChange) {
      for (const listener of listeners) listener(change)
    },
  }
}
