// GET /console/things/{thing}/arrivals/stream: what happens to the messages of one thing from now on, for those who may view the thing.

import { Type } from 'typebox'
import type { Logger } from '../config/logger.ts'
import { type AccessControl, parseCredential, thingParameter } from '../control-plane/client.ts'
import type { ErrorCode } from '../http/errors.ts'
import { HttpError } from '../http/errors.ts'
import { type EventStream, eventStreamType, namedEvent } from '../http/event-stream.ts'
import { errorAnswers } from '../http/openapi/error-schema.ts'
import type { HttpServer } from '../http/server.ts'
import { parseAt } from '../pipeline/dead-letters/parse.ts'
import type { ArrivalListener } from '../pipeline/ingest/arrivals.ts'
import type { TopicReader } from '../pipeline/topic-reader.ts'
import type { Decoder } from '../pipeline/writer/decode.ts'
import { logPartition } from '../transformers/log-partition.ts'
import { Outcome, RecordBatch } from '../transformers/record-batch.ts'
import { openConsoleStreams } from './streams.ts'

export interface ArrivalsParts {
  /** An embedded log, with one partition, and the dead letters of its writer. */
  readonly log: TopicReader
  readonly deadLetters: TopicReader
  /** Calls `listener` after each append of dead letters. */
  readonly onDeadLetters: (listener: () => void) => () => void
  readonly logNumber: () => number
  /** The writer's. */
  readonly decoder: Decoder
  readonly viewers: Viewers
  readonly access: Pick<AccessControl, 'onChange'>
  readonly logger: Logger
  /** How often what was left out is reported, in milliseconds: as many events as `eventsMax` are sent in between. */
  readonly intervalMs?: number
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
  readonly outcome: 'accepted' | 'refused' | 'dead-lettered' | 'stored' | 'filtered' | 'empty'
  readonly channel: string
  readonly id?: string
  /** The code of a refusal. */
  readonly code?: string
  /** Why it was refused or dead-lettered. */
  readonly message?: string
  /** Of a dead letter. */
  readonly rule?: string
  readonly hint?: string
}

/** A message that was accepted, and of which it is not known yet what became of it. */
interface Pending {
  readonly offset: number
  readonly channel: string
  readonly id: string
}

/** A thing that is watched. */
interface Watched {
  readonly streams: Set<EventStream>
  /** By offset. */
  readonly pending: Map<number, Pending>
  /** Events since the last interval. */
  events: number
  leftOut: number
}

const partition = 0
const streamsMax = 100
const streamsEachMax = 10
/** For a thing, in a second. */
const eventsMax = 100
const pendingMax = 1000
const pendingBytesMax = 256 * 1024
const textCharactersMax = 500

const exampleArrival = { at: 1_795_360_988.2, outcome: 'accepted', channel: '3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54', id: '1-0-42' }

