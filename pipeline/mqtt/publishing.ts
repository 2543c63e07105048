// The messages of one connection: each is checked as over HTTP, and acknowledged when the log has it, in the order of arrival.
//
// Appends overlap, up to `mqtt.in_flight_max`. While the log or the control plane is away, or the queue of the log is full, nothing more is read, and
// what was read is retried in order: MQTT 3.1.1 cannot tell a client to retry.

import type { IPublishPacket } from 'mqtt-packet'
import { pause } from '../../config/aborting.ts'
import { limitedError } from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import { mediaTypeOf, mediaTypeOfPayload, mediaTypes } from '../ingest/content-type.ts'
import { publishFailure } from '../ingest/failure.ts'
import { parseTopic, topicFault, withoutQuery } from '../ingest/mqtt-topic.ts'
import type { Publication, Published } from '../ingest/publisher.ts'
import { logTag } from '../live/messages.ts'
import { LogUnavailableError } from '../log.ts'
import type { RateLimit } from './bounds/rate-limit.ts'
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
  /** Whether it may be stored twice rather than not at all. */
  readonly isRetried: boolean
  /** Of QoS 2: appended only while the connection has its session. */
  readonly isOnce: boolean
  readonly qos: Qos
  /** An empty one is not stored, and clears what is retained. */
  readonly isRetained: boolean
  /** Settles when all of the topic that were to be retained before it are. */
  readonly before: Promise<void> | undefined
  /** Microseconds since 1970. */
  readonly createdUs: number
  /** Once the log has it, or needs nothing of it. */
  stored?: { readonly publication: Publication; readonly at: Published | undefined }
}

interface PublishingParts extends ConnectionParts {
  /** Of messages with QoS 2. */
  readonly receipts: () => Receipts
  /** Of refused messages. */
  readonly refusals: RateLimit
}

const retryMsMin = 50
const retryMsMax = 1_000

export type Publishing = ReturnType<typeof openPublishing>

