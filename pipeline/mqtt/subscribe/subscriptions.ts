// What one connection has subscribed to. Each channel is followed once, whatever number of filters name it, and a message that matches several of them is sent
// once. What a client does not take waits in the log: nothing is queued here but what was sent and is not acknowledged.

import type { ISubscribePacket, IUnsubscribePacket } from 'mqtt-packet'
import { type AccessRequest, AccessUnavailableError } from '../../../control-plane/client.ts'
import { type Follower, type Following, type LiveMessage, type LiveMessages, LiveUnavailableError } from '../../live/messages.ts'
import type { Followed, StreamReader } from '../../live/rights.ts'
import type { RateLimit } from '../bounds/rate-limit.ts'
import type { MqttParts } from '../dependencies.ts'
import type { Session } from '../handshake.ts'
import type { Link } from '../link.ts'
import { checkFilters } from '../packets.ts'
import { PacketError, reasons } from '../reasons.ts'
import type { Persistence } from '../sessions/session.ts'
import {
  type KeptPosition,
  type KeptSession,
  type KeptSubscription,
  type LogOffset,
  type Qos,
  SessionsUnavailableError,
} from '../sessions/store.ts'
import { FilterError, matches, parseFilter, type TopicFilter, withoutQuery } from './filter.ts'
import { openInFlight } from './in-flight.ts'
import { openSavedFirst } from './saved-first.ts'

export interface Subscriptions {
  /**
   * Answers each filter in a SUBACK; messages begin after it.
   *
   * @throws PacketError, SessionsUnavailableError
   */
  subscribe(packet: ISubscribePacket): Promise<void>
  /** @throws PacketError, SessionsUnavailableError */
  unsubscribe(packet: IUnsubscribePacket): Promise<void>
  /**
   * Goes on with the subscriptions of an earlier connection, where they were. Those that the thing may no longer have are left out.
   *
   * @returns begins to send
   * @throws AccessUnavailableError, LiveUnavailableError
   */
  resume(kept: KeptSession): Promise<() => void>
  /** For the next connection. @param hasEnded after `close` */
  state(hasEnded: boolean): Pick<KeptSession, 'subscriptions' | 'positions' | 'inFlight'>
  /** Takes a PUBACK or PUBCOMP. @returns false if nothing waits for it */
  acknowledged(messageId: number, qos: 1 | 2): boolean
  /** Takes a PUBREC (MQTT 5 §4.3.3), which a PUBREL answers when it is saved that the client has the message. @returns false if no message waits for it */
  received(messageId: number): boolean
  /** Nothing is sent afterwards. */
  close(): void
}

interface SubscriptionsParts {
  readonly session: Session
  readonly link: Link
  readonly parts: MqttParts
  /** Of filters, and of packets with refused ones. */
  readonly controls: RateLimit
  readonly refusals: RateLimit
  /** Ends the connection. */
  readonly end: (reasonCode: number, sentence: string) => void
  /** Of a session that outlives the connection. */
  readonly persistence: () => Persistence | undefined
}

interface Subscription extends TopicFilter {
  readonly qos: Qos
  /** Leaves out what the thing itself published. */
  readonly isNoLocal: boolean
  readonly identifier: number | undefined
}

/** A channel that is followed. */
interface Heard {
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
}

/** In the first byte of a PUBLISH (MQTT 5 §3.3.1.1). */
const dupFlag = 0x08

const endings = {
  access_ended: [reasons.notAuthorized, 'the thing may no longer read a channel that it has subscribed to'],
  unavailable: [reasons.serverBusy, 'the rights of a subscription cannot be checked now: connect again'],
} as const

