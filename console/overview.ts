// GET /console/overview/stream: what the platform does now, made once a second for all who watch, and not at all without watchers.

import type { TSchema } from 'typebox'
import type { Logger } from '../config/logger.ts'
import { parseCredential } from '../control-plane/client.ts'
import { HttpError } from '../http/errors.ts'
import { eventsAnswer, namedEvent } from '../http/event-stream.ts'
import { errorAnswers } from '../http/openapi/error-schema.ts'
import { openPeriodicStreams } from '../http/periodic-streams.ts'
import type { HttpServer } from '../http/server.ts'
import { type Administration, administratorRoute } from '../pipeline/administration.ts'
import type { DeadLetterIndex } from '../pipeline/dead-letters/state-index.ts'
import type { TopicReader } from '../pipeline/topic-reader.ts'
import type { WriterState } from '../pipeline/writer/writer.ts'
import type { AuditedPartition } from '../sinks/audit.ts'

export type Dependency = Readonly<{ name: string; is_away: boolean }>

export interface OverviewParts extends Administration {
  /** An embedded log, with one partition. */
  readonly log: TopicReader
  /** The store's own counts of the log; undefined before its first message. */
  readonly counts: () => Promise<AuditedPartition | undefined>
  readonly logNumber: () => number
  readonly deadLetters: Pick<DeadLetterIndex, 'readOn' | 'openByRule'>
  readonly dependencies: () => Promise<readonly Dependency[]>
  /** Open connections over MQTT; undefined where it is not enabled. */
  readonly mqttConnections: () => Promise<number | undefined>
  readonly writer: () => WriterState
  readonly logger: Logger
}

export type Overview = Awaited<ReturnType<ReturnType<typeof openMaker>>>

const [partition, streamsMax, newestMax, payloadBytesMax] = [0, 100, 20, 200]

/** The route. Errors are thrown as HttpError, for the server that it is registered with. */
export function overviewRoute(parts: OverviewParts): (app: HttpServer) => Promise<void> {
  const { isAdministrator, logger } = parts
  const streams = openPeriodicStreams({ max: streamsMax, what: 'overviews', logger })
  const make = openMaker(parts)
  let making: Promise<string> | undefined

  /** The same for all who ask while it is made. */
  function event(): Promise<string> {
    making ??= make()
      .then(overview => namedEvent('overview', overview))
      .finally(() => (making = undefined))
    return making
  }

  return async app => {
    const { onRequest, demand } = administratorRoute(app, parts)
    app.addHook('preClose', async () => streams.endAll())
    app.get('/console/overview/stream', {
      exposeHeadRoute: false,
      onRequest,
      schema: {
        tags: ['console'],
        operationId: 'followOverview',
        summary: 'Follow what the platform does: one event a second',
        description:
          'Server-sent events `overview` for administrators: the ledger of all messages, which adds up, open dead letters by rule, and the newest messages. The event `end` has the reason, and the connection is closed after it.',
        security: [{ user: [] }],
        response: {
          200: eventsAnswer('event: overview\ndata: {"at":1795360988.2}\n\n'),
          ...(errorAnswers('unauthenticated', 'forbidden', 'too_many_requests') as Record<number, TSchema>),
        },
      },
      handler: async (request, reply) => {
        await demand(request)
        const { secret } = parseCredential(request.headers.authorization)!
        streams.open(reply, {
          // Administrators share them by session.
          of: secret,
          async next() {
            const [is, text] = await Promise.all([isAdministrator(secret), event()])
            if (is !== true) throw new HttpError('forbidden')
            return text
          },
        })
        return reply
      },
    })
  }
}

function openMaker({ log, counts, logNumber, deadLetters, dependencies, mqttConnections, writer }: OverviewParts) {
  /** With an offset in `[from, to)`, newest first, with the beginnings of their payloads as text. Times are seconds since 1970. */
  async function messages(from: number, to: number) {
    const found: { id: string; time: number; channel: string; publisher: string; subtopic: string; payload: string }[] = []
    for await (const chunk of log.read(partition, from, to)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        const { offset, createdUs, channel, publisher, subtopic, payload } = cursor.message
        const text = Buffer.from(payload.subarray(0, payloadBytesMax)).toString()
        found.push({ id: `${logNumber()}-${partition}-${offset}`, time: createdUs / 1e6, channel, publisher, subtopic, payload: text })
      }
    }
    return found.toReversed()
  }

  return async () => {
    const settled = await counts()
    // Asked after the counts, so that it is not below what the store has.
    const { start, end } = (await log.bounds()).get(partition)!
    await deadLetters.readOn()
    const next = settled?.nextOffset ?? start
    const waiting = Math.max(0, end - next)
    const { stored = 0, deadLettered = 0, filtered = 0, empty = 0, lost = 0 } = settled ?? {}
    // By the store's own count, so that the sum of the others shows whether it adds up.
    const received = (settled === undefined ? 0 : settled.received - settled.duplicate) + lost + waiting
    const at = Date.now() / 1000
    const [oldest] = waiting === 0 ? [] : await messages(next, next + 1)
    return {
      at,
      /** `received` must be the sum of all others. */
      ledger: { received, stored, dead_lettered: deadLettered, filtered, empty, lost, waiting },
      dead_letters: deadLetters.openByRule(),
      lag: { messages: waiting, seconds: oldest === undefined ? 0 : Math.max(0, at - oldest.time) },
      dependencies: await dependencies(),
      mqtt_connections: await mqttConnections(),
      writer: writer(),
      newest: await messages(Math.max(start, end - newestMax), end),
    }
  }
}