export function openArrivals(parts: ArrivalsParts): Arrivals {
  const { log, deadLetters, onDeadLetters, logNumber, decoder, viewers, access, logger, intervalMs = 1000 } = parts
  const streams = openConsoleStreams({ access, max: streamsMax, eachMax: streamsEachMax, what: 'streams of arrivals', logger })
  const watched = new Map<string, Watched>()
  let settledBelow = 0
  /** The next dead letter to read. */
  let nextLetter = 0
  let stopListening: (() => void) | undefined
  let isWorking = false
  let isWorkDue = false

  /** @returns whether it was sent, or else counted as left out */
  function send(to: Watched, arrival: Arrival): boolean {
    if (to.events >= eventsMax) {
      to.leftOut++
      return false
    }
    to.events++
    sendText(to, namedEvent('arrival', { at: Date.now() / 1000, ...arrival }))
    return true
  }

  function sendText({ streams: open }: Watched, text: string): void {
    for (const stream of open) {
      if ((stream.pendingBytes() ?? 0) > pendingBytesMax) stream.end('slow')
      else stream.send(text)
    }
  }

  function reportLeftOut(): void {
    for (const one of watched.values()) {
      if (one.leftOut > 0) sendText(one, namedEvent('left-out', { arrivals: one.leftOut }))
      one.events = 0
      one.leftOut = 0
    }
  }

  /** @param end of the dead letters: only what comes after it is read */
  function watch(thing: string, stream: EventStream, end: number): void {
    let one = watched.get(thing)
    if (one === undefined) watched.set(thing, (one = { streams: new Set(), pending: new Map(), events: 0, leftOut: 0 }))
    one.streams.add(stream)
    if (stopListening !== undefined) return
    nextLetter = end
    const forget = onDeadLetters(work)
    const timer = setInterval(reportLeftOut, intervalMs)
    stopListening = () => {
      forget()
      clearInterval(timer)
    }
  }

  function leave(thing: string, stream: EventStream): void {
    const one = watched.get(thing)
    one?.streams.delete(stream)
    if (one?.streams.size === 0) watched.delete(thing)
    if (watched.size > 0) return
    stopListening?.()
    stopListening = undefined
  }

  /** Reads new dead letters, and says what became of pending messages. Only one call works at a time. */
  function work(): void {
    isWorkDue = true
    if (isWorking) return
    void workOff()
  }

  /** Never rejects. */
  async function workOff(): Promise<void> {
    isWorking = true
    try {
      await readOn()
    } catch (error) {
      logger.warn({ err: error }, 'cannot read what became of the messages of a thing')
    } finally {
      isWorking = false
    }
  }

  async function readOn(): Promise<void> {
    while (isWorkDue && watched.size > 0) {
      isWorkDue = false
      const below = settledBelow
      // Letters are written before their messages count as settled.
      await readLetters()
      for (const one of watched.values()) {
        for (const { offset, channel, id } of one.pending.values()) {
          if (offset >= below) break
          one.pending.delete(offset)
          const outcome = await outcomeOf(offset)
          if (outcome !== undefined) send(one, { outcome, channel, id })
        }
      }
    }
  }

  async function readLetters(): Promise<void> {
    const { start, end } = (await deadLetters.bounds()).get(partition)!
    for await (const chunk of deadLetters.read(partition, Math.max(start, nextLetter), end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) {
        const { publisher, channel } = cursor.message
        const one = watched.get(publisher)
        if (one === undefined) continue
        const letter = parseAt(cursor)
        if (letter?.kind !== 'letter' || letter.original.log !== logNumber()) continue
        const { original, rule, hint, reason } = letter
        one.pending.delete(original.offset)
        send(one, {
          outcome: 'dead-lettered',
          channel,
          id: `${original.log}-${original.partition}-${original.offset}`,
          rule,
          message: reason.slice(0, textCharactersMax),
          ...(hint === undefined ? {} : { hint: hint.slice(0, textCharactersMax) }),
        })
      }
      nextLetter = chunk.to
    }
  }

  /** Of a settled message; undefined if the log no longer has it, or it is a dead letter, which was sent already. */
  async function outcomeOf(offset: number): Promise<'stored' | 'filtered' | 'empty' | undefined> {
    for await (const chunk of log.read(partition, offset, offset + 1)) {
      const cursor = chunk.cursor()
      if (!cursor.next()) return undefined
      const batch = new RecordBatch(1)
      decoder.decode(cursor.message, logPartition(0, partition), batch)
      const outcome = batch.messages.outcome[0]
      if (outcome === Outcome.filtered) return 'filtered'
      if (outcome === Outcome.deadLettered) return undefined
      return outcome === Outcome.empty ? 'empty' : 'stored'
    }
    return undefined
  }

  return {
    accepted(thing, channel, id, { offset }) {
      const one = watched.get(thing)
      if (one === undefined || !send(one, { outcome: 'accepted', channel, id })) return
      if (one.pending.size === pendingMax) {
        one.pending.delete(one.pending.keys().next().value!)
        one.leftOut++
      }
      one.pending.set(offset, { offset, channel, id })
      if (offset < settledBelow) work()
    },

    refused(thing, channel, code: ErrorCode, message) {
      const one = watched.get(thing)
      if (one !== undefined)
        send(one, {
          outcome: 'refused',
          channel: channel.slice(0, textCharactersMax),
          code,
          message: message.slice(0, textCharactersMax),
        })
    },

    settled(offset) {
      settledBelow = Math.max(settledBelow, offset)
      if (watched.size > 0) work()
    },

    async routes(app) {
      app.addHook('preClose', async () => streams.endAll())
      app.get('/console/things/:thing/arrivals/stream', {
        exposeHeadRoute: false,
        async onRequest(request, reply) {
          const credential = parseCredential(request.headers.authorization)
          if (credential?.scheme === 'Bearer' && (await viewers.userOf(credential.secret)) !== undefined) return
          reply.header('www-authenticate', 'Bearer realm="sluice"')
          throw new HttpError(
            'unauthenticated',
            'a token is required: get one with POST /tokens and send it as Authorization: Bearer <token>',
          )
        },
        schema: {
          tags: ['console'],
          operationId: 'followArrivals',
          summary: 'Follow what happens to the messages of a thing',
          description:
            'Server-sent events `arrival`, from now on, for those who may view the thing. `outcome` is `accepted` or `refused` when the thing publishes over HTTP, and later `stored`, `dead-lettered`, `filtered` (no subject of the writer matches) or `empty` (no records). A request with an unknown key belongs to no thing. After 100 events in a second the event `left-out` has the number of the others. The event `end` has the reason, and the connection is closed after it.',
          security: [{ user: [] }],
          params: Type.Object({ thing: thingParameter }),
          response: {
            200: {
              description: 'Events, until either side closes the connection.',
              content: { [eventStreamType]: { schema: Type.String(), example: namedEvent('arrival', exampleArrival) } },
            },
            ...errorAnswers('unauthenticated', 'forbidden', 'not_found', 'not_acceptable', 'too_many_requests'),
          },
        },
        async handler(request, reply) {
          const thing = request.params.thing.toLowerCase()
          const { secret } = parseCredential(request.headers.authorization)!
          const user = await viewers.userOf(secret)
          if (user === undefined) throw new HttpError('forbidden')
          await viewers.demandView(user, thing)
          const { end } = (await deadLetters.bounds()).get(partition)!
          const stream = await streams.open(request, reply, {
            of: user,
            access: `${secret} ${thing}`,
            isAllowed: () => isViewer(secret, thing),
            isConcerned: change =>
              change.kind === 'unheard' ||
              (change.kind === 'user' && change.user === user) ||
              (change.kind === 'thing' && change.thing === thing),
            onOver: over => leave(thing, over),
          })
          // At once: what the thing sends when its stream is open is in the stream.
          if (stream.pendingBytes() !== undefined) watch(thing, stream, end)
          return reply
        },
      })
    },
  }

  async function isViewer(token: string, thing: string): Promise<boolean> {
    try {
      const user = await viewers.userOf(token)
      if (user === undefined) return false
      await viewers.demandView(user, thing)
      return true
    } catch (error) {
      if (error instanceof HttpError && error.status < 500) return false
      throw error
    }
  }
}
