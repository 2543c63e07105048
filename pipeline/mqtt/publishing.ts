// The messages of one connection: each is checked as over HTTP, and acknowledged when the log has it, in the order of arrival.
//
// Appends overlap, up to `mqtt.in_flight_max`. While the log or the control plane is away, or the queue of the log is full, nothing more is read, and
// what was read is retried in order: MQTT 3.1.1 cannot tell a client to retry.

import type { IPublishPacket } from 'mqtt-packet'
import { pause, unlessAborted } from '../../config/aborting.ts'
import type { Access } from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import { mediaTypeOf, mediaTypeOfPayload, mediaTypes } from '../ingest/content-type.ts'
import { publishFailure } from '../ingest/failure.ts'
import { parseTopic, topicFault, withoutQuery } from '../ingest/mqtt-topic.ts'
import { type Publication, type Published, senderOf } from '../ingest/publisher.ts'
import { logTag } from '../live/messages.ts'
import { LogUnavailableError } from '../log.ts'
import type { ConnectionParts } from './dependencies.ts'
import { type Session, topicAliasMax } from './handshake.ts'
import { checkId } from './packets.ts'
import { isUnavailable, PacketError, reasonOf, reasons } from './reasons.ts'
import type { Receipts } from './receipts.ts'
import type { Qos } from './sessions/records.ts'
import { SessionsUnavailableError } from './sessions/store.ts'

/** A message as it was received. */
interface Received {
  readonly topic: string
  readonly contentType: string | undefined
  readonly payload: Buffer
  readonly qos: Qos
  readonly messageId: number
  /** An empty one is not stored, and clears what is retained. */
  readonly isRetained: boolean
  /** Microseconds since 1970. */
  createdUs: number
  /** Why it is refused, once that is known; null if it is not. */
  refusal?: HttpError | null
}

/** Where it is, if the log needs something of it; or why it is refused. */
type Stored = Published | HttpError | undefined

const retryMsMin = 50
const retryMsMax = 1_000

export type Publishing = ReturnType<typeof openPublishing>

