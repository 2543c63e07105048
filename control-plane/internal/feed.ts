// The changes of all instances on one database, numbered, for followers over HTTP.
//
// They come from the database itself (NOTIFY in the transaction of each change), so that one made on another instance and one made here take
// the same way, once. While that connection is lost the feed takes no followers: those it has are ended, and reconnect later.

import { Check } from 'typebox/schema'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import type { NotificationListener, Notifications } from '../../database/notifications.ts'
import type { AccessChange } from '../client.ts'
import { changeSchema, type Line } from './wire.ts'

export interface Follower {
  /** Called for each line; the first one is a beat. Must neither throw nor block. */
  line(line: Line): void
  /** No more lines follow: changes may be missed from here on, or the process stops. */
  end(): void
}

export interface Feed {
  /** @returns a function that stops it; undefined while changes may be missed */
  follow(follower: Follower): (() => void) | undefined
  /** @throws Error while changes of other instances may be missed */
  check(): Promise<void>
  /** Ends all followers, and takes no more. */
  close(): Promise<void>
}

export interface FeedParts {
  /** Opens a connection that receives the notifications of `accessChangesChannel` on the control plane's database; the feed closes it. */
  readonly openNotifications: (listener: NotificationListener) => Notifications
  /** The outage report of that database. */
  readonly outage: OutageReport
  readonly logger: Logger
}

export function openFeed({ openNotifications, outage, logger }: FeedParts): Feed {
  const followers = new Set<Follower>()
  let sequence = 0
  let state: 'opening' | 'whole' | 'lost' | 'closed' = 'opening'

  function sendLine(line: Line): void {
    for (const follower of followers) follower.line(line)
  }
  function onBeat(): void {
    if (state === 'closed') return
    outage.recovered()
    state = 'whole'
    sendLine({ type: 'beat', sequence })
  }
  function endAll(): void {
    const ended = [...followers]
    followers.clear()
    for (const follower of ended) follower.end()
  }
  function onLost(error: Error): void {
    if (state === 'closed') return
    outage.failed(error, { meanwhile: 'ingest and readers receive no changes' })
    state = 'lost'
    endAll()
  }
  function onMessage(payload: string): void {
    const change = parseChange(payload)
    if (change !== undefined) {
      sequence++
      return sendLine({ type: 'change', sequence, change })
    }
    // A newer instance may know kinds of changes that this one does not, and ignoring one would leave an access open.
    logger.warn('another instance announced a change of an unknown kind: closing the change streams, so that clients reconnect')
    endAll()
  }

  const notifications = openNotifications({ onMessage, onBeat, onLost })

  return {
    follow(follower) {
      if (state !== 'whole') return undefined
      followers.add(follower)
      follower.line({ type: 'beat', sequence })
      return () => void followers.delete(follower)
    },
    async check() {
      if (state !== 'whole') throw new Error('changes of other instances are not received')
    },
    async close() {
      state = 'closed'
      endAll()
      await notifications.close()
    },
  }
}

function parseChange(payload: string): AccessChange | undefined {
  try {
    const change: unknown = JSON.parse(payload)
    return Check(changeSchema, change) ? change : undefined
  } catch {
    // Not ours: anyone who may connect to the database may notify.
    return undefined
  }
}