export function openPublishing({ session, link, parts, receipts, refusals, end }: PublishingParts) {
  const { access, publisher, metrics, arrivals, receiptUs, payloadBytesMax, budget, say, logger, options, retained } = parts
  const aliases = new Map<number, string>()
  /** Messages without an answer, and those of them that wait until the log and the control plane are there. */
  let inFlight = 0
  let toAcknowledge = 0
  /** Packet ids of QoS 2 without a PUBREL. */
  const unreleased = new Set<number>()
  let released: Promise<void> = Promise.resolve()
  let lastUs = 0
  /** Most devices have one topic. */
  let last: { readonly topic: string; readonly channel: string; readonly subtopic: string } | undefined
  let held = 0
  let freed: (() => void) | undefined
  let retries: Promise<unknown> = Promise.resolve()
  let acknowledged: Promise<void> = Promise.resolve()
  /** The last of each topic that is to be retained. */
  const retaining = new Map<string, Promise<void>>()

  function free(): void {
    freed?.()
    freed = undefined
  }

  const isFull = (): boolean => (inFlight >= options.inFlightMax || held > 0) && !link.isClosed()

  async function capacity(): Promise<void> {
    while (isFull()) {
      await new Promise<void>(resolve => {
        freed = resolve
        link.closed().addEventListener('abort', free, { once: true })
      })
      link.closed().removeEventListener('abort', free)
    }
  }

  /** @throws HttpError, SubtopicError, AccessUnavailableError */
  async function checked({ topic, contentType: said, payload, isRetained, createdUs }: Received): Promise<Publication> {
    if (topic !== last?.topic) last = { topic, ...parseTopic(topic) }
    const { channel, subtopic } = last
    const { credential, address } = session
    const answer = await access.authorize({ credential, channel, action: 'publish', address })
    if (!answer.allowed && answer.reason === 'limited') throw limitedError(answer, credential.scheme)
    if (!answer.allowed && answer.reason === 'unauthenticated')
      throw new HttpError('unauthenticated', 'the key or certificate of the thing is no longer valid')
    const isEmpty = payload.length === 0
    if (isEmpty && !isRetained) throw new HttpError('malformed_request', 'the payload is empty: send a SenML pack or a JSON document')
    if (payload.length > payloadBytesMax) {
      throw new HttpError('too_large', `the payload is larger than ${payloadBytesMax} bytes: split it into several messages`)
    }
    const contentType = said === undefined || isEmpty ? (options.contentType ?? mediaTypeOfPayload(payload)) : mediaTypeOf(said)
    if (contentType === undefined) {
      throw new HttpError(
        'unsupported_media_type',
        `the content type ${said!.slice(0, 100)} is not supported: use ${mediaTypes.join(', ')}, in UTF-8`,
      )
    }
    const boundedOwner = answer.allowed && answer.isBounded === true ? answer.owner : undefined
    const head = { channel, subtopic, contentType, publisher: answer.allowed ? answer.publisher : null, boundedOwner }
    if (!isEmpty) publisher.check(head)
    if (!isEmpty && isRetained && head.publisher !== null) retained.check(head, payload.length)
    return { ...head, protocol: 'mqtt', createdUs, payload, isStrict: false, isRetained }
  }

  async function publish(publication: Publication, received: Received): Promise<void> {
    const isEmpty = publication.payload.length === 0
    if (isEmpty) publisher.count(publication)
    received.stored = { publication, at: isEmpty ? undefined : await publisher.publish(publication) }
  }

  function refusalOf(error: unknown): HttpError {
    const failure = publishFailure(error)
    if (failure instanceof HttpError) return failure
    if (failure instanceof SessionsUnavailableError) return new HttpError('unavailable', failure.message, { cause: failure })
    logger.error({ err: error }, 'a message over MQTT failed')
    return new HttpError('internal', undefined, { cause: error })
  }

  /** @returns the refusal, if it is refused */
  const attempt = (work: Promise<unknown>): Promise<HttpError | undefined> => work.then(() => undefined, refusalOf)

  function isToRetry(refusal: HttpError | undefined, { isRetried }: Received): boolean {
    if (refusal?.code !== 'unavailable' || link.isClosed()) return false
    return isRetried || !(refusal.cause instanceof LogUnavailableError && refusal.cause.mayBeStored)
  }

  /** @returns like `attempt`; the code is `unavailable` only after the connection was closed, or if a message of QoS 0 may be stored */
  async function untilAnswered(received: Received, work: () => Promise<void>): Promise<HttpError | undefined> {
    for (let waitMs = retryMsMin; ; waitMs = Math.min(2 * waitMs, retryMsMax)) {
      const refusal = await attempt(work())
      if (!isToRetry(refusal, received)) return refusal
      await pause(waitMs, link.closed())
    }
  }

  /** Retries after those that wait already. */
  async function hold(received: Received): Promise<HttpError | undefined> {
    held++
    const answered = retries.then(() =>
      untilAnswered(received, async () => {
        const publication = await checked(received)
        if (received.isOnce) await receipts().held()
        await publish(publication, received)
      }),
    )
    retries = answered
    const refusal = await answered
    held--
    free()
    return refusal
  }

  /** Appends a message whose rights are known, so that it stands in the log in the order of arrival. */
  async function append(publication: Publication, received: Received): Promise<HttpError | undefined> {
    const refusal = await attempt(publish(publication, received))
    return isToRetry(refusal, received) ? hold(received) : refusal
  }

  /**
   * Appends a message with QoS 2, if it is not one that was sent before. What is not known ends the connection, and the client sends it again.
   *
   * @param known undefined if one was sent with this id: what is stored is acknowledged, also if it would be refused by now
   */
  async function appendOnce(messageId: number, known: Publication | undefined, received: Received): Promise<HttpError | undefined> {
    let refusal: HttpError | undefined
    try {
      if (known === undefined && (await receipts().isStored(messageId))) return undefined
      const publication = known ?? (await admitted(received))
      if (publication instanceof HttpError) return publication
      await receipts().once(messageId, publication, async () => {
        refusal = await retain(received, append(publication, received))
        const isDone = received.stored !== undefined || (refusal?.cause instanceof LogUnavailableError && refusal.cause.mayBeStored)
        return refusal !== undefined && isDone ? undefined : refusal === undefined
      })
      return refusal
    } catch (error) {
      if (error instanceof PacketError) end(error.reasonCode, error.message)
      else if (isUnavailable(error)) end(reasons.serverBusy, error.message)
      else throw error
      return new HttpError('unavailable', error.message, { cause: error })
    }
  }

  /** @returns like `outcome`, when it is retained too, if it is to be */
  function retain(received: Received, outcome: Promise<HttpError | undefined>): Promise<HttpError | undefined> {
    return received.isRetained ? keep(received, outcome) : outcome
  }

  async function keep(received: Received, outcome: Promise<HttpError | undefined>): Promise<HttpError | undefined> {
    const { before, qos, payload } = received
    const refusal = await outcome
    if (refusal !== undefined) return refusal
    await before
    const { publication, at } = received.stored!
    const { channel, subtopic, contentType, boundedOwner } = publication
    return untilAnswered(received, () => {
      if (at === undefined) return retained.clear({ channel, subtopic })
      const { partition, offset } = at
      const message = { channel, subtopic, publisher: session.thing, boundedOwner, contentType, qos, payload: Uint8Array.from(payload) }
      return retained.keep({ ...message, log: logTag(at.log), partition, offset })
    })
  }

  function noteRetaining(topic: string, outcome: Promise<unknown>): void {
    const forget = (): void => {
      if (retaining.get(topic) === settled) retaining.delete(topic)
    }
    const settled: Promise<void> = outcome.then(forget, forget)
    retaining.set(topic, settled)
  }

  /** Checks a message. Of QoS 2 the id is saved before it may be appended, so nothing of it waits among the retries. */
  async function admitted(received: Received): Promise<Publication | HttpError> {
    const found = received.isOnce ? await checkedAgain(received) : await checked(received).catch(refusalOf)
    // Before the next packet is read.
    if (found instanceof HttpError && !isToRetry(found, received)) refusals.spend()
    return found
  }

  async function checkedAgain(received: Received): Promise<Publication | HttpError> {
    let publication: Publication | undefined
    const refusal = await untilAnswered(received, async () => {
      publication = await checked(received)
    })
    return refusal ?? publication!
  }

  function outcomeOf(
    { qos, messageId = 0 }: IPublishPacket,
    found: Publication | HttpError,
    received: Received,
  ): Promise<HttpError | undefined> {
    if (found instanceof HttpError) return isToRetry(found, received) ? retain(received, hold(received)) : Promise.resolve(found)
    return qos === 2 ? appendOnce(messageId, found, received) : retain(received, append(found, received))
  }

  function note(refusal: HttpError, topic: string): void {
    metrics.refused(refusal.code)
    const name = withoutQuery(topic)
    arrivals?.refused(session.thing, /channels\/([^/]*)/.exec(name)?.[1] ?? '', refusal.code, refusal.message)
    say(session, `message refused: ${refusal.message}`, { topic: name.slice(0, 200), code: refusal.code })
  }

  function answer({ qos, messageId, payload }: IPublishPacket, topic: string, refusal: HttpError | undefined): void {
    if (refusal !== undefined) note(refusal, topic)
    if (refusal?.code === 'unauthenticated' || (refusal !== undefined && session.version === 4)) end(reasonOf(refusal), refusal.message)
    else if (qos > 0) {
      const reasonCode = refusal === undefined ? reasons.success : reasonOf(refusal)
      link.send({
        cmd: qos === 1 ? 'puback' : 'pubrec',
        messageId: messageId!,
        reasonCode,
        ...(refusal === undefined ? {} : { properties: { reasonString: refusal.message } }),
      })
      if (qos === 1 || (refusal !== undefined && unreleased.delete(messageId!))) toAcknowledge--
    }
    inFlight--
    budget.free(payload.length)
    free()
  }

  async function answerAfter(
    before: Promise<void>,
    packet: IPublishPacket,
    topic: string,
    outcome: Promise<HttpError | undefined>,
  ): Promise<void> {
    try {
      const refusal = await outcome
      await before
      answer(packet, topic, refusal)
    } catch (error) {
      logger.error({ err: error }, 'cannot acknowledge a message over MQTT')
      link.end()
    }
  }

  function topicOf({ topic, properties }: IPublishPacket): string {
    const fault = topicFault(topic)
    if (fault !== undefined) throw new PacketError(reasons.topicNameInvalid, fault)
    const alias: unknown = properties?.topicAlias
    if (alias === undefined) {
      if (topic === '') throw new PacketError(reasons.protocolError, 'a PUBLISH has neither a topic nor a topic alias')
      return topic
    }
    if (typeof alias !== 'number' || alias < 1 || alias > topicAliasMax) {
      throw new PacketError(reasons.topicAliasInvalid, `a topic alias is not a number from 1 to ${topicAliasMax}`)
    }
    const known = topic === '' ? aliases.get(alias) : topic
    if (known === undefined) throw new PacketError(reasons.protocolError, `the topic alias ${alias} was not set before it was used`)
    aliases.set(alias, known)
    return known
  }

  return {
    /** Takes a message. Resolves when the next packet may be read. @throws PacketError for what ends the connection */
    async take(packet: IPublishPacket): Promise<void> {
      const { qos, messageId = 0, properties, payload } = packet
      if (qos > 0) checkId(messageId, `PUBLISH with QoS ${qos}`)
      const contentType: unknown = properties?.contentType
      if (contentType !== undefined && typeof contentType !== 'string') {
        throw new PacketError(reasons.protocolError, 'a PUBLISH has several content types')
      }
      if (properties?.subscriptionIdentifier !== undefined) {
        throw new PacketError(reasons.protocolError, 'a client publishes with a subscription identifier, which only the server sends')
      }
      const topic = topicOf(packet)
      const isCounted = qos === 1 || (qos === 2 && !unreleased.has(messageId))
      // A client of MQTT 3.1.1 knows no bound, and waits instead.
      if (isCounted && session.version === 5 && toAcknowledge >= options.inFlightMax) {
        const sentence = `more than ${options.inFlightMax} messages are not acknowledged, the Receive Maximum: wait for acknowledgements`
        throw new PacketError(reasons.receiveMaximumExceeded, sentence)
      }
      if (isCounted) toAcknowledge++
      if (qos === 2) unreleased.add(messageId)
      if (isFull()) await capacity()
      const granted = budget.take(payload.length, link)
      if (granted !== undefined) await granted
      inFlight++
      // Of QoS 2 it names the message.
      lastUs = Math.max(receiptUs(), lastUs + 1)
      const message = { topic, contentType, payload: payload as Buffer, qos, isRetained: packet.retain, createdUs: lastUs }
      const received: Received = { ...message, isRetried: qos === 1, isOnce: qos === 2, before: retaining.get(topic) }
      const outcome =
        qos === 2 && receipts().has(messageId, received.payload)
          ? appendOnce(messageId, undefined, received)
          : outcomeOf(packet, await admitted(received), received)
      if (packet.retain) noteRetaining(topic, outcome)
      acknowledged = answerAfter(acknowledged, packet, topic, outcome)
    },
    /** Publishes the will once: it is lost while the log or the control plane is away. */
    async takeWill({ topic, payload, qos = 0, retain: isRetained = false, properties }: NonNullable<Session['will']>): Promise<void> {
      const contentType: unknown = properties?.contentType
      const said = typeof contentType === 'string' ? contentType : undefined
      const message = { topic, contentType: said, payload: payload as Buffer, qos, isRetained, createdUs: receiptUs() }
      const received: Received = { ...message, isRetried: false, isOnce: false, before: undefined }
      const published = attempt(checked(received).then(publication => publish(publication, received)))
      const refusal = await retain(received, published)
      if (refusal !== undefined) note(refusal, topic)
    },
    /** Takes a PUBREL (MQTT 5 §4.3.3). @returns false if no message waits for it */
    release(messageId: number): boolean {
      const isOpen = unreleased.delete(messageId)
      if (isOpen) toAcknowledge--
      const forgotten = receipts().release(messageId)
      released = Promise.all([forgotten, released])
        .then(([isKnown]) => {
          link.send({ cmd: 'pubcomp', messageId, reasonCode: isKnown ? reasons.success : reasons.packetIdNotFound })
        })
        .catch((error: unknown) => end(reasons.serverBusy, (error as Error).message))
      return isOpen
    },
    /** Resolves when each message that was taken is acknowledged or refused. */
    async settled(): Promise<void> {
      await acknowledged
      await released
    },
  }
}
