// What one connection has subscribed to. Each channel is followed once, whatever number of filters name it, and a message that matches several of them is sent
// once. What a client does not take waits in the log: nothing is queued here but what was sent and is not acknowledged.

import type { ISubscribePacket, IUnsubscribePacket } from 'mqtt-packet'
import { AccessUnavailableError } from '../../../control-plane/client.ts'
import { withoutQuery } from '../../ingest/mqtt-topic.ts'
import { endsOf, type LiveMessages } from '../../live/messages.ts'
import type { Followed } from '../../live/rights.ts'
import type { ConnectionParts } from '../dependencies.ts'
import { checkFilters } from '../packets.ts'
import { isUnavailable, PacketError, reasons } from '../reasons.ts'
import type { KeptPosition, KeptSession, KeptSubscription, LogOffset } from '../sessions/records.ts'
import { type Heard, openDelivering, type Subscription } from './delivering.ts'
import { FilterError, parseFilter } from './filter.ts'
import type { Membership } from './groups.ts'
import { sentAgain } from './in-flight.ts'

/** A shared subscription. */
interface Share extends Membership {
  subscription: Subscription
}

/** When a SUBSCRIBE is answered with what is retained (MQTT 5 §3.8.3.1). */
const retainHandling = { each: 0, first: 1, never: 2 } as const

const endings = {
  access_ended: [reasons.notAuthorized, 'the thing may no longer read a channel that it has subscribed to'],
  unavailable: [reasons.serverBusy, 'the rights of a subscription cannot be checked now: connect again'],
} as const

export type Subscriptions = ReturnType<typeof openSubscriptions>

