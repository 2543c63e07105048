// The messages that a client gets: which of its subscriptions they match, with which QoS and packet id, and when there is space for them.

import type { Member } from '../../live/dispatch.ts'
import { type Follower, type Following, type LiveMessage } from '../../live/messages.ts'
import type { ConnectionParts } from '../dependencies.ts'
import { reasons } from '../reasons.ts'
import type { RetainedMessage } from '../retained/records.ts'
import type { KeptSubscription, LogOffset, Qos } from '../sessions/records.ts'
import { matches, type TopicFilter } from './filter.ts'
import { openInFlight } from './in-flight.ts'
import { makeOutgoing, type Outgoing, outgoingOf } from './outgoing.ts'

export type Subscription = TopicFilter & { readonly kept: KeptSubscription }

/** A channel that is followed. */
export interface Heard {
  readonly channel: string
  readonly following: Following
  /** By filter as it was sent, without what follows a question mark. */
  readonly subscriptions: Map<string, Subscription>
  /** By partition: what is below was sent by this connection or an earlier one, unless it is in flight. */
  readonly taken: number[]
  /** By partition: what is below may have been sent by an earlier connection. */
  readonly sentBelow: readonly number[]
  stop(): void
}

/** How a message is sent to this client. */
interface Delivery {
  readonly qos: Qos
  readonly identifiers: readonly number[]
  readonly isRetainAsPublished: boolean
}

/** In the first byte of a PUBLISH (MQTT 5 §3.3.1). */
const dupFlag = 0x08
const retainFlag = 0x01
/** Retained messages that one client may take of a turn of the event loop: none of them may match, or fit. */
const retainedAtOnce = 100
const afterSaveBytesMax = 65_536

