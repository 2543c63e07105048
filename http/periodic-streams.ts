// Open event streams with an event a second each, for as long as the reader has access; a bounded number, which a stop of the process ends.

import type { FastifyReply } from 'fastify'
import type { Logger } from '../config/logger.ts'
import { HttpError } from './errors.ts'
import { type EventStream, endEventOf, eventStreamHeaders, openEventStream } from './event-stream.ts'
import { openFairSlots } from './requests/fair-slots.ts'

export interface PeriodicStreamsParts {
  readonly max: number
  /** What is limited, in errors. */
  readonly what: string
  readonly logger: Logger
}

export interface Watcher {
  /** The user, between whom the streams are shared. */
  readonly of: string
  /** The next event: called at once and each second. @throws HttpError once the reader has no access */
  readonly next: () => Promise<string>
  readonly onOver?: () => void
}

const intervalMs = 1000
const pendingBytesMax = 64 * 1024
/** A client that takes nothing for this long is disconnected. */
const heartbeatMs = 15_000
/** How long a client waits before it reconnects. */
const greeting = 'retry: 2000\n\n'

export function openPeriodicStreams({ max, what, logger }: PeriodicStreamsParts) {
  /** What sends the next event of each. */
  const open = new Map<EventStream, () => void>()
  const slots = openFairSlots({ max, what })
  let isClosed = false
  /** Logged once, not for each client that tries again. */
  let hasFailed = false
  let stopSending: (() => void) | undefined

  function startSending(): () => void {
    const sendAll = () => {
      for (const send of open.values()) send()
    }
    const timer = setInterval(sendAll, intervalMs)
    return () => {
      clearInterval(timer)
      stopSending = undefined
    }
  }

  return {
    /** Opens a stream whose access was just checked. @throws HttpError `too_many_requests`, `unavailable` */
    open(reply: FastifyReply, { of, next, onOver }: Watcher): void {
      const response = reply.raw
      if (isClosed || response.destroyed) throw new HttpError('unavailable', 'this process is stopping: retry')
      const release = slots.take(of, () => stream.end('displaced'))
      const stream = openEventStream({
        heartbeatMs,
        heartbeat: () => ': heartbeat\n\n',
        endEvent: endEventOf,
        onOver() {
          if (!open.delete(stream)) return
          release()
          onOver?.()
          if (open.size === 0) stopSending?.()
        },
      })
      let sending: Promise<void> | undefined
      const send = () => {
        sending ??= sendNext().finally(() => (sending = undefined))
      }
      open.set(stream, send)
      stopSending ??= startSending()
      reply.hijack()
      response.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), ...eventStreamHeaders })
      stream.start(response, greeting)
      send()

      async function sendNext(): Promise<void> {
        try {
          const text = await next()
          hasFailed = false
          // A client that does not read misses events, until it is disconnected.
          if ((stream.pendingBytes() ?? 0) < pendingBytesMax) stream.send(text)
        } catch (error) {
          const isRefused = error instanceof HttpError && error.status < 500
          // Clients connect again, and say meanwhile that they are not up to date.
          stream.end(isRefused ? 'access_ended' : 'unavailable')
          if (isRefused || hasFailed) return
          hasFailed = true
          logger.warn({ err: error }, 'cannot make the next event of a stream now')
        }
      }
    },

    /** Ends all streams, and opens no more: they would keep the server from closing. */
    endAll(): void {
      isClosed = true
      for (const stream of open.keys()) stream.end('stopping')
    },
  }
}