export function openSubscriptions({ session, link, parts, controls, refusals, end, persistence }: SubscriptionsParts): Subscriptions {
  const { access, live, rights, outgoingOf, deliveries, options, say, logger } = parts
  const { version } = session
  const channels = new Map<string, Heard>()
  const inFlight = openInFlight()
  const inFlightMax = Math.min(options.inFlightMax, session.receiveMax)
  const savedFirst = openSavedFirst({
    link,
    save: async () => persistence()?.saveHeld(),
    onSent: wake,
    onFailed(error) {
      if (!(error instanceof SessionsUnavailableError)) logger.error({ err: error }, 'cannot save a session of MQTT')
      end(reasons.serverBusy, (error as Error).message)
    },
  })
  let isClosed = false
  let waiting: PromiseWithResolvers<void> | undefined

  function hasSpace(qos: Qos): boolean {
    return link.hasSpace() && savedFirst.hasSpace && (qos === 0 || inFlight.size < inFlightMax)
  }

  function wake(): void {
    waiting?.resolve()
    waiting = undefined
  }
  link.onSpace(wake)

  function deliveryOf({ raw }: LiveMessage, messageParts: readonly string[], { subscriptions }: Heard): Delivery | undefined {
    let qos: Qos | undefined
    const identifiers: number[] = []
    for (const { levels, qos: own, isNoLocal, identifier } of subscriptions.values()) {
      if ((isNoLocal && raw.publisher === session.thing) || !matches(levels, messageParts)) continue
      if (qos === undefined || own > qos) qos = own
      if (identifier !== undefined) identifiers.push(identifier)
    }
    return qos === undefined ? undefined : { qos, identifiers }
  }

  /** @returns false if there is no space */
  function send(message: LiveMessage, heard: Heard): boolean {
    const outgoing = outgoingOf(message)
    const delivery = message.raw.fault === undefined && outgoing.isSendable ? deliveryOf(message, outgoing.parts, heard) : undefined
    if (delivery === undefined) return true
    const { qos, identifiers } = delivery
    const { partition, offset } = message
    const at = { channel: heard.channel, partition, offset }
    const isRepeat = inFlight.isRepeat(at)
    if (!isRepeat && offset < (heard.taken[partition] ?? 0)) return true
    if (!hasSpace(qos)) return false
    heard.taken[partition] = Math.max(heard.taken[partition] ?? 0, offset + 1)
    const size = outgoing.head(version, qos, 1, identifiers).length + outgoing.payload.length
    // Such a message counts as delivered (MQTT 5 §3.1.2.11.4).
    if (size > session.packetBytesMax) return true
    const head = outgoing.head(version, qos, qos === 0 ? 0 : inFlight.begin(at, qos), identifiers)
    if (isRepeat || (qos === 1 && offset < (heard.sentBelow[partition] ?? 0))) head[0]! |= dupFlag
    deliveries.delivered()
    if (qos === 2) savedFirst.deliver(head, outgoing.payload)
    else {
      link.deliver(head, outgoing.payload)
      persistence()?.saveSoon()
    }
    return true
  }

  function tellLost(channel: string): void {
    say(session, 'messages were deleted from the log before they could be delivered', { channel })
    deliveries.lost()
  }

  function followerOf(heard: Heard, channel: string): Follower {
    return {
      partsOf: () => 1,
      take(message, first, last) {
        try {
          return send(message, heard) ? last : first
        } catch (error) {
          // Whatever a message has must not end what others hear.
          logger.error(
            { err: error, channel, partition: message.partition, offset: message.offset },
            'cannot send a message to a subscriber',
          )
          end(reasons.unspecified, 'a message cannot be sent')
          return last
        }
      },
      space() {
        // Space for the highest QoS is space for each message, so `take` does not refuse what this lets through.
        if (hasSpace([...heard.subscriptions.values()].some(({ qos }) => qos > 0) ? 1 : 0)) return undefined
        waiting ??= Promise.withResolvers<void>()
        return waiting.promise
      },
      lost() {
        tellLost(channel)
        // What the log lost at its end has offsets that are given again.
        for (const [partition, offset] of heard.following.streamOffset().offsets.entries()) {
          heard.taken[partition] = Math.min(heard.taken[partition] ?? 0, offset)
        }
      },
      end: () => end(reasons.serverBusy, 'the log cannot be followed now: connect again'),
    }
  }

  /** Whether the thing may hear the channel. @throws FilterError */
  async function admit(request: AccessRequest): Promise<StreamReader> {
    const right = await access.authorize(request)
    if (!right.allowed || right.publisher === null || right.publisher !== session.thing) {
      throw new FilterError(reasons.notAuthorized, 'the thing is not connected to the channel of the filter')
    }
    return { request, right }
  }

  /** @throws FilterError, AccessUnavailableError, LiveUnavailableError */
  async function follow(log: LiveMessages, channel: string, begins: (() => void)[], kept?: KeptPosition): Promise<Heard> {
    const { credential, address } = session
    const reader = await admit({ credential, channel, action: 'read', address })
    const following = await log.follow(channel, kept && { log: kept.log, offsets: kept.acknowledged, partition: 0, rows: 0 })
    if (following.lost) tellLost(channel)
    const isSame = kept?.log === following.log
    const ends = isSame ? await endsOf(log, channel) : []
    let isOver = false
    const followed: Followed = {
      end(reason) {
        isOver = true
        const [reasonCode, sentence] = endings[reason]
        end(reasonCode, sentence)
      },
      ended: () => (isOver ? 'left' : undefined),
    }
    const heard: Heard = {
      channel,
      following,
      subscriptions: new Map(),
      taken: isSame ? kept.taken.map((offset, partition) => Math.min(offset, ends[partition] ?? 0)) : [],
      sentBelow: isSame && !kept.isEnd ? ends : [],
      stop() {
        isOver = true
        following.stop()
        rights.forget(followed)
        wake()
        if (channels.get(channel) === heard) channels.delete(channel)
      },
    }
    channels.set(channel, heard)
    // The access may have ended since it was checked.
    await rights.watch(followed, reader)
    begins.push(() => {
      if (!isOver) following.start(followerOf(heard, channel))
    })
    return heard
  }

  /** Below may have been sent before a crash; from there on nothing was sent, also if the log lost messages since. */
  async function endsOf(log: LiveMessages, channel: string): Promise<readonly number[]> {
    const following = await log.follow(channel, undefined)
    following.stop()
    return following.streamOffset().offsets
  }

  function count(): number {
    let all = 0
    for (const { subscriptions } of channels.values()) all += subscriptions.size
    return all
  }

  /** @returns the granted QoS. @throws FilterError, AccessUnavailableError, LiveUnavailableError */
  async function grant(
    { topic, qos, nl = false }: ISubscribePacket['subscriptions'][number],
    identifier: number | undefined,
    begins: (() => void)[],
  ): Promise<number> {
    if (live === undefined || options.subscriptionsMax === 0) {
      throw new FilterError(reasons.implementationSpecific, 'subscribing is turned off: see mqtt.subscriptions_max')
    }
    const filter = parseFilter(topic)
    const name = withoutQuery(topic)
    const known = channels.get(filter.channel)
    if (known?.subscriptions.has(name) !== true && count() >= options.subscriptionsMax) {
      throw new FilterError(reasons.quotaExceeded, `a connection has at most ${options.subscriptionsMax} subscriptions: unsubscribe some`)
    }
    const heard = known ?? (await follow(live, filter.channel, begins))
    if (isClosed) {
      heard.stop()
      return reasons.unspecified
    }
    heard.subscriptions.set(name, { ...filter, qos, isNoLocal: nl, identifier })
    return qos
  }

  function refusalOf(error: unknown, topic: string): number {
    const [reasonCode, sentence] =
      error instanceof FilterError
        ? [error.reasonCode, error.message]
        : error instanceof AccessUnavailableError || error instanceof LiveUnavailableError
          ? [reasons.unspecified, `${error.message}: subscribe again`]
          : [undefined, '']
    if (reasonCode === undefined) throw error
    say(session, `subscription refused: ${sentence}`, { topic: withoutQuery(topic).slice(0, 200) })
    return version === 4 ? reasons.unspecified : reasonCode
  }

  return {
    async subscribe({ messageId = 0, subscriptions, properties }) {
      checkFilters(messageId, subscriptions, 'SUBSCRIBE')
      const identifier = properties?.subscriptionIdentifier
      if (identifier === 0) throw new PacketError(reasons.protocolError, 'the subscription identifier is 0')
      const granted: number[] = []
      const begins: (() => void)[] = []
      /** Not asked again for the other filters, since each may wait for seconds. */
      let away: unknown
      for (const one of subscriptions) {
        // Each asks the control plane, as a packet does.
        controls.spend()
        try {
          if (away !== undefined) throw away
          granted.push(await grant(one, identifier, begins))
        } catch (error) {
          granted.push(refusalOf(error, one.topic))
          if (!(error instanceof FilterError)) away = error
        }
      }
      if (granted.some(code => code >= reasons.unspecified)) refusals.spend()
      wake()
      await persistence()?.save()
      link.send({ cmd: 'suback', messageId, granted })
      for (const begin of begins) begin()
    },

    async unsubscribe({ messageId = 0, unsubscriptions }) {
      checkFilters(messageId, unsubscriptions, 'UNSUBSCRIBE')
      const granted = unsubscriptions.map(topic => {
        for (const heard of channels.values()) {
          if (!heard.subscriptions.delete(withoutQuery(topic))) continue
          if (heard.subscriptions.size === 0) heard.stop()
          return reasons.success
        }
        return reasons.noSubscriptionExisted
      })
      wake()
      await persistence()?.save()
      link.send({ cmd: 'unsuback', messageId, granted })
    },

    async resume(kept) {
      const begins: (() => void)[] = []
      if (live === undefined) return () => undefined
      for (const { filter, qos, isNoLocal, identifier } of kept.subscriptions) {
        try {
          const parsed = parseFilter(filter)
          const heard = channels.get(parsed.channel) ?? (await follow(live, parsed.channel, begins, kept.positions[parsed.channel]))
          heard.subscriptions.set(filter, { ...parsed, qos, isNoLocal, identifier })
        } catch (error) {
          if (!(error instanceof FilterError)) throw error
          say(session, `subscription ended: ${error.message}`, { topic: filter.slice(0, 200) })
        }
      }
      const isSame = ({ channel }: LogOffset): boolean => channels.get(channel)?.following.log === kept.positions[channel]?.log
      inFlight.resume(kept.inFlight.filter(({ at }) => at === undefined || isSame(at)))
      if (isClosed) for (const heard of channels.values()) heard.stop()
      return () => {
        for (const { id, at } of kept.inFlight) if (at === undefined) link.send({ cmd: 'pubrel', messageId: id })
        for (const begin of begins) begin()
      }
    },

    state(hasEnded) {
      const subscriptions: KeptSubscription[] = []
      const positions: Record<string, KeptPosition> = {}
      for (const [channel, { following, subscriptions: own, taken }] of channels) {
        for (const [filter, { qos, isNoLocal, identifier }] of own) subscriptions.push({ filter, qos, isNoLocal, identifier })
        const { log, offsets } = following.streamOffset()
        const latest = offsets.map((offset, partition) => Math.max(offset, taken[partition] ?? 0))
        positions[channel] = { log, acknowledged: [...offsets], taken: latest, isEnd: hasEnded }
      }
      const isPast = ({ channel, partition, offset }: LogOffset): boolean =>
        offset < (positions[channel]?.acknowledged[partition] ?? Infinity)
      const waiting = inFlight.state(isPast).filter(({ at }) => at === undefined || positions[at.channel] !== undefined)
      for (const { at } of waiting) {
        if (at === undefined) continue
        const acknowledged = positions[at.channel]!.acknowledged as number[]
        acknowledged[at.partition] = Math.min(acknowledged[at.partition]!, at.offset)
      }
      return { subscriptions, positions, inFlight: waiting }
    },

    acknowledged(messageId, qos) {
      if (!inFlight.end(messageId, qos)) return false
      // Not for each: a subscriber that is behind reads the log each time.
      if (inFlight.size <= inFlightMax / 2) wake()
      persistence()?.saveSoon()
      return true
    },

    received(messageId) {
      if (!inFlight.received(messageId)) return false
      savedFirst.release(messageId)
      return true
    },

    close() {
      isClosed = true
      for (const heard of channels.values()) heard.stop()
      wake()
    },
  }
}