/** @param receipts of messages with QoS 2 */
export function openPublishing({ session, link, parts, refusals, end }: ConnectionParts, receipts: () => Receipts) {
  const { access, publisher, metrics, arrivals, receiptUs, payloadBytesMax, budget, say, logger, options, retained } = parts
  const aliases = new Map<number, string>()
  /** Messages without an answer, in the order of arrival; how many of them have QoS 1; and those that wait until the log and the control plane are there. */
  const inFlight: Received[] = []
  let unacknowledged = 0
  let held = 0
  /** Packet ids of QoS 2 without a PUBREL. */
  const unreleased = new Set<number>()
  let released: Promise<void> = Promise.resolve()
  let lastUs = 0
  /** Most devices have one topic. */
  let last: { readonly topic: string; readonly channel: string; readonly subtopic: string } | undefined
  let freed: PromiseWithResolvers<void> | undefined
  let retries: Promise<unknown> = Promise.resolve()

  function free(): void {
    freed?.resolve()
    freed = undefined
  }

  const unlessClosed = (promise: Promise<void>): Promise<void> => unlessAborted(promise, link.closed()).catch(() => undefined)
  const isFull = (): boolean => (inFlight.length >= options.inFlightMax || held > 0) && !link.isClosed()
  /** Resolves when a message was answered, or the log is there again. */
  const anyFreed = (): Promise<void> => (freed ??= Promise.withResolvers()).promise

  /** @returns a promise while its rights are not known @throws HttpError, SubtopicError; the promise also AccessUnavailableError */
  function checked(received: Received): Publication | Promise<Publication> {
    if (received.topic !== last?.topic) last = { topic: received.topic, ...parseTopic(received.topic) }
    const { channel, subtopic } = last
    const request = { credential: session.credential, channel, action: 'publish', address: session.address } as const
    const granted = access.granted?.(request)
    if (granted !== undefined) return publicationOf(received, channel, subtopic, granted)
    return access.authorize(request).then(answer => publicationOf(received, channel, subtopic, answer))
  }

  /** @throws HttpError */
  function publicationOf(received: Received, channel: string, subtopic: string, answer: Access): Publication {
    const { contentType: said, payload, isRetained, createdUs } = received
    const sender = senderOf(answer, session.credential, 'the key or certificate of the thing is no longer valid')
    const isEmpty = payload.length === 0
    if (isEmpty && !isRetained) throw new HttpError('malformed_request', 'the payload is empty: send a SenML pack or a JSON document')
    if (payload.length > payloadBytesMax) {
      throw new HttpError('too_large', `the payload is larger than ${payloadBytesMax} bytes: split it into several messages`)
    }
    const contentType = said === undefined || isEmpty ? (options.contentType ?? mediaTypeOfPayload(payload)) : mediaTypeOf(said)
    if (contentType === undefined) {
      const detail = `the content type ${said!.slice(0, 100)} is not supported: use ${mediaTypes.join(', ')}, in UTF-8`
      throw new HttpError('unsupported_media_type', detail)
    }
    const head = { ...sender, channel, subtopic, contentType }
    if (!isEmpty) publisher.check(head)
    if (!isEmpty && isRetained && head.publisher !== null) retained.check(head, payload.length)
    return { ...head, protocol: 'mqtt', createdUs, payload, isStrict: false, isRetained }
  }

  const publish = (publication: Publication): Promise<Published | undefined> =>
    publication.payload.length > 0 ? publisher.publish(publication) : publisher.count(publication)

  function refusalOf(error: unknown): HttpError {
    const failure = publishFailure(error)
    if (failure instanceof HttpError) return failure
    if (failure instanceof SessionsUnavailableError) return new HttpError('unavailable', failure.message, { cause: failure })
    logger.error({ err: error }, 'a message over MQTT failed')
    return new HttpError('internal', undefined, { cause: error })
  }

  /** @returns the result, or why it is refused */
  const attempt = <Result>(work: Promise<Result>): Promise<Result | HttpError> => work.catch(refusalOf)

  const mayBeStored = ({ cause }: HttpError): boolean => cause instanceof LogUnavailableError && cause.mayBeStored

  // Only with QoS 1 a message may be stored twice rather than not at all.
  const isToRetry = (answer: unknown, { qos }: Received): boolean =>
    answer instanceof HttpError && answer.code === 'unavailable' && !link.isClosed() && (qos === 1 || !mayBeStored(answer))

  /** @returns like `attempt`; the code is `unavailable` only after the connection was closed, or if a message of QoS 0 or 2 may be stored */
  async function untilAnswered<Result>(received: Received, work: () => Promise<Result>, first = work()): Promise<Result | HttpError> {
    let answer = await attempt(first)
    for (let waitMs = retryMsMin; isToRetry(answer, received); waitMs = Math.min(2 * waitMs, retryMsMax)) {
      await pause(waitMs, link.closed())
      answer = await attempt(work())
    }
    return answer
  }

  /** @param first attempt, which is under way */
  async function admitted(received: Received, first?: Promise<Publication>): Promise<Publication | HttpError> {
    const found = await untilAnswered(received, async () => checked(received), first)
    if (found instanceof HttpError) refusals.spend()
    return found
  }

  /** Appends a message whose rights are known. While the log is away it waits behind those that wait already: they stand in the log in the order of arrival. */
  function append(publication: Publication, received: Received): Promise<Stored> {
    if (held > 0) return appendLater(received)
    return publish(publication).catch((error: unknown) => {
      const refusal = refusalOf(error)
      return isToRetry(refusal, received) ? appendLater(received) : refusal
    })
  }

  function appendLater(received: Received): Promise<Stored> {
    held++
    const stored = retries.then(() =>
      untilAnswered(received, async () => {
        const again = await checked(received)
        // Only while the connection has its session.
        if (received.qos === 2) await receipts().held()
        return publish(again)
      }),
    )
    retries = stored
    return stored.finally(() => {
      held--
      free()
    })
  }

  /**
   * Appends a message with QoS 2, if it is not one that was sent before.
   *
   * @param known undefined if one was sent with this id: what is stored is acknowledged, also if it would be refused by now
   * @throws PacketError; SessionsUnavailableError, LiveUnavailableError if that is not known now: the client sends it again on another connection
   */
  async function appendOnce(known: Publication | undefined, received: Received): Promise<HttpError | undefined> {
    if (known === undefined && (await receipts().isStored(received.messageId))) return undefined
    const publication = known ?? (await admitted(received))
    if (publication instanceof HttpError) return publication
    let refusal: HttpError | undefined
    await receipts().once(received.messageId, publication, async () => {
      const stored = await append(publication, received)
      refusal = await retain(received, publication, stored)
      if (refusal === undefined) return true
      return mayBeStored(refusal) || !(stored instanceof HttpError) ? undefined : false
    })
    return refusal
  }

  /** Retains what is stored, if it is to be. @returns why it is refused */
  async function retain(received: Received, publication: Publication, stored: Stored): Promise<HttpError | undefined> {
    if (stored instanceof HttpError) return stored
    if (!received.isRetained) return undefined
    const { qos, payload } = received
    const { channel, subtopic, contentType, boundedOwner } = publication
    const kept = await untilAnswered(received, () => {
      if (stored === undefined) return retained.clear({ channel, subtopic })
      const { log, partition, offset } = stored
      const message = { channel, subtopic, publisher: session.thing, boundedOwner, contentType, qos, payload: Uint8Array.from(payload) }
      return retained.keep({ ...message, log: logTag(log), partition, offset })
    })
    return kept instanceof HttpError ? kept : undefined
  }

  function note(refusal: HttpError, topic: string): void {
    metrics.refused(refusal.code)
    const name = withoutQuery(topic)
    arrivals?.refused(session.thing, /channels\/([^/]*)/.exec(name)?.[1] ?? '', refusal.code, refusal.message)
    say(session, `message refused: ${refusal.message}`, { topic: name.slice(0, 200), code: refusal.code })
  }

  /** Answers a message, after those before it. */
  function answer(received: Received, refusal: HttpError | undefined): void {
    received.refusal = refusal ?? null
    while (inFlight[0]?.refusal !== undefined) send(inFlight.shift()!)
    free()
  }

  function send({ qos, messageId, topic, payload, refusal }: Received): void {
    if (refusal) note(refusal, topic)
    if (refusal && (refusal.code === 'unauthenticated' || session.version === 4)) end(reasonOf(refusal), refusal.message)
    else if (qos > 0) {
      const reason = refusal ? { reasonCode: reasonOf(refusal), properties: { reasonString: refusal.message } } : undefined
      link.send({ cmd: qos === 1 ? 'puback' : 'pubrec', messageId, ...reason })
      if (qos === 1) unacknowledged--
      else if (refusal) unreleased.delete(messageId)
    }
    budget.free(payload.length)
  }

  /** Checks a message, and appends it. @returns when the next packet may be read, if not at once */
  function begin(received: Received): Promise<void> | undefined {
    // Of QoS 2 it names the message.
    received.createdUs = lastUs = Math.max(receiptUs(), lastUs + 1)
    let found: ReturnType<typeof checked> | HttpError | undefined
    try {
      if (received.qos < 2 || !receipts().has(received.messageId, received.payload)) found = checked(received)
    } catch (error) {
      refusals.spend()
      found = refusalOf(error)
    }
    if (found instanceof Promise) return admitted(received, found).then(later => store(later, received))
    store(found, received)
    return undefined
  }

  /** @param found why it is refused; undefined for a message with QoS 2 that was sent before */
  function store(found: Publication | HttpError | undefined, received: Received): void {
    inFlight.push(received)
    if (found instanceof HttpError) return answer(received, found)
    const isOnce = found === undefined || received.qos === 2
    const stored = isOnce ? appendOnce(found, received) : append(found, received)
    const outcome = isOnce || !received.isRetained ? stored : stored.then(at => retain(received, found, at))
    outcome
      .then(at => answer(received, at instanceof HttpError ? at : undefined))
      .catch((error: unknown) => {
        if (error instanceof PacketError) end(error.reasonCode, error.message)
        else if (isUnavailable(error)) end(reasons.serverBusy, error.message)
        else end(reasons.unspecified, refusalOf(error).message)
        answer(received, new HttpError('unavailable', (error as Error).message, { cause: error }))
      })
  }

  function topicOf({ topic, properties }: IPublishPacket): string {
    const fault = topicFault(topic)
    if (fault !== undefined) throw new PacketError(reasons.topicNameInvalid, fault)
    const alias = properties?.topicAlias
    if (alias === undefined) {
      if (topic === '') throw new PacketError(reasons.protocolError, 'a PUBLISH has neither a topic nor a topic alias')
      return topic
    }
    if (alias < 1 || alias > topicAliasMax) {
      throw new PacketError(reasons.topicAliasInvalid, `a topic alias is not a number from 1 to ${topicAliasMax}`)
    }
    const known = topic === '' ? aliases.get(alias) : topic
    if (known === undefined) throw new PacketError(reasons.protocolError, `the topic alias ${alias} was not set before it was used`)
    aliases.set(alias, known)
    return known
  }

  /** Takes a message. @returns when the next packet may be read, if not at once @throws PacketError for what ends the connection */
  function take(packet: IPublishPacket): Promise<void> | undefined {
    const { qos, messageId = 0, properties, payload } = packet
    if (qos > 0) checkId(messageId, `PUBLISH with QoS ${qos}`)
    if (properties?.subscriptionIdentifier !== undefined) {
      throw new PacketError(reasons.protocolError, 'a client publishes with a subscription identifier, which only the server sends')
    }
    const [topic, contentType, isRetained] = [topicOf(packet), properties?.contentType, packet.retain]
    const isCounted = qos === 1 || (qos === 2 && !unreleased.has(messageId))
    // A client of MQTT 3.1.1 knows no bound, and waits instead.
    if (isCounted && session.version === 5 && unacknowledged + unreleased.size >= options.inFlightMax) {
      const sentence = `more than ${options.inFlightMax} messages are not acknowledged, the Receive Maximum: wait for acknowledgements`
      throw new PacketError(reasons.receiveMaximumExceeded, sentence)
    }
    // It has no place in the log, which orders what is retained: nothing overtakes it, and it overtakes nothing.
    const isAlone = isRetained && payload.length === 0
    if (isFull() || (isAlone && inFlight.length > 0 && !link.isClosed())) return unlessClosed(anyFreed()).then(() => take(packet))
    if (qos === 1) unacknowledged++
    if (qos === 2) unreleased.add(messageId)
    const received: Received = { topic, contentType, payload: payload as Buffer, qos, messageId, isRetained, createdUs: 0 }
    const granted = budget.take(payload.length, link)
    const begun = granted === undefined ? begin(received) : granted.then(() => begin(received))
    return isAlone ? Promise.resolve(begun).then(() => unlessClosed(settled())) : begun
  }

  /** Resolves when each message that was taken is acknowledged or refused. */
  async function settled(): Promise<void> {
    while (inFlight.length > 0) await anyFreed()
    await released
  }

  return {
    take,
    settled,
    /** Publishes the will once: it is lost while the log or the control plane is away. */
    async takeWill({ topic, payload, qos = 0, retain: isRetained = false, properties }: NonNullable<Session['will']>): Promise<void> {
      const message = { topic, contentType: properties?.contentType, payload: payload as Buffer }
      const received: Received = { ...message, qos, messageId: 0, isRetained, createdUs: receiptUs() }
      const found = await attempt(Promise.resolve(received).then(checked))
      const refusal = found instanceof HttpError ? found : await retain(received, found, await attempt(publish(found)))
      if (refusal !== undefined) note(refusal, topic)
    },
    /** Takes a PUBREL (MQTT 5 §4.3.3). @returns false if no message waits for it */
    release(messageId: number): boolean {
      released = Promise.all([receipts().release(messageId), released])
        .then(([isKnown]) => link.send({ cmd: 'pubcomp', messageId, reasonCode: isKnown ? reasons.success : reasons.packetIdNotFound }))
        .catch((error: unknown) => end(reasons.serverBusy, (error as Error).message))
      return unreleased.delete(messageId)
    },
  }
}
