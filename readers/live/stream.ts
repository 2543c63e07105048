// One live stream: sends rows to a client, limits its buffer, and ends it.

import type { ServerResponse } from 'node:http'
import { type EndReason, openEventStream } from '../../http/event-stream.ts'
import { type Follower, type Following, streamOffsetBehind } from '../../pipeline/live/messages.ts'
import { matcherOf } from '../matching.ts'
import type { Filter } from '../reader.ts'
import type { EventIds } from './event-ids.ts'
import { endEvent, greeting, heartbeat, lostEvent, recordEvent } from './events.ts'
import { payloadOf, type rowsOf } from './rows.ts'

/** The components of one stream. */
export interface StreamParts {
  readonly following: Following
  readonly filter: Filter
  /** True if no row can match, because the requested publisher is not the one that may be read. */
  readonly isEmpty: boolean
  readonly eventIds: EventIds
  /** The context to which event ids are bound. */
  readonly of: string
  readonly rowsOf: typeof rowsOf
  readonly queueBytes: number
  readonly heartbeatMs: number
  /** Called when records are lost. */
  readonly onLost: () => void
}

/** One live stream of a client. */
export interface Stream {
  /** Sends the greeting, and then new rows. The caller sends the HTTP head. */
  start(response: ServerResponse): void
  /** Stops reading from the log; sends buffered data and the reason. */
  end(reason: EndReason): void
  /** Why it ended; undefined while it is open. */
  ended(): EndReason | undefined
}

/** How long a client waits before it reconnects. */
const retryMs = 2_000

/** Does not read before `start`. */
export function openStream(parts: StreamParts): Stream {
  const { following, filter, isEmpty, eventIds, of, rowsOf, queueBytes, heartbeatMs, onLost } = parts
  const matches = matcherOf(filter, payloadOf)
  let wakeWaiting: (() => void) | undefined
  const here = (): string => eventIds.encode(following.streamOffset(), of)
  const events = openEventStream({
    heartbeatMs,
    heartbeat: () => heartbeat(here()),
    endEvent,
    onSent() {
      if (hasSpace()) wakeWaiting?.()
    },
    onOver() {
      following.stop()
      wakeWaiting?.()
    },
  })

  function hasSpace(): boolean {
    const pending = events.pendingBytes()
    return pending === undefined || pending < queueBytes / 2
  }

  function tellLost(): void {
    events.send(lostEvent())
    onLost()
  }

  const follower: Follower = {
    partsOf: ({ batch }) => batch.rowCount,
    take(message, first, end, offsets) {
      const { batch, partition } = message
      const pending = events.pendingBytes()
      if (pending === undefined || isEmpty) return end
      const { log } = following
      const rows = rowsOf(message)
      let text = ''
      let beginning: string | undefined
      let at = first
      for (; at < end && pending + text.length < queueBytes; at++) {
        const live = rows.at(at)!
        if (live.format !== filter.format || !matches(live.row)) continue
        let id: string
        if (at + 1 === batch.rowCount) id = eventIds.encode(streamOffsetBehind(at + 1, message, log, offsets), of)
        else {
          beginning ??= eventIds.encode({ log, offsets, partition, rows: first }, of)
          id = eventIds.behind(beginning, at + 1 - first)
        }
        text += recordEvent(id, live.json())
      }
      if (text !== '') events.send(text)
      return at
    },
    space() {
      if (hasSpace()) return undefined
      return new Promise(resolve => {
        wakeWaiting = resolve
      })
    },
    lost: tellLost,
    end: () => events.end('unavailable'),
  }

  return {
    start(response) {
      events.start(response, greeting(retryMs, here()))
      if (following.lost) tellLost()
      following.start(follower)
    },
    end: reason => events.end(reason),
    ended: () => events.ended(),
  }
}
