// The messages of one connection: each is checked as over HTTP, and acknowledged when the log has it, in the order of arrival.
//
// Appends overlap, up to `mqtt.in_flight_max`. While the log or the control plane is away, or the queue of the log is full, nothing more is read, and
// what was read is retried in order: MQTT 3.1.1 cannot tell a client to retry.

import type { IPublishPacket } from 'mqtt-packet'
import { pause, unlessAborted } from '../../config/aborting.ts'
import { limitedError } from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import { mediaTypeOf, mediaTypeOfPayload, mediaTypes } from '../ingest/content-type.ts'
import { publishFailure } from '../ingest/failure.ts'
import { parseTopic, topicFault, withoutQuery } from '../ingest/mqtt-topic.ts'
import type { Publication, Published } from '../ingest/publisher.ts'
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
  /** An empty one is not stored, and clears what is retained. */
  readonly isRetained: boolean
  /** Microseconds since 1970. */
  readonly createdUs: number
}

interface Stored {
  readonly publication: Publication
  /** undefined if the log needs nothing of it. */
  readonly at: Published | undefined
}

const retryMsMin = 50
const retryMsMax = 1_000

export type Publishing = ReturnType<typeof openPublishing>

/** @param receipts of messages with QoS 2 */
export function openPublishing({ session, link, parts, refusals, end }: ConnectionParts, receipts: () => Receipts) {
  const { access, publisher, metrics, arrivals, receiptUs, payloadBytesMax, budget, say, logger, options, retained } = parts
  const aliases = new Map<number, string>()
  /** Messages without an answer; those of them with QoS 1; and those that wait until the log and the control plane are there. */
  let inFlight = 0
  let unacknowledged = 0
  let held = 0
  /** Packet ids of QoS 2 without a PUBREL. */
  const unreleased = new Set<number>()
  let released: Promise<void> = Promise.resolve()
  let lastUs = 0
  /** Most devices have one topic. */
  let last: { readonly topic: string; readonly channel: string; readonly subtopic: string } | undefined
  let freed: (() => void) | undefined
  let retries: Promise<unknown> = Promise.resolve()
  let acknowledged: Promise<void> = Promise.resolve()

  function free(): void {
    freed?.()
    freed = undefined
  }

  const isFull = (): boolean => (inFlight >= options.inFlightMax || held > 0) && !link.isClosed()
  const unlessClosed = (promise: Promise<void>): Promise<void> => unlessAborted(promise, link.closed()).catch(() => undefined)

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

  async function publish(publication: Publication): Promise<Stored> {
    if (publication.payload.length > 0) return { publication, at: await publisher.publish(publication) }
    publisher.count(publication)
    return { publication, at: undefined }
  }

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

  function isToRetry(answer: unknown, { qos }: Received): boolean {
    if (!(answer instanceof HttpError) || answer.code !== 'unavailable' || link.isClosed()) return false
    // Only with QoS 1 a message may be stored twice rather than not at all.
    return qos === 1 || !mayBeStored(answer)
  }

  /** @returns like `attempt`; the code is `unavailable` only after the connection was closed, or if a message of QoS 0 or 2 may be stored */
  async function untilAnswered<Result>(received: Received, work: () => Promise<Result>): Promise<Result | HttpError> {
    for (let waitMs = retryMsMin; ; waitMs = Math.min(2 * waitMs, retryMsMax)) {
      const answer = await attempt(work())
      if (!isToRetry(answer, received)) return answer
      await pause(waitMs, link.closed())
    }
  }

  /** Checks a message before the next packet is read. */
  async function admitted(received: Received): Promise<Publication | HttpError> {
    const found = await untilAnswered(received, () => checked(received))
    if (found instanceof HttpError) refusals.spend()
    return found
  }

  /** Appends a message whose rights are known. While the log is away it waits behind those that wait already: they stand in the log in the order of arrival. */
  async function append(publication: Publication, received: Received): Promise<Stored | HttpError> {
    if (held === 0) {
      const stored = await attempt(publish(publication))
      if (!isToRetry(stored, received)) return stored
    }
    held++
    const answered = retries.then(() =>
      untilAnswered(received, async () => {
        const again = await checked(received)
        // Only while the connection has its session.
        if (received.qos === 2) await receipts().held()
        return publish(again)
      }),
    )
    retries = answered
    const stored = await answered
    held--
    free()
    return stored
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
        const stored = await append(publication, received)
        refusal = await retain(received, stored)
        if (refusal === undefined) return true
        return mayBeStored(refusal) || !(stored instanceof HttpError) ? undefined : false
      })
      return refusal
    } catch (error) {
      if (error instanceof PacketError) end(error.reasonCode, error.message)
      else if (isUnavailable(error)) end(reasons.serverBusy, error.message)
      else throw error
      return new HttpError('unavailable', error.message, { cause: error })
    }
  }

  /** Retains what is stored, if it is to be. @returns why it is refused */
  async function retain(received: Received, stored: Stored | HttpError): Promise<HttpError | undefined> {
    if (stored instanceof HttpError) return stored
    if (!received.isRetained) return undefined
    const { qos, payload } = received
    const { channel, subtopic, contentType, boundedOwner } = stored.publication
    const kept = await untilAnswered(received, () => {
      if (stored.at === undefined) return retained.clear({ channel, subtopic })
      const { log, partition, offset } = stored.at
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
  async function answer(
    { qos, messageId, payload }: IPublishPacket,
    topic: string,
    before: Promise<void>,
    outcome: Promise<HttpError | undefined>,
  ): Promise<void> {
    try {
      const refusal = await outcome
      await before
      if (refusal !== undefined) note(refusal, topic)
      if (refusal?.code === 'unauthenticated' || (refusal !== undefined && session.version === 4)) end(reasonOf(refusal), refusal.message)
      else if (qos > 0) {
        link.send({
          cmd: qos === 1 ? 'puback' : 'pubrec',
          messageId: messageId!,
          reasonCode: refusal === undefined ? reasons.success : reasonOf(refusal),
          ...(refusal === undefined ? {} : { properties: { reasonString: refusal.message } }),
        })
        if (qos === 1) unacknowledged--
        else if (refusal !== undefined) unreleased.delete(messageId!)
      }
      inFlight--
      budget.free(payload.length)
      free()
    } catch (error) {
      logger.error({ err: error }, 'cannot acknowledge a message over MQTT')
      link.end()
    }
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

  return {
    /** Takes a message. Resolves when the next packet may be read. @throws PacketError for what ends the connection */
    async take(packet: IPublishPacket): Promise<void> {
      const { qos, messageId = 0, properties, payload } = packet
      if (qos > 0) checkId(messageId, `PUBLISH with QoS ${qos}`)
      if (properties?.subscriptionIdentifier !== undefined) {
        throw new PacketError(reasons.protocolError, 'a client publishes with a subscription identifier, which only the server sends')
      }
      const topic = topicOf(packet)
      const isCounted = qos === 1 || (qos === 2 && !unreleased.has(messageId))
      // A client of MQTT 3.1.1 knows no bound, and waits instead.
      if (isCounted && session.version === 5 && unacknowledged + unreleased.size >= options.inFlightMax) {
        const sentence = `more than ${options.inFlightMax} messages are not acknowledged, the Receive Maximum: wait for acknowledgements`
        throw new PacketError(reasons.receiveMaximumExceeded, sentence)
      }
      if (qos === 1) unacknowledged++
      if (qos === 2) unreleased.add(messageId)
      while (isFull()) {
        const { promise, resolve } = Promise.withResolvers<void>()
        freed = resolve
        await unlessClosed(promise)
      }
      const granted = budget.take(payload.length, link)
      if (granted !== undefined) await granted
      inFlight++
      // Of QoS 2 it names the message.
      lastUs = Math.max(receiptUs(), lastUs + 1)
      const message = { topic, contentType: properties?.contentType, payload: payload as Buffer }
      const received: Received = { ...message, qos, isRetained: packet.retain, createdUs: lastUs }
      // It has no place in the log, which orders what is retained: nothing overtakes it, and it overtakes nothing.
      const clears = packet.retain && payload.length === 0
      if (clears) await unlessClosed(acknowledged)
      const isRepeat = qos === 2 && receipts().has(messageId, received.payload)
      const found = isRepeat ? undefined : await admitted(received)
      const outcome =
        found instanceof HttpError
          ? Promise.resolve(found)
          : found === undefined || qos === 2
            ? appendOnce(messageId, found, received)
            : append(found, received).then(stored => retain(received, stored))
      acknowledged = answer(packet, topic, acknowledged, outcome)
      if (clears) await unlessClosed(acknowledged)
    },
    /** Publishes the will once: it is lost while the log or the control plane is away. */
    async takeWill({ topic, payload, qos = 0, retain: isRetained = false, properties }: NonNullable<Session['will']>): Promise<void> {
      const message = { topic, contentType: properties?.contentType, payload: payload as Buffer }
      const received: Received = { ...message, qos, isRetained, createdUs: receiptUs() }
      const refusal = await retain(received, await attempt(checked(received).then(publish)))
      if (refusal !== undefined) note(refusal, topic)
    },
    /** Takes a PUBREL (MQTT 5 §4.3.3). @returns false if no message waits for it */
    release(messageId: number): boolean {
      const isOpen = unreleased.delete(messageId)
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
