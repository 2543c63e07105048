// One live stream: what a client is sent, how much may wait for it, and its end.

import type { ServerResponse } from 'node:http'
import { type Follower, type Following, placeBehind } from '../../pipeline/live/messages.ts'
import { matcherOf } from '../matching.ts'
import type { Selection } from '../query.ts'
import { type EndReason, endEvent, greeting, heartbeat, lostEvent, recordEvent } from './events.ts'
import type { PlaceTexts } from './place-text.ts'
import { type openRows, payloadOf } from './rows.ts'

export interface StreamParts {
  readonly following: Following
  readonly selection: Selection
  /** Nothing can match: another publisher is asked for than may be read. */
  readonly isEmpty: boolean
  readonly placeTexts: PlaceTexts
  /** Whose places they are. */
  readonly of: string
  readonly rowsOf: ReturnType<typeof openRows>
  readonly queueBytes: number
  readonly heartbeatMs: number
  /** Called when it is told that records are lost. */
  readonly onLost: () => void
}

export interface Stream {
  /** Sends what it begins with, and from then on what comes. Its head is sent by whoever calls. */
  start(response: ServerResponse): void
  /** Nothing is read from the log for it from here on; what waits is sent, and the reason. */
  end(reason: EndReason): void
  /** Why it ended, where it did. */
  ended(): EndReason | undefined
}

/** A client waits so long before it comes back. */
const retryMs = 2_000
/** What waits when a stream ends is sent within this time, or not at all. */
const lastWordsMs = 1_000

export function openStream(parts: StreamParts): Stream {
  const { following, selection, isEmpty, placeTexts, of, rowsOf, queueBytes, heartbeatMs, onLost } = parts
  const matches = matcherOf(selection, payloadOf)
  let response: ServerResponse | undefined
  let beat: NodeJS.Timeout | undefined
  let reason: EndReason | undefined
  let wakeWaiting: (() => void) | undefined

  const here = (): string => placeTexts.encode(following.place(), of)

  function begin(to: ServerResponse): void {
    response = to
    to.once('close', gone)
    // A client that is gone may still be written to, and is not to harm who does.
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

  /** Something was taken. The event `drain` would not do: it comes only after more was waiting than the system's own bound. */
  function sent(): void {
    if (response !== undefined && response.writableLength < queueBytes / 2) wakeWaiting?.()
  }

  /** The client went away, or everything was sent. */
  function gone(): void {
    clearInterval(beat)
    following.stop()
    wakeWaiting?.()
  }

  function onBeat(): void {
    // Who has yet to take what was sent knows by that, and where it is comes with the records.
    if (response?.writableLength === 0) send(heartbeat(here()))
  }

  /**
   * Nothing went over the connection for as long as from one heartbeat to the next. The socket knows: it looks whether any byte of what waits was
   * taken, where the callback of a write comes only once all of it was.
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
    const ending = response
    ending.end(endEvent(why))
    const cut = setTimeout(() => ending.destroy(), lastWordsMs)
    ending.once('close', () => clearTimeout(cut))
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
        if (live.format !== selection.format || !matches(live.row)) continue
        let id: string
        if (at + 1 === batch.rowCount) id = placeTexts.encode(placeBehind(at + 1, message, log, offsets), of)
        else {
          beginning ??= placeTexts.encode({ log, offsets, partition, rows: first }, of)
          id = placeTexts.behind(beginning, at + 1 - first)
        }
        text += recordEvent(id, live.json())
      }
      if (text !== '') send(text)
      return at
    },
    room() {
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
