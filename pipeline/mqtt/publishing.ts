// The messages of one connection: each is checked as over HTTP, and acknowledged when the log has it, in the order of arrival.
//
// Appends overlap, up to `mqtt.in_flight_max`. While the log or the control plane is away, or the queue of the log is full, nothing more is read, and
// what was read is retried in order: MQTT 3.1.1 cannot tell a client to retry.

import type { IPublishPacket } from 'mqtt-packet'
import { pause } from '../../config/aborting.ts'
import { limitedError } from '../../control-plane/client.ts'
import { errors, HttpError } from '../../http/errors.ts'
import { mediaTypeOf, mediaTypeOfPayload, mediaTypes } from '../ingest/content-type.ts'
import { publishFailure } from '../ingest/failure.ts'
import type { Publication } from '../ingest/publisher.ts'
import { LogUnavailableError } from '../log.ts'
import type { RateLimit } from './bounds/rate-limit.ts'
import type { MqttParts } from './dependencies.ts'
import { type Session, topicAliasMax } from './handshake.ts'
import type { Link } from './link.ts'
import { checkId } from './packets.ts'
import { PacketError, reasonOf, reasons } from './reasons.ts'
import { parseTopic, topicFault } from './topic.ts'

/** A message as it was received. */
export interface Received {
  readonly topic: string
  readonly contentType: string | undefined
  readonly payload: Buffer
  /** Whether it may be stored twice rather than not at all. */
  readonly isRetried: boolean
  /** Microseconds since 1970. */
  readonly createdUs: number
}

export interface Publishing {
  /**
   * Takes a message. Resolves when the next packet may be read.
   *
   * @throws PacketError for what ends the connection
   */
  take(packet: IPublishPacket): Promise<void>
  /** Publishes the will once: it is lost while the log or the control plane is away. */
  takeWill(will: NonNullable<Session['will']>): Promise<void>
  /** Resolves when each message that was taken is acknowledged or refused. */
  settled(): Promise<void>
}

interface PublishingParts {
  readonly session: Session
  readonly link: Link
  readonly parts: MqttParts
  /** Of refused messages. */
  readonly refusals: RateLimit
  /** Ends the connection. */
  readonly end: (reasonCode: number, sentence: string) => void
}

const retryMsMin = 50
const retryMsMax = 1_000

