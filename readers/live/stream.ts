// One live stream: sends rows to a client, limits its buffer, and ends it.

import type { ServerResponse } from 'node:http'
import { type Follower, type Following, streamOffsetBehind } from '../../pipeline/live/messages.ts'
import { matcherOf } from '../matching.ts'
import type { Filter } from '../reader.ts'
import type { EventIds } from './event-ids.ts'
import { type EndReason, endEvent, greeting, heartbeat, lostEvent, recordEvent } from './events.ts'
import { type openRows, payloadOf } from './rows.ts'

/** The components of one stream. */
export interface StreamParts {
  readonly following: Following
  readonly filter: Filter
  /** True if no row can match, because the requested publisher is not the one that may be read. */
  readonly isEmpty: boolean
  readonly eventIds: EventIds
  /** The context to which event ids are bound. */
  readonly of: string
  readonly rowsOf: ReturnType<typeof openRows>
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
/** When a stream ends, buffered data must be sent within this time. */
const lastWordsMs = 1_000

/** Does not read before `start`. */
export function openStream(parts: StreamParts): Stream {
  const { following, filter, isEmpty, eventIds, of, rowsOf, queueBytes, heartbeatMs, onLost } = parts
  const matches = matcherOf(filter, payloadOf)
  let response: ServerResponse | undefined
  let beat: NodeJS.Timeout | undefined
  let reason: EndReason | undefined
  let wakeWaiting: (() => void) | undefined

  const here = (): string => eventIds.encode(following.streamOffset(), of)

  function begin(to: ServerResponse): void {
    response = to
    to.once('close', gone)
    // Writing to a disconnected client must not throw.
    to.on('error', gone)
    to.setTimeout(heartbeatMs, onStill)
    send(greeting(retryMs, here()))
    if (following.lost) tellLost()
    beat = setInterval(onBeat, heartbeatMs)
    following.start(follower)
  }

  function send(text: string): void {
    if (reason === undefined && response?.destroyed === false) response.write(text, sent)
  }

  function tellLost(): void {
    send(lostEvent())
    onLost()
  }

  /** Called when data was sent. The event `drain` is not enough: it is emitted only after the buffer exceeded its own limit. */
  function sent(): void {
    if (response !== undefined && response.writableLength < queueBytes / 2) wakeWaiting?.()
  }

  /** The client disconnected, or everything was sent. */
  function gone(): void {
    clearInterval(beat)
    following.stop()
    wakeWaiting?.()
  }

  function onBeat(): void {
    // If data is still pending, the client will receive that instead, with ids of its own.
    if (response?.writableLength === 0) send(heartbeat(here()))
  }

  /**
   * Called when nothing was transferred for a heartbeat interval. It uses the socket's time-out, which is reset by every byte sent,
   * whereas the callback of a write is only called after the whole write.
   */
  function onStill(): void {
    if (response !== undefined && response.writableLength > 0) end('slow')
  }

  function end(why: EndReason): void {
    if (reason !== undefined) return
    reason = why
    clearInterval(beat)
    following.stop()
    wakeWaiting?.()
    if (response === undefined) return
    const ended = response
    ended.end(endEvent(why))
    const deadline = setTimeout(() => ended.destroy(), lastWordsMs)
    ended.once('close', () => clearTimeout(deadline))
  }

  const follower: Follower = {
    take(message, first, end, offsets) {
      const { batch, partition } = message
      const to = response!
      if (reason !== undefined || to.destroyed || isEmpty) return end
      const { log } = following
      const rows = rowsOf(message)
      let text = ''
      let beginning: string | undefined
      let at = first
      for (; at < end && to.writableLength + text.length < queueBytes; at++) {
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
      if (text !== '') send(text)
      return at
    },
    space() {
      if (reason !== undefined || response === undefined || response.destroyed || response.writableLength < queueBytes / 2) return undefined
      return new Promise(resolve => {
        wakeWaiting = resolve
      })
    },
    lost: tellLost,
    end: () => end('unavailable'),
  }

  return { start: begin, end, ended: () => reason }
}
