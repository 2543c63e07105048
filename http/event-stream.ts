// One response of server-sent events (WHATWG HTML, "Server-sent events"): heartbeats, and an end for clients that do not read.

import type { ServerResponse } from 'node:http'
import { Type } from 'typebox'

/** The media type of server-sent events. */
export const eventStreamType = 'text/event-stream'

/** The success of a route that answers events. */
export function eventsAnswer(example: string) {
  return {
    description: 'Events, until either side closes the connection.',
    content: { [eventStreamType]: { schema: Type.String(), example } },
  }
}

/**
 * The response depends on the caller and on the origin of its page. Without the last header nginx would buffer events. A connection kept alive for another
 * request would delay a stop of the process.
 */
export const eventStreamHeaders = {
  'content-type': eventStreamType,
  'cache-control': 'private, no-store',
  vary: 'accept, authorization, origin',
  connection: 'close',
  'x-accel-buffering': 'no',
} as const

/** Why a stream ends, for client programs. */
export type EndReason = 'access_ended' | 'displaced' | 'slow' | 'stopping' | 'unavailable'

export interface EventStream {
  /** Sends `greeting`, and heartbeats from then on. The caller sends the HTTP head. */
  start(response: ServerResponse, greeting: string): void
  /** Does nothing before the start and after the end. */
  send(text: string): void
  /** Bytes that the client has not taken yet; undefined before the start and after the end. */
  pendingBytes(): number | undefined
  /** Sends what is buffered and the reason, and closes the connection. A second call does nothing. */
  end(reason: EndReason): void
  /** Why it ended; undefined while it is open, and if the client left. */
  ended(): EndReason | undefined
}

export interface EventStreamParts {
  readonly heartbeatMs: number
  /** A comment, and what a quiet stream should say again. */
  readonly heartbeat: () => string
  readonly endEvent: (reason: EndReason) => string
  /** Called when data was sent. */
  readonly onSent?: () => void
  /** Called when it ends, and when the client disconnects. */
  readonly onOver?: () => void
}

/** When a stream ends, buffered data must be sent within this time. */
const lastWordsMs = 1_000

export function openEventStream({ heartbeatMs, heartbeat, endEvent, onSent, onOver }: EventStreamParts): EventStream {
  let response: ServerResponse | undefined
  let beat: NodeJS.Timeout | undefined
  let reason: EndReason | undefined

  function send(text: string): void {
    // The event `drain` is not enough for `onSent`: it is emitted only after the buffer exceeded its own limit.
    if (reason === undefined && response?.destroyed === false) response.write(text, onSent)
  }

  function over(): void {
    clearInterval(beat)
    onOver?.()
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
    over()
    if (response === undefined) return
    const ended = response
    ended.end(endEvent(why))
    const deadline = setTimeout(() => ended.destroy(), lastWordsMs)
    ended.once('close', () => clearTimeout(deadline))
  }

  return {
    start(to, greeting) {
      response = to
      to.once('close', over)
      // Writing to a disconnected client must not throw.
      to.on('error', over)
      to.setTimeout(heartbeatMs, onStill)
      send(greeting)
      // If data is still pending, the client will receive that instead.
      beat = setInterval(() => {
        if (to.writableLength === 0) send(heartbeat())
      }, heartbeatMs)
    },
    send,
    pendingBytes: () => (reason !== undefined || response === undefined || response.destroyed ? undefined : response.writableLength),
    end,
    ended: () => reason,
  }
}

/** An event with a name and JSON. */
export function namedEvent(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}

/** @param how a client that reconnects continues */
export function endEventOf(reason: EndReason, how = ''): string {
  const details: Readonly<Record<EndReason, string>> = {
    access_ended: 'the right to read has ended',
    displaced: 'all streams are in use, and your account has the most, or had one for longest: end others before you reconnect',
    slow: `the client reads too slowly: reconnect${how}`,
    stopping: `this process is stopping: reconnect${how}`,
    unavailable: `the stream cannot continue now: reconnect${how}`,
  }
  return namedEvent('end', { reason, detail: details[reason] })
}
