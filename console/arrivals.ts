// GET /console/things/{thing}/arrivals/stream: what happens to the messages of one thing from now on, for those who may view the thing.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Logger } from '../config/logger.ts'
import { parseCredential, thingParameter } from '../control-plane/client.ts'
import { HttpError, tokenRequired } from '../http/errors.ts'
import { eventsAnswer, namedEvent } from '../http/event-stream.ts'
import { errorAnswers } from '../http/openapi/error-schema.ts'
import { openPeriodicStreams } from '../http/periodic-streams.ts'
import type { HttpServer } from '../http/server.ts'
import { parseAt } from '../pipeline/dead-letters/parse.ts'
import type { ArrivalListener } from '../pipeline/ingest/arrivals.ts'
import type { TopicReader } from '../pipeline/topic-reader.ts'
import type { Decoder } from '../pipeline/writer/decode.ts'
import { logPartition } from '../transformers/log-partition.ts'
import { Outcome, RecordBatch } from '../transformers/record-batch.ts'

export interface ArrivalsParts {
  /** An embedded log, with one partition, and the dead letters of its writer. */
  readonly log: TopicReader
  readonly deadLetters: TopicReader
  readonly logNumber: () => number
  /** The writer's. */
  readonly decoder: Decoder
  readonly viewers: Viewers
  readonly logger: Logger
}

/** Who may view a thing. */
export interface Viewers {
  /** undefined for an invalid token. */
  userOf(token: string): Promise<string | undefined>
  /** @throws HttpError for a user who may not view it, and for a thing that is absent */
  demandView(user: string, thing: string): Promise<void>
}

export interface Arrivals extends ArrivalListener {
  readonly routes: (app: HttpServer) => Promise<void>
  /** Everything below this offset of the log is stored or dead-lettered. */
  settled(offset: number): void
}

interface Arrival {
  /** Seconds since 1970. */
  readonly at: number
  outcome: 'accepted' | 'refused' | 'dead-lettered' | 'stored' | 'filtered' | 'empty'
  readonly id?: string
  readonly offset?: number
  /** Why it was refused or dead-lettered. */
  readonly message?: string
  /** Of a dead letter. */
  readonly rule?: string
  readonly hint?: string
}

/** The last: messages that are decoded again, in one turn. */
const [partition, streamsMax, shownMax, decidedMax] = [0, 100, 10, 100]