export function openSubscriptions(own: ConnectionParts) {
  const { session, link, parts, controls, refusals, end, persistence } = own
  const { live, groups, rights, options, say } = parts
  const { version } = session
  const channels = new Map<string, Heard>()
  /** Shared subscriptions, by filter. */
  const shares = new Map<string, Share>()
  const delivering = openDelivering(own, () => shares.forEach(({ wake }) => wake()))
  const { inFlight } = delivering

  /**
   * Opens what the connection hears of a channel. Until `leave` the connection ends with the right to hear it.
   *
   * @param begins to which the start is added
   * @throws FilterError, AccessUnavailableError; what `open` throws
   */
  async function admit<Opened>(
    channel: string,
    begins: (() => void)[],
    open: (leave: () => void) => Promise<{ readonly opened: Opened; readonly start: () => void }>,
  ): Promise<Opened> {
    const { credential, address, thing } = session
    let endReason: keyof typeof endings | 'left' | undefined
    let isAdmitted = false
    const followed: Followed = {
      end(reason) {
        endReason = reason
        const [reasonCode, sentence] = endings[reason]
        if (isAdmitted) end(reasonCode, sentence)
      },
      ended: () => endReason,
    }
    function leave(): void {
      endReason = 'left'
      rights.forget(followed)
    }
    try {
      // From its check on, so that no end of the right is missed.
      await rights.watch(followed, { credential, channel, action: 'read', address }, thing)
      const ended = followed.ended()
      if (ended === 'access_ended') throw new FilterError(reasons.notAuthorized, 'the thing is not connected to the channel of the filter')
      if (ended !== undefined) throw new AccessUnavailableError('the rights of a subscription cannot be checked now')
      isAdmitted = true
      const { opened, start } = await open(leave)
      begins.push(() => {
        if (followed.ended() === undefined) start()
      })
      return opened
    } catch (error) {
      leave()
      throw error
    }
  }

  /** @throws FilterError, AccessUnavailableError, LiveUnavailableError */
  function follow(log: LiveMessages, channel: string, begins: (() => void)[], kept?: KeptPosition): Promise<Heard> {
    return admit(channel, begins, async leave => {
      // Below may have been sent before a crash; from there on nothing was sent, also if the log lost messages since.
      const ends = kept === undefined ? [] : await endsOf(log, channel)
      const following = await log.follow(channel, kept && { log: kept.log, offsets: kept.acknowledged, partition: 0, rows: 0 })
      if (following.lost) delivering.countLost(channel)
      const isSame = kept?.log === following.log
      const heard: Heard = {
        channel,
        following,
        subscriptions: new Map(),
        taken: isSame ? kept.taken.map((offset, partition) => Math.min(offset, ends[partition] ?? 0)) : [],
        sentBelow: isSame && !kept.isEnd ? ends : [],
        stop() {
          leave()
          following.stop()
          for (const filter of heard.subscriptions.keys()) delivering.endRetained(filter)
          delivering.wake()
          if (channels.get(channel) === heard) channels.delete(channel)
        },
      }
      channels.set(channel, heard)
      return { opened: heard, start: () => following.start(delivering.followerOf(heard)) }
    })
  }

  /** @throws FilterError, AccessUnavailableError, LiveUnavailableError, SessionsUnavailableError */
  async function share(name: string, subscription: Subscription, begins: (() => void)[]): Promise<void> {
    if (groups === undefined) {
      throw new FilterError(reasons.sharedNotSupported, 'shared subscriptions are turned off: see mqtt.session_expiry_seconds_max')
    }
    const known = shares.get(name)
    if (known !== undefined) {
      known.subscription = subscription
      return
    }
    await admit(subscription.channel, begins, async leave => {
      const membership = await groups.enter(name, subscription, session.expirySeconds)
      const opened: Share = {
        ...membership,
        subscription,
        stop() {
          leave()
          membership.stop()
          shares.delete(name)
        },
      }
      shares.set(name, opened)
      return { opened, start: () => opened.start(delivering.memberOf(() => opened.subscription)) }
    })
  }

  const count = (): number => [...channels.values()].reduce((sum, { subscriptions }) => sum + subscriptions.size, shares.size)

  /** @returns the granted QoS. @throws FilterError, AccessUnavailableError, LiveUnavailableError */
  async function grant(
    { topic, qos, nl = false, rap = false, rh = retainHandling.each }: ISubscribePacket['subscriptions'][number],
    identifier: number | undefined,
    begins: (() => void)[],
  ): Promise<number> {
    if (live === undefined || options.subscriptionsMax === 0) {
      throw new FilterError(reasons.implementationSpecific, 'subscribing is turned off: see mqtt.subscriptions_max')
    }
    const filter = parseFilter(topic)
    const name = withoutQuery(topic)
    const kept: KeptSubscription = { filter: name, qos, isNoLocal: nl, isRetainAsPublished: rap, identifier }
    const known = channels.get(filter.channel)
    if (known?.subscriptions.has(name) !== true && !shares.has(name) && count() >= options.subscriptionsMax) {
      throw new FilterError(reasons.quotaExceeded, `a connection has at most ${options.subscriptionsMax} subscriptions: unsubscribe some`)
    }
    if (filter.isShared) {
      if (nl) throw new PacketError(reasons.protocolError, 'a shared subscription has the option no local')
      // One of QoS 2 could go to no other client (MQTT 5 §4.8.2).
      const granted = qos === 0 ? 0 : 1
      await share(name, { ...filter, kept: { ...kept, qos: granted } }, begins)
      return granted
    }
    const heard = known ?? (await follow(live, filter.channel, begins))
    try {
      // Only now, as what is appended from here on comes live.
      if (rh !== retainHandling.never) await parts.retained.ready()
    } catch (error) {
      if (heard.subscriptions.size === 0) heard.stop()
      throw error
    }
    const isAnswered = rh === retainHandling.each || (rh === retainHandling.first && !heard.subscriptions.has(name))
    // Before what is live begins.
    if (isAnswered) begins.unshift(() => delivering.beginRetained(heard, name))
    heard.subscriptions.set(name, { ...filter, kept })
    return qos
  }

  function refusalOf(error: unknown, topic: string): number {
    const isFilter = error instanceof FilterError
    if (!isFilter && !isUnavailable(error)) throw error
    const sentence = isFilter ? error.message : `${error.message}: subscribe again`
    say(session, `subscription refused: ${sentence}`, { topic: withoutQuery(topic).slice(0, 200) })
    return version === 4 || !isFilter ? reasons.unspecified : error.reasonCode
  }

  return {
    /** Answers each filter in a SUBACK; messages begin after it. @throws PacketError, SessionsUnavailableError */
    async subscribe({ messageId = 0, subscriptions, properties }: ISubscribePacket): Promise<void> {
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
      delivering.wake()
      await persistence()?.save()
      link.send({ cmd: 'suback', messageId, granted })
      for (const begin of begins) begin()
      delivering.wake()
    },

    /** @throws PacketError, SessionsUnavailableError */
    async unsubscribe({ messageId = 0, unsubscriptions }: IUnsubscribePacket): Promise<void> {
      checkFilters(messageId, unsubscriptions, 'UNSUBSCRIBE')
      const granted = unsubscriptions.map(topic => {
        const shared = shares.get(withoutQuery(topic))
        shared?.stop()
        if (shared !== undefined) return reasons.success
        for (const heard of channels.values()) {
          if (!heard.subscriptions.delete(withoutQuery(topic))) continue
          delivering.endRetained(withoutQuery(topic))
          if (heard.subscriptions.size === 0) heard.stop()
          return reasons.success
        }
        return reasons.noSubscriptionExisted
      })
      delivering.wake()
      await persistence()?.save()
      link.send({ cmd: 'unsuback', messageId, granted })
    },

    /**
     * Goes on with the subscriptions of an earlier connection, where they were. Those that the thing may no longer have are left out.
     *
     * @returns begins to send
     * @throws AccessUnavailableError, LiveUnavailableError
     */
    async resume(kept: KeptSession): Promise<() => void> {
      const begins: (() => void)[] = []
      if (live === undefined) return () => undefined
      for (const subscription of kept.subscriptions) {
        const { filter } = subscription
        try {
          const parsed = parseFilter(filter)
          if (parsed.isShared) {
            await share(filter, { ...parsed, kept: subscription }, begins)
            continue
          }
          const heard = channels.get(parsed.channel) ?? (await follow(live, parsed.channel, begins, kept.positions[parsed.channel]))
          heard.subscriptions.set(filter, { ...parsed, kept: subscription })
        } catch (error) {
          if (!(error instanceof FilterError)) throw error
          say(session, `subscription ended: ${error.message}`, { topic: filter.slice(0, 200) })
        }
      }
      const isSame = ({ channel }: LogOffset): boolean => channels.get(channel)?.following.log === kept.positions[channel]?.log
      const deliveries = sentAgain(kept.inFlight, isSame)
      inFlight.resume(deliveries)
      return () => {
        for (const { id, at } of deliveries) if (at === undefined) link.send({ cmd: 'pubrel', messageId: id })
        for (const begin of begins) begin()
      }
    },

    /** For the next connection. @param hasEnded after `close` */
    state(hasEnded: boolean): Pick<KeptSession, 'subscriptions' | 'positions' | 'inFlight'> {
      const subscriptions = [...shares.values()].map(({ subscription }) => subscription.kept)
      const positions: Record<string, KeptPosition> = {}
      for (const [channel, { following, subscriptions: heard, taken, sentBelow }] of channels) {
        for (const { kept } of heard.values()) subscriptions.push(kept)
        const { log, offsets } = following.streamOffset()
        const latest = offsets.map((offset, partition) => Math.max(offset, taken[partition] ?? 0))
        const isPast = latest.every((offset, partition) => offset >= (sentBelow[partition] ?? 0))
        positions[channel] = { log, acknowledged: [...offsets], taken: latest, isEnd: hasEnded && isPast }
      }
      const waiting = inFlight.state(({ channel, partition }) => positions[channel]?.acknowledged[partition])
      for (const { at } of waiting) {
        if (at === undefined) continue
        const acknowledged = positions[at.channel]!.acknowledged as number[]
        acknowledged[at.partition] = Math.min(acknowledged[at.partition]!, at.offset)
      }
      return { subscriptions, positions, inFlight: waiting }
    },

    acknowledged: (messageId: number, qos: 1 | 2): boolean => delivering.acknowledged(messageId, qos),
    received: (messageId: number): boolean => delivering.received(messageId),
    /** Nothing is sent afterwards. */
    close(): void {
      for (const one of [...channels.values(), ...shares.values()]) one.stop()
      delivering.wake()
    },
  }
}
