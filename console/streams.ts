// The open streams of the console: a bounded number, each ended when its reader loses access or reads too slowly, or the process stops.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../config/logger.ts'
import type { AccessChange, AccessControl } from '../control-plane/client.ts'
import { HttpError } from '../http/errors.ts'
import { type EventStream, endEventOf, eventStreamHeaders, eventStreamType, openEventStream } from '../http/event-stream.ts'
import { mediaRanges, weightOf } from '../http/requests/accept.ts'
import { openConcurrencyLimit } from '../http/requests/concurrency-limit.ts'

export interface Watcher {
  /** Whom the number of streams is limited for. */
  readonly of: string
  /** The same for watchers with the same access, which is then checked once for all of them. */
  readonly access: string
  /** Whether the access still holds. */
  readonly isAllowed: () => Promise<boolean>
  /** Whether the change may end the access; it is also checked every few seconds, since tokens expire and rights on things change unannounced. */
  readonly isConcerned: (change: AccessChange) => boolean
  readonly onOver: (stream: EventStream) => void
}

export interface ConsoleStreams {
  /**
   * Opens a stream whose access was just checked.
   *
   * @throws HttpError `not_acceptable`, `too_many_requests`, `unavailable`, and `forbidden` if the access ended meanwhile
   */
  open(request: FastifyRequest, reply: FastifyReply, watcher: Watcher): Promise<EventStream>
  /** Ends all streams, and opens no more: they would keep the server from closing. */
  endAll(): void
}

export interface ConsoleStreamsParts {
  readonly access: Pick<AccessControl, 'onChange'>
  readonly max: number
  readonly eachMax: number
  /** What is limited, in errors. */
  readonly what: string
  readonly logger: Logger
  /** A client that takes nothing for this long is disconnected. */
  readonly heartbeatMs?: number
  readonly checkMs?: number
}

/** How long a client waits before it reconnects. */
export const greeting = 'retry: 2000\n\n'

export function openConsoleStreams(parts: ConsoleStreamsParts): ConsoleStreams {
  const { access, max, eachMax, what, logger, heartbeatMs = 15_000, checkMs = 5_000 } = parts
  const open = new Map<EventStream, Watcher>()
  const limit = openConcurrencyLimit({ max, eachMax, what })
  let isClosed = false
  let stopListening: (() => void) | undefined
  let checking: Promise<void> | undefined
  let isCheckDue = false

  function listen(): () => void {
    const forget = access.onChange(change => {
      if ([...open.values()].some(({ isConcerned }) => isConcerned(change))) void check()
    })
    const sweep = setInterval(() => void check(), checkMs)
    return () => {
      forget()
      clearInterval(sweep)
    }
  }

  /** Resolves after a check that began later than the call. Never rejects. */
  function check(): Promise<void> {
    isCheckDue = true
    checking ??= checkAll()
    return checking
  }

  async function checkAll(): Promise<void> {
    while (isCheckDue) {
      isCheckDue = false
      const answers = new Map<string, Promise<boolean>>()
      const all = [...open].map(async ([stream, watcher]) => {
        const answer = answers.get(watcher.access) ?? watcher.isAllowed()
        answers.set(watcher.access, answer)
        try {
          if (!(await answer)) stream.end('access_ended')
        } catch (error) {
          logger.warn({ err: error }, 'cannot check the access of a stream of the console: closing it')
          stream.end('unavailable')
        }
      })
      await Promise.all(all)
    }
    checking = undefined
  }

  return {
    async open(request, reply, watcher) {
      if (weightOf(eventStreamType, mediaRanges(request.headers.accept ?? '*/*')) === 0)
        throw new HttpError('not_acceptable', `give ${eventStreamType} in Accept`)
      if (isClosed) throw new HttpError('unavailable', 'this process is stopping: retry')
      const release = limit.take(watcher.of)
      const stream = openEventStream({
        heartbeatMs,
        heartbeat: () => ': heartbeat\n\n',
        endEvent: reason => endEventOf(reason),
        onOver() {
          if (!open.delete(stream)) return
          release()
          watcher.onOver(stream)
          if (open.size > 0) return
          stopListening?.()
          stopListening = undefined
        },
      })
      open.set(stream, watcher)
      stopListening ??= listen()
      // The access may have ended since it was checked; from here on that is noticed.
      await check()
      const response = reply.raw
      // The client has disconnected in the meantime.
      if (response.destroyed) stream.end('stopping')
      const over = stream.ended()
      if (over !== undefined) throw new HttpError(over === 'access_ended' ? 'forbidden' : 'unavailable')
      reply.hijack()
      response.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), ...eventStreamHeaders })
      stream.start(response, greeting)
      return stream
    },

    endAll() {
      isClosed = true
      for (const stream of open.keys()) stream.end('stopping')
    },
  }
}