export function openArrivals({ log, deadLetters, logNumber, decoder, viewers, logger }: ArrivalsParts): Arrivals {
  const streams = openPeriodicStreams({ max: streamsMax, what: 'streams of arrivals', logger })
  /** What each stream shows, the newest first. */
  const watched = new Set<{ readonly thing: string; readonly arrivals: Arrival[] }>()
  let settledBelow = 0
  /** The next dead letter to read. */
  let nextLetter = 0
  let deciding: Promise<void> | undefined

  /** Takes the place of the oldest one that is decided; left out while all are undecided. */
  function add(thing: string, arrival: Omit<Arrival, 'at'>): void {
    for (const { arrivals } of [...watched].filter(one => one.thing === thing)) {
      if (arrivals.length === shownMax) {
        const decided = arrivals.findLastIndex(({ outcome }) => outcome !== 'accepted')
        if (decided < 0) continue
        arrivals.splice(decided, 1)
      }
      arrivals.unshift({ at: Date.now() / 1000, ...arrival })
    }
  }

  /** Finds out what became of accepted messages, once for all who ask meanwhile. */
  function decide(): Promise<void> {
    deciding ??= decideAll().finally(() => (deciding = undefined))
    return deciding
  }

  async function decideAll(): Promise<void> {
    // Letters are written before their messages count as settled.
    const below = settledBelow
    await readLetters()
    const outcomes = new Map<number, Arrival['outcome']>()
    for (const arrival of [...watched].flatMap(({ arrivals }) => arrivals)) {
      const { outcome, offset = Infinity } = arrival
      if (outcome !== 'accepted' || offset >= below || (outcomes.size === decidedMax && !outcomes.has(offset))) continue
      const found = outcomes.get(offset) ?? (await outcomeOf(offset))
      outcomes.set(offset, found)
      arrival.outcome = found
    }
  }

  /** Says of accepted messages that they are dead letters, by those that were written since the last call. */
  async function readLetters(): Promise<void> {
    const { start, end } = (await deadLetters.bounds()).get(partition)!
    for await (const chunk of deadLetters.read(partition, Math.max(start, nextLetter), end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        const { publisher } = cursor.message
        const concerned = [...watched].filter(({ thing }) => thing === publisher).flatMap(({ arrivals }) => arrivals)
        const letter = concerned.length === 0 ? undefined : parseAt(cursor)
        if (letter?.kind !== 'letter' || letter.original.log !== logNumber()) continue
        const { original, rule, reason: message, hint } = letter
        for (const arrival of concerned.filter(({ offset }) => offset === original.offset)) {
          Object.assign(arrival, { outcome: 'dead-lettered', rule, message, ...(hint === undefined ? {} : { hint }) })
        }
      }
      nextLetter = chunk.to
    }
  }

  /** Of a settled message whose dead letter was not read since. */
  async function outcomeOf(offset: number): Promise<Arrival['outcome']> {
    const batch = new RecordBatch(1)
    for await (const chunk of log.read(partition, offset, offset + 1)) {
      const cursor = chunk.cursor()
      if (cursor.next()) decoder.decode(cursor.message, logPartition(0, partition), batch)
    }
    const outcome = batch.messages.outcome[0]
    if (outcome === Outcome.filtered) return 'filtered'
    if (outcome === Outcome.deadLettered) return 'dead-lettered'
    return outcome === Outcome.empty ? 'empty' : 'stored'
  }

  /** undefined without a valid token. */
  async function userOf({ headers }: FastifyRequest): Promise<string | undefined> {
    const credential = parseCredential(headers.authorization)
    return credential?.scheme === 'Bearer' ? viewers.userOf(credential.secret) : undefined
  }

  async function follow(request: FastifyRequest, reply: FastifyReply, thing: string): Promise<void> {
    const demand = async (): Promise<string> => {
      const user = await userOf(request)
      if (user === undefined) throw new HttpError('forbidden')
      await viewers.demandView(user, thing)
      return user
    }
    const user = await demand()
    const { end } = (await deadLetters.bounds()).get(partition)!
    if (watched.size === 0) nextLetter = end
    const one = { thing, arrivals: [] as Arrival[] }
    streams.open(reply, {
      of: user,
      async next() {
        await demand()
        await decide()
        return namedEvent('arrivals', one.arrivals)
      },
      onOver: () => watched.delete(one),
    })
    watched.add(one)
  }

  return {
    accepted: (thing, _channel, id, { offset }) => add(thing, { outcome: 'accepted', id, offset }),
    refused: (thing, _channel, _code, message) => add(thing, { outcome: 'refused', message }),

    settled: offset => void (settledBelow = Math.max(settledBelow, offset)),

    async routes(app) {
      app.addHook('preClose', async () => streams.endAll())
      app.get('/console/things/:thing/arrivals/stream', {
        exposeHeadRoute: false,
        async onRequest(request) {
          if ((await userOf(request)) === undefined) throw new HttpError('unauthenticated', tokenRequired)
        },
        schema: {
          tags: ['console'],
          operationId: 'followArrivals',
          summary: 'Follow what happens to the messages of a thing',
          description:
            'Server-sent events `arrivals` each second, for those who may view the thing: a few of the messages that came since the stream began, the newest first. `outcome` is `accepted` or `refused` when the thing publishes over HTTP, and later `stored`, `dead-lettered`, `filtered` (no subject of the writer matches) or `empty` (no records). A request with an unknown key belongs to no thing. The event `end` has the reason, and the connection is closed after it.',
          security: [{ user: [] }],
          params: Type.Object({ thing: thingParameter }),
          response: {
            200: eventsAnswer('event: arrivals\ndata: [{"outcome":"stored","id":"1-0-42"}]\n\n'),
            ...errorAnswers('unauthenticated', 'forbidden', 'not_found', 'too_many_requests'),
          },
        },
        async handler(request, reply) {
          await follow(request, reply, request.params.thing.toLowerCase())
          return reply
        },
      })
    },
  }
}
