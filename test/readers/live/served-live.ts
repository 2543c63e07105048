// A live stream over HTTP for the tests of its route: who may read is made up and may change, the log is in memory.

import type { AddressInfo } from 'node:net'
import { createLogger } from '../../../config/logger.ts'
import { type Access, type AccessChange, type AccessControl, AccessUnavailableError } from '../../../control-plane/client.ts'
import { createServer } from '../../../http/server.ts'
import type { LiveMessages } from '../../../pipeline/live/messages.ts'
import type { LiveOptions } from '../../../readers/live/options.ts'
import { liveRoutes } from '../../../readers/live/routes.ts'
import { type FakeTopic, openFakeTopic } from '../../pipeline/live/fake-topic.ts'
import { openLive } from '../../pipeline/live/follower.ts'
import { type EventClient, openEvents } from './event-source.ts'

export const channel = '6f1d4f3e-6d0b-4a65-8f3e-0d9d0c1e6a11'
export const foreign = '6f1d4f3e-6d0b-4a65-8f3e-0d9d0c1e6a12'
export const owner = { authorization: 'Bearer owner' }
/** The thing whose id the fake topic's messages have as their publisher. */
export const thing = { authorization: 'Thing one' }
export const otherThing = { authorization: 'Thing two' }
export const stranger = { authorization: 'Bearer stranger' }

export interface FakeAccess extends AccessControl {
  /** By secret, or by secret and a channel. A secret that is missing is none. */
  readonly rights: Map<string, Access>
  isAway: boolean
  change(change: AccessChange): void
  listeners(): number
}

export function openFakeAccess(): FakeAccess {
  const listeners = new Set<(change: AccessChange) => void>()
  const access: FakeAccess = {
    rights: new Map<string, Access>([
      ['owner', { allowed: true, publisher: null, owner: 'user' }],
      ['one', { allowed: true, publisher: 't1', owner: 'user' }],
      ['two', { allowed: true, publisher: 't2', owner: 'user' }],
      ['stranger', { allowed: false, reason: 'forbidden' }],
    ]),
    isAway: false,
    async authorize({ credential: { secret }, channel: asked }) {
      if (access.isAway) throw new AccessUnavailableError('it is away')
      const channelRight = access.rights.get(`${secret} ${asked}`)
      if (channelRight !== undefined) return channelRight
      const right = access.rights.get(secret) ?? { allowed: false, reason: 'unauthenticated' }
      return right.allowed && asked !== channel ? { allowed: false, reason: 'forbidden' } : right
    },
    deletedChannels: async () => [],
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    change: change => listeners.forEach(listener => listener(change)),
    listeners: () => listeners.size,
  }
  return access
}

export interface ServedLive extends AsyncDisposable {
  readonly url: string
  readonly topic: FakeTopic
  readonly access: FakeAccess
  /** What was reported of streams, in order: `opened`, `lost`, or why one ended. */
  readonly told: string[]
  open(query?: string, headers?: Record<string, string>, of?: string): Promise<EventClient>
  get(query?: string, headers?: Record<string, string>, of?: string): Promise<{ status: number; headers: Headers; text: string }>
  close(): Promise<void>
}

const defaults: LiveOptions = { streamsMax: 100, queueBytes: 64 * 1024, heartbeatSeconds: 15 }

export async function serveLive(
  options: Partial<LiveOptions> = {},
  live?: LiveMessages | 'none',
  allowedOrigins: string[] = [],
): Promise<ServedLive> {
  const topic = openFakeTopic(2)
  const own = openLive(topic)
  const access = openFakeAccess()
  const logger = createLogger({ level: 'silent', pretty: false })
  const app = createServer({ logger, allowedOrigins })
  const told: string[] = []
  await app.register(
    liveRoutes({
      live: live === 'none' ? undefined : (live ?? own),
      access,
      eventIdKey: Buffer.alloc(32, 9),
      options: { ...defaults, ...options },
      metrics: { opened: () => void told.push('opened'), closed: reason => void told.push(reason), lost: () => void told.push('lost') },
      logger,
    }),
  )
  await app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  const path = (query: string, of: string): string => `${url}/channels/${of}/messages/stream${query}`
  let closing: Promise<void> | undefined
  const close = (): Promise<void> => (closing ??= app.close().then(() => own.close()))
  return {
    url,
    topic,
    access,
    told,
    open: (query = '', headers = owner, of = channel) => openEvents(path(query, of), headers),
    async get(query = '', headers = owner, of = channel) {
      const answer = await fetch(path(query, of), { headers })
      return { status: answer.status, headers: answer.headers, text: await answer.text() }
    },
    close,
    [Symbol.asyncDispose]() {
      const closed = close()
      // A client that left keeps a connection ready for seconds.
      app.server.closeAllConnections()
      return closed
    },
  }
}