export function openPublishing({ session, link, parts, refusals, end }: PublishingParts): Publishing {
  const { access, publisher, metrics, arrivals, receiptUs, payloadBytesMax, budget, say, logger, options } = parts
  const aliases = new Map<number, string>()
  /** Messages without an answer, and those of them that wait until the log and the control plane are there. */
  let inFlight = 0
  let toAcknowledge = 0
  let held = 0
  let freed: (() => void) | undefined
  let retries: Promise<unknown> = Promise.resolve()
  let acknowledged: Promise<void> = Promise.resolve()

  function free(): void {
    freed?.()
    freed = undefined
  }

  const isFull = (): boolean => (inFlight >= options.inFlightMax || held > 0) && !link.closed.aborted

  async function capacity(): Promise<void> {
    while (isFull()) {
      await new Promise<void>(resolve => {
        freed = resolve
        link.closed.addEventListener('abort', free, { once: true })
      })
      link.closed.removeEventListener('abort', free)
    }
  }

  /** @throws HttpError, SubtopicError, AccessUnavailableError */
  async function checked({ topic, contentType: said, payload, createdUs }: Received): Promise<Publication> {
    const { channel, subtopic } = parseTopic(topic)
    const { credential, address } = session
    const answer = await access.authorize({ credential, channel, action: 'publish', address })
    if (!answer.allowed && answer.reason === 'limited') throw limitedError(answer)
    if (!answer.allowed && answer.reason === 'unauthenticated')
      throw new HttpError('unauthenticated', 'the key of the thing is no longer valid')
    if (payload.length === 0) throw new HttpError('malformed_request', 'the payload is empty: send a SenML pack or a JSON document')
    if (payload.length > payloadBytesMax) {
      throw new HttpError('too_large', `the payload is larger than ${payloadBytesMax} bytes: split it into several messages`)
    }
    const contentType = said === undefined ? (options.contentType ?? mediaTypeOfPayload(payload)) : mediaTypeOf(said)
    if (contentType === undefined) {
      throw new HttpError(
        'unsupported_media_type',
        `the content type ${said!.slice(0, 100)} is not supported: use ${mediaTypes.join(', ')}, in UTF-8`,
      )
    }
    const boundedOwner = answer.allowed && answer.isBounded === true ? answer.owner : undefined
    const head = { channel, subtopic, contentType, publisher: answer.allowed ? answer.publisher : null, boundedOwner }
    publisher.check(head)
    return { ...head, protocol: 'mqtt', createdUs, payload, isStrict: false }
  }

  /** @returns the refusal, if it is refused */
  async function attempt(work: () => Promise<unknown>): Promise<HttpError | undefined> {
    try {
      await work()
      return undefined
    } catch (error) {
      const failure = publishFailure(error, payloadBytesMax)
      if (failure instanceof HttpError) return failure
      logger.error({ err: error }, 'a message over MQTT failed')
      return new HttpError('internal', undefined, { cause: error })
    }
  }

  function isToRetry(refusal: HttpError | undefined, { isRetried }: Received): boolean {
    if (refusal?.code !== 'unavailable' || link.closed.aborted) return false
    return isRetried || !(refusal.cause instanceof LogUnavailableError && refusal.cause.mayBeStored)
  }

  /** @returns like `attempt`; the code is `unavailable` only after the connection was closed, or if a message of QoS 0 may be stored */
  async function untilAnswered(received: Received): Promise<HttpError | undefined> {
    for (let waitMs = retryMsMin; ; waitMs = Math.min(2 * waitMs, retryMsMax)) {
      const refusal = await attempt(async () => publisher.publish(await checked(received)))
      if (!isToRetry(refusal, received)) return refusal
      await pause(waitMs, link.closed)
    }
  }

  /** Retries after those that wait already. */
  async function hold(received: Received): Promise<HttpError | undefined> {
    held++
    const answered = retries.then(() => untilAnswered(received))
    retries = answered
    const refusal = await answered
    held--
    free()
    return refusal
  }

  /** Appends a message whose rights are known, so that it stands in the log in the order of arrival. */
  async function append(publication: Publication, received: Received): Promise<HttpError | undefined> {
    const refusal = await attempt(() => publisher.publish(publication))
    return isToRetry(refusal, received) ? hold(received) : refusal
  }

  function note(refusal: HttpError, topic: string): void {
    metrics.refused(refusal.code)
    const sentence = refusal.detail ?? errors[refusal.code].title
    arrivals?.refused(session.thing, /channels\/([^/]*)/.exec(topic)?.[1] ?? '', refusal.code, sentence)
    // Some clients send the key after a question mark.
    say(session, `message refused: ${sentence}`, { topic: topic.split('?', 1)[0]!.slice(0, 200), code: refusal.code })
  }

  async function answer(
    { qos, messageId, payload }: IPublishPacket,
    topic: string,
    outcome: Promise<HttpError | undefined>,
  ): Promise<void> {
    const refusal = await outcome
    if (refusal !== undefined) {
      note(refusal, topic)
      refusals.spend()
    }
    const sentence = refusal === undefined ? '' : (refusal.detail ?? errors[refusal.code].title)
    if (refusal?.code === 'unauthenticated' || (refusal !== undefined && session.version === 4)) end(reasonOf(refusal), sentence)
    else if (qos === 1) {
      const reasonCode = refusal === undefined ? reasons.success : reasonOf(refusal)
      link.send({
        cmd: 'puback',
        messageId: messageId!,
        reasonCode,
        ...(refusal === undefined ? {} : { properties: { reasonString: sentence } }),
      })
      toAcknowledge--
    }
    inFlight--
    budget.free(payload.length)
    free()
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
    async take(packet) {
      const { qos, messageId = 0, properties, payload } = packet
      if (qos === 2) throw new PacketError(reasons.qosNotSupported, 'a message has QoS 2, which is not supported: publish with QoS 0 or 1')
      if (qos === 1) checkId(messageId, 'PUBLISH with QoS 1')
      const contentType: unknown = properties?.contentType
      if (contentType !== undefined && typeof contentType !== 'string') {
        throw new PacketError(reasons.protocolError, 'a PUBLISH has several content types')
      }
      if (properties?.subscriptionIdentifier !== undefined) {
        throw new PacketError(reasons.protocolError, 'a client publishes with a subscription identifier, which only the server sends')
      }
      const topic = topicOf(packet)
      if (session.version === 5 && packet.retain) {
        const sentence = 'a message is to be retained, which is not supported: clear its retain flag'
        throw new PacketError(reasons.retainNotSupported, sentence)
      }
      // A client of MQTT 3.1.1 knows no bound, and waits instead.
      if (qos === 1 && session.version === 5 && toAcknowledge >= options.inFlightMax) {
        const sentence = `more than ${options.inFlightMax} messages are not acknowledged, the Receive Maximum: wait for acknowledgements`
        throw new PacketError(reasons.receiveMaximumExceeded, sentence)
      }
      if (qos === 1) toAcknowledge++
      await capacity()
      await budget.take(payload.length, link.closed)
      inFlight++
      const received = { topic, contentType, payload: payload as Buffer, isRetried: qos === 1, createdUs: receiptUs() }
      let publication: Publication | undefined
      const refusal = await attempt(async () => {
        publication = await checked(received)
      })
      const outcome =
        refusal === undefined ? append(publication!, received) : isToRetry(refusal, received) ? hold(received) : Promise.resolve(refusal)
      acknowledged = acknowledged
        .then(() => answer(packet, topic, outcome))
        .catch((error: unknown) => {
          logger.error({ err: error }, 'cannot acknowledge a message over MQTT')
          link.end()
        })
    },
    async takeWill({ topic, payload, properties }) {
      const contentType: unknown = properties?.contentType
      const said = typeof contentType === 'string' ? contentType : undefined
      const received = { topic, contentType: said, payload: payload as Buffer, isRetried: false, createdUs: receiptUs() }
      const refusal = await attempt(async () => publisher.publish(await checked(received)))
      if (refusal !== undefined) note(refusal, topic)
    },
    settled: () => acknowledged,
  }
}