/** @param onSpace messages that waited for space may be sent */
export function openDelivering({ session, link, parts, end, persistence }: ConnectionParts, onSpace: () => void) {
  const { connectionMetrics, options, say, logger } = parts
  const { version } = session
  const inFlight = openInFlight()
  const inFlightMax = Math.min(options.inFlightMax, session.receiveMax)
  /**
   * Sends what a client gets only after its session was saved (MQTT 5 §4.3.3), by packet id: a message with QoS 2, so that its id is known on a later
   * connection, and a PUBREL, so that the message is not sent again.
   */
  const afterSave = new Map<number, () => void>()
  let afterSaveBytes = 0
  let isSaving = false
  let waiting: PromiseWithResolvers<void> | undefined
  /** What is retained and not sent yet, by filter: a message a step. */
  const retained = new Map<string, Iterator<void>>()
  let isNextTurnDue = false
  /** By packet id, who waits for the acknowledgement of a message of a shared subscription. */
  const acknowledging = new Map<number, () => void>()

  function hasSpace(qos: Qos): boolean {
    return link.hasSpace() && afterSaveBytes < afterSaveBytesMax && (qos === 0 || inFlight.size < inFlightMax)
  }

  /** Messages that waited for space may be sent. */
  function wake(): void {
    if (isNextTurnDue) return
    let left = retainedAtOnce
    for (const [filter, steps] of retained) {
      do {
        if (!hasSpace(1)) return
        if (left-- === 0) {
          isNextTurnDue = true
          setImmediate(() => {
            isNextTurnDue = false
            wake()
          })
          return
        }
      } while (steps.next().done !== true)
      retained.delete(filter)
    }
    waiting?.resolve()
    waiting = undefined
    onSpace()
  }
  link.onSpace(wake)

  function deliveryOf(
    publisher: string,
    { isSendable, parts: messageParts }: Outgoing,
    subscriptions: Iterable<Subscription>,
  ): Delivery | undefined {
    if (!isSendable) return undefined
    let qos: Qos | undefined
    const identifiers: number[] = []
    let isRetainAsPublished = false
    for (const { levels, kept } of subscriptions) {
      const { qos: own, isNoLocal, identifier, isRetainAsPublished: isAsPublished } = kept
      if ((isNoLocal && publisher === session.thing) || !matches(levels, messageParts)) continue
      if (qos === undefined || own > qos) qos = own
      if (identifier !== undefined) identifiers.push(identifier)
      isRetainAsPublished ||= isAsPublished
    }
    return qos === undefined ? undefined : { qos, identifiers, isRetainAsPublished }
  }

  /** @returns false if there is no space */
  function send(message: LiveMessage, heard: Heard): boolean {
    const outgoing = outgoingOf(message)
    const { raw, partition, offset } = message
    const delivery = raw.fault === undefined ? deliveryOf(raw.publisher, outgoing, heard.subscriptions.values()) : undefined
    if (delivery === undefined) return true
    const at = { channel: heard.channel, partition, offset }
    const repeatQos = inFlight.repeatQos(at)
    const isRepeat = repeatQos !== undefined
    // A client that knows its packet id goes on with the QoS that it had.
    const qos = repeatQos ?? delivery.qos
    if (!isRepeat && offset < (heard.taken[partition] ?? 0)) return true
    if (retained.size > 0 || !hasSpace(qos)) return false
    heard.taken[partition] = Math.max(heard.taken[partition] ?? 0, offset + 1)
    const mayBeSent = offset < (heard.sentBelow[partition] ?? 0)
    transmit(outgoing, { ...delivery, qos }, flagsOf(message, delivery, isRepeat || (qos === 1 && mayBeSent)), at)
    return true
  }

  function flagsOf({ isRetained }: LiveMessage, { isRetainAsPublished }: Delivery, isRepeat: boolean): number {
    return (isRepeat ? dupFlag : 0) | (isRetained && isRetainAsPublished ? retainFlag : 0)
  }

  /**
   * @param at undefined: on a later connection it is not sent again
   * @returns the packet id that will be acknowledged; 0 for none
   */
  function transmit(outgoing: Outgoing, { qos, identifiers }: Delivery, flags: number, at: LogOffset | undefined): number {
    const messageId = qos === 0 ? 0 : inFlight.begin(at, qos)
    const shared = outgoing.head(version, qos, messageId, identifiers)
    const head = flags === 0 ? shared : Buffer.from(shared)
    // Such a message counts as delivered (MQTT 5 §3.1.2.11.4).
    if (head.length + outgoing.rest.length > session.packetBytesMax) {
      if (qos !== 0) inFlight.end(messageId, qos)
      return 0
    }
    head[0]! |= flags
    connectionMetrics.delivered()
    if (qos === 2) {
      afterSaveBytes += head.length + outgoing.rest.length
      sendAfterSave(messageId, () => link.deliver(head, outgoing.rest))
    } else {
      link.deliver(head, outgoing.rest)
      persistence()?.saveSoon()
    }
    return messageId
  }

  function sendAfterSave(messageId: number, send: () => void): void {
    afterSave.set(messageId, send)
    if (isSaving) return
    isSaving = true
    saveAndSend().catch((error: unknown) => end(reasons.serverBusy, (error as Error).message))
  }

  async function saveAndSend(): Promise<void> {
    try {
      while (afterSave.size > 0) {
        const sends = [...afterSave.values()]
        afterSave.clear()
        await persistence()?.saveHeld()
        for (const send of sends) send()
        afterSaveBytes = 0
        wake()
      }
    } finally {
      isSaving = false
    }
  }

  /** What stands in the log from where the channel is followed comes live. */
  function* sendRetained(messages: Iterable<RetainedMessage>, { following }: Heard, subscription: Subscription): Generator<void> {
    const { log, offsets } = following.streamOffset()
    for (const message of messages) {
      yield
      if (message.log === log && message.offset >= (offsets[message.partition] ?? 0)) continue
      const outgoing = makeOutgoing(message)
      const delivery = deliveryOf(message.publisher, outgoing, [subscription])
      if (delivery === undefined) continue
      transmit(outgoing, { ...delivery, qos: delivery.qos < message.qos ? delivery.qos : message.qos }, retainFlag, undefined)
    }
  }

  /** Counts messages that the log no longer has. */
  function countLost(channel: string): void {
    say(session, 'messages were deleted from the log before they could be delivered', { channel })
    connectionMetrics.lost()
  }

  function followerOf(heard: Heard): Follower {
    const { channel } = heard
    return {
      partsOf: () => 1,
      take(message, first, last) {
        try {
          return send(message, heard) ? last : first
        } catch (error) {
          fail(error, message)
          return last
        }
      },
      space() {
        // Space for the highest QoS is space for each message, so `take` does not refuse what this lets through.
        const isWindow = inFlight.hasRepeats || [...heard.subscriptions.values()].some(({ kept }) => kept.qos > 0)
        if (retained.size === 0 && hasSpace(isWindow ? 1 : 0)) return undefined
        waiting ??= Promise.withResolvers<void>()
        return waiting.promise
      },
      lost(shortened) {
        countLost(channel)
        if (shortened !== undefined) heard.taken[shortened.partition] = Math.min(heard.taken[shortened.partition] ?? 0, shortened.end)
      },
      end: () => end(reasons.serverBusy, 'the log cannot be followed now: connect again'),
    }
  }

  /** Whatever a message has must not end what others hear. */
  function fail(error: unknown, { raw: { channel }, partition, offset }: LiveMessage): void {
    logger.error({ err: error, channel, partition, offset }, 'cannot send a message to a subscriber')
    end(reasons.unspecified, 'a message cannot be sent')
  }

  return {
    inFlight,
    followerOf,
    /** @param subscription a shared one, whose options may change */
    memberOf: (subscription: () => Subscription): Member => ({
      hasSpace: () => hasSpace(subscription().kept.qos),
      take(message, isRepeat, done) {
        const outgoing = outgoingOf(message)
        const delivery = deliveryOf(message.raw.publisher, outgoing, [subscription()])
        let messageId = 0
        try {
          if (delivery !== undefined)
            messageId = transmit(outgoing, delivery, flagsOf(message, delivery, isRepeat && delivery.qos > 0), undefined)
        } catch (error) {
          fail(error, message)
        }
        if (messageId === 0) done()
        else acknowledging.set(messageId, done)
      },
    }),
    /** Sends what is retained and matches, before anything live. */
    beginRetained(heard: Heard, filter: string): void {
      retained.set(filter, sendRetained(parts.retained.messagesOf(heard.channel), heard, heard.subscriptions.get(filter)!))
    },
    endRetained: (filter: string): void => void retained.delete(filter),
    countLost,
    /** Takes a PUBACK or PUBCOMP. @returns false if nothing waits for it */
    acknowledged(messageId: number, qos: 1 | 2): boolean {
      if (!inFlight.end(messageId, qos)) return false
      const done = acknowledging.get(messageId)
      if (done !== undefined) {
        acknowledging.delete(messageId)
        done()
      }
      // Not for each: a subscriber that is behind reads the log each time.
      if (inFlight.size <= inFlightMax / 2) wake()
      persistence()?.saveSoon()
      return true
    },
    /**
     * Takes a PUBREC (MQTT 5 §4.3.3), which a PUBREL answers when it is saved that the client has the message.
     *
     * @returns false if no message waits for it, or it had one
     */
    received(messageId: number): boolean {
      const isFirst = inFlight.received(messageId)
      // Once, however often a client sends a PUBREC.
      if (isFirst !== undefined) sendAfterSave(messageId, () => link.send({ cmd: 'pubrel', messageId }))
      return isFirst === true
    },
    wake,
  }
}
