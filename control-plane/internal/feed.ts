// The changes of all instances on one database, numbered, for those who follow them over HTTP.
//
// They come from the database itself (NOTIFY in the transaction of each change), so that one made on another instance and one made here take
// the same way, once. While that way is lost nobody can follow: whoever did is told that it ended, and comes back later.

import { Value } from 'typebox/value'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import type { NotificationListener, Notifications } from '../../config/postgres/notifications.ts'
import type { AccessChange } from '../client.ts'
import { changeSchema, type Line } from './wire.ts'

export interface Follower {
  /** The first one is a beat. Must not throw and must not wait. */
  line(line: Line): void
  /** Nothing more comes: changes may go unheard from here on, or the process stops. */
  end(): void
}

export interface Feed {
  /** @returns the way to stop; undefined while changes may go unheard */
  follow(follower: Follower): (() => void) | undefined
  /** @throws Error while changes of other instances may go unheard */
  check(): Promise<void>
  /** Ends all followers; nobody can follow any more. */
  close(): Promise<void>
}

export interface FeedParts {
  /** Opens a connection that hears the notifications of `changesChannel` on the control plane's database; closed by the feed. */
  readonly openNotifications: (listener: NotificationListener) => Notifications
  /** Of that database. */
  readonly outage: OutageReport
  readonly logger: Logger
}

export function openFeed({ openNotifications, outage, logger }: FeedParts): Feed {
  const followers = new Set<Follower>()
  let sequence = 0
  let state: 'opening' | 'whole' | 'lost' | 'closed' = 'opening'

  function tell(line: Line): void {
    for (const follower of followers) follower.line(line)
  }
  function onBeat(): void {
    if (state === 'closed') return
    outage.recovered()
    state = 'whole'
    tell({ type: 'beat', sequence })
  }
  function endAll(): void {
    const ended = [...followers]
    followers.clear()
    for (const follower of ended) follower.end()
  }
  function onLost(error: Error): void {
    if (state === 'closed') return
    outage.failed(error, { meanwhile: 'ingest and readers hear of no changes' })
    state = 'lost'
    endAll()
  }
  function onMessage(payload: string): void {
    const change = parseChange(payload)
    if (change !== undefined) {
      sequence++
      return tell({ type: 'change', sequence, change })
    }
    // A newer instance may know changes that this one does not, and ignoring one would leave an access open.
    logger.warn('another instance told of a change of an unknown kind: those who follow are cut off, and ask anew')
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
      if (state !== 'whole') throw new Error('changes of other instances are not heard')
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
    return Value.Check(changeSchema, change) ? change : undefined
  } catch {
    // Not ours: anybody who may connect to the database may notify.
    return undefined
  }
}
