// GET /console/overview/stream: what the platform does now, made once a second for all who watch, and not at all without watchers.

import { type TSchema, Type } from 'typebox'
import type { Logger } from '../config/logger.ts'
import { type AccessControl, parseCredential } from '../control-plane/client.ts'
import { type EventStream, eventStreamType, namedEvent } from '../http/event-stream.ts'
import { errorAnswers } from '../http/openapi/error-schema.ts'
import type { HttpServer } from '../http/server.ts'
import { type Administration, administratorRoute } from '../pipeline/administration.ts'
import type { DeadLetterCounts } from '../pipeline/dead-letters/counts.ts'
import type { TopicReader } from '../pipeline/topic-reader.ts'
import type { Decoder } from '../pipeline/writer/decode.ts'
import type { WriterState } from '../pipeline/writer/writer.ts'
import type { AuditedPartition } from '../sinks/audit.ts'
import { type NewestMessage, openNewest } from './newest.ts'
import { openConsoleStreams } from './streams.ts'

export interface Dependency {
  readonly name: string
  readonly is_away: boolean
}

export interface OverviewParts extends Administration {
  /** An embedded log, with one partition. */
  readonly log: TopicReader
  /** The store's own counts of the log; undefined before its first message. */
  readonly counts: () => Promise<AuditedPartition | undefined>
  readonly logNumber: () => number
  readonly deadLetters: DeadLetterCounts
  readonly dependencies: () => Promise<readonly Dependency[]>
  readonly writer: () => WriterState
  /** The writer's. */
  readonly decoder: Decoder
  readonly access: Pick<AccessControl, 'onChange'>
  readonly logger: Logger
  /** Milliseconds between two events. */
  readonly intervalMs?: number
  readonly heartbeatMs?: number
}

/** What became of all messages of the log, in messages. `received` is the sum of all others. */
export interface LedgerOfAll {
  readonly received: number
  readonly stored: number
  readonly dead_lettered: number
  readonly filtered: number
  readonly empty: number
  readonly lost: number
  readonly waiting: number
}

export interface Overview {
  /** Seconds since 1970. */
  readonly at: number
  readonly ledger: LedgerOfAll
  /** The open ones, by rule. */
  readonly dead_letters: Readonly<Record<string, number>>
  /** Seconds: the age of the oldest message that waits. */
  readonly lag: { readonly messages: number; readonly seconds: number }
  readonly dependencies: readonly Dependency[]
  readonly writer: WriterState
  /** Those since the event before, newest first. */
  readonly newest: readonly NewestMessage[]
}

const partition = 0
const streamsMax = 100
const newestMax = 20
const pendingBytesMax = 64 * 1024

const example: Overview = {
  at: 1_795_360_988.2,
  ledger: { received: 9, stored: 6, dead_lettered: 1, filtered: 0, empty: 0, lost: 0, waiting: 2 },
  dead_letters: { 'time-range': 1 },
  lag: { messages: 2, seconds: 0.4 },
  dependencies: [{ name: 'store', is_away: false }],
  writer: 'running',
  newest: [],
}

/** The route. Errors are thrown as HttpError, for the server that it is registered with. */
export function overviewRoute(parts: OverviewParts): (app: HttpServer) => Promise<void> {
  const { isAdministrator, access, logger, intervalMs = 1000, heartbeatMs } = parts
  const streams = openConsoleStreams({
    access,
    max: streamsMax,
    eachMax: streamsMax,
    what: 'overviews',
    logger,
    ...(heartbeatMs === undefined ? {} : { heartbeatMs }),
  })
  const watching = new Set<EventStream>()
  const make = openMaker(parts)
  let timer: NodeJS.Timeout | undefined
  let making: Promise<void> | undefined
  let latest: Overview | undefined
  /** The newest messages of the last events, for those who begin to watch. */
  let recent: readonly NewestMessage[] = []

  async function tick(): Promise<void> {
    try {
      const made = await make(latest === undefined)
      if (watching.size === 0) return
      latest = made
      recent = [...made.newest, ...recent].slice(0, newestMax)
      const text = namedEvent('overview', made)
      // A client that does not read misses events, until it is disconnected.
      for (const stream of watching) if ((stream.pendingBytes() ?? 0) < pendingBytesMax) stream.send(text)
    } catch (error) {
      logger.warn({ err: error }, 'cannot make the overview of the console now')
    }
  }

  function tickNow(): Promise<void> {
    making ??= tick().finally(() => (making = undefined))
    return making
  }

  function leave(stream: EventStream): void {
    watching.delete(stream)
    if (watching.size > 0) return
    clearInterval(timer)
    timer = undefined
    latest = undefined
    recent = []
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
          'Server-sent events `overview`: the ledger of all messages, which always adds up, open dead letters by rule, and the newest messages, for administrators. The event `end` has the reason, and the connection is closed after it.',
        security: [{ user: [] }],
        response: {
          200: {
            description: 'Events, until either side closes the connection.',
            content: { [eventStreamType]: { schema: Type.String(), example: namedEvent('overview', example) } },
          },
          ...(errorAnswers('unauthenticated', 'forbidden', 'not_acceptable') as Record<number, TSchema>),
        },
      },
      handler: async (request, reply) => {
        await demand(request)
        const { secret } = parseCredential(request.headers.authorization)!
        const stream = await streams.open(request, reply, {
          of: 'administrators',
          access: secret,
          isAllowed: async () => (await isAdministrator(secret)) === true,
          isConcerned: ({ kind }) => kind === 'user' || kind === 'unheard',
          onOver: leave,
        })
        if (stream.pendingBytes() === undefined) return reply
        // What others get already; the first one to watch waits for the first event.
        if (latest !== undefined) stream.send(namedEvent('overview', { ...latest, newest: recent }))
        watching.add(stream)
        timer ??= setInterval(() => void tickNow(), intervalMs)
        if (latest === undefined) void tickNow()
        return reply
      },
    })
  }
}

/** @returns a function that makes an overview; `isFirst`: with the newest messages of the log, instead of those since the one before */
function openMaker({ log, counts, logNumber, deadLetters, dependencies, writer, decoder, isStoreAway }: OverviewParts) {
  const newest = openNewest(log, decoder, offset => `${logNumber()}-${partition}-${offset}`)
  let known: AuditedPartition | undefined
  let shownBelow = 0

  /** Those of before while the store is away: what it cannot have stored since then waits. */
  async function countsNow(): Promise<AuditedPartition | undefined> {
    try {
      known = await counts()
    } catch (error) {
      if (!isStoreAway(error)) throw error
    }
    return known
  }

  async function ageOf(offset: number): Promise<number> {
    for await (const chunk of log.read(partition, offset, offset + 1)) {
      const cursor = chunk.cursor()
      if (cursor.next()) return Math.max(0, Date.now() / 1000 - cursor.message.createdUs / 1e6)
    }
    return 0
  }

  return async (isFirst: boolean): Promise<Overview> => {
    const settled = await countsNow()
    // Asked after the counts, so that it is not below what the store has.
    const { start, end } = (await log.bounds()).get(partition)!
    await deadLetters.readOn()
    const next = settled?.nextOffset ?? start
    const waiting = Math.max(0, end - next)
    const { stored = 0, deadLettered = 0, filtered = 0, empty = 0, lost = 0 } = settled ?? {}
    const messages = await newest(Math.max(start, isFirst ? 0 : shownBelow), end)
    shownBelow = end
    return {
      at: Date.now() / 1000,
      ledger: {
        received: stored + deadLettered + filtered + empty + lost + waiting,
        stored,
        dead_lettered: deadLettered,
        filtered,
        empty,
        lost,
        waiting,
      },
      dead_letters: deadLetters.byRule(),
      lag: { messages: waiting, seconds: waiting === 0 ? 0 : await ageOf(next) },
      dependencies: await dependencies(),
      writer: writer(),
      newest: messages,
    }
  }
}
