// One MQTT connection, from its CONNECT to its end.

import type { IConnackPacket, Packet } from 'mqtt-packet'
import { openRateLimit } from './bounds/rate-limit.ts'
import type { ConnectionParts, MqttParts } from './dependencies.ts'
import { authenticate, type Session, topicAliasMax, whyRefused } from './handshake.ts'
import type { Link } from './link.ts'
import { acknowledgements } from './packets.ts'
import { openPublishing, type Publishing } from './publishing.ts'
import { isUnavailable, PacketError, ReasonError, type Refusal, reasons, refusalOf } from './reasons.ts'
import { openReceipts, type Receipts } from './receipts.ts'
import { nothingKept } from './sessions/records.ts'
import { openPersistence, type Persistence } from './sessions/session.ts'
import { SessionsUnavailableError } from './sessions/store.ts'
import { openSubscriptions, type Subscriptions } from './subscribe/subscriptions.ts'
import type { Timer } from './timer.ts'
import { packetHeadBytesMax } from './well-formed.ts'

export interface Connection {
  readonly session: Session
  /** Sends a DISCONNECT (MQTT 5) and closes. */
  end(reasonCode: number, sentence: string): void
  /** Takes no more messages, answers those that were taken, and closes. The will is not published. */
  drain(): Promise<void>
  /**
   * Ends it if the key or certificate is no longer valid, or if it cannot be checked now and `mustKnow`. Never rejects.
   *
   * @returns false if it could not be checked
   */
  recheck(mustKnow: boolean): Promise<boolean>
}

/** All connections of a process. */
export interface Connections {
  /** The CONNECT of one that is to be accepted has arrived. */
  greeted(): void
  /** @returns why it is refused */
  join(connection: Connection): string | undefined
  leave(connection: Connection): void
  /** No more wills may wait for their delay. */
  areFull(): boolean
}

/** A client may be silent for one and a half of its keep-alive (MQTT 5 §3.1.2.10). */
const keepAliveFactor = 1.5

/** Packets other than messages, and refused messages, which ask the control plane: how many a second, and at once. */
const otherPackets = [100, 200] as const
const refusedMessages = [2, 20] as const
/** Node.js has no longer timers. */
const timerMsMax = 2 ** 31 - 1

/** Resolves when the connection has ended. Never rejects for what the client does. */
export async function serveConnection(link: Link, parts: MqttParts, connections: Connections): Promise<void> {
  const session = await accept(link, parts, connections)
  if (session === undefined) return
  const { options, payloadBytesMax, startTimer, access, metrics, logger, say } = parts
  const packetBytesMax = payloadBytesMax + packetHeadBytesMax
  let isDraining = false
  let hasEnded = false
  /** The CONNACK was sent, before which there is no DISCONNECT (MQTT 5 §3.2). */
  let isAccepted = false
  let hasWill = false
  let isTaken = false
  let dropWill: (() => void) | undefined

  function end(reasonCode: number, sentence: string): void {
    isTaken ||= reasonCode === reasons.sessionTakenOver
    dropWill?.()
    if (hasEnded) return
    hasEnded = true
    say(session!, `connection closed: ${sentence}`)
    const isSilent = session!.version === 4 || !isAccepted
    link.end(isSilent ? undefined : { cmd: 'disconnect', reasonCode, properties: { reasonString: sentence } })
  }
  const controls = openRateLimit(...otherPackets)
  const refusals = openRateLimit(...refusedMessages)
  let persistence: Persistence | undefined
  // Each is opened when it is first used: many devices only publish, or only wait for commands.
  let receipts: Receipts | undefined
  let publishing: Publishing | undefined
  let subscriptions: Subscriptions | undefined
  const own: ConnectionParts = { session, link, parts, end, controls, refusals, persistence: () => persistence }
  const received = (): Receipts => (receipts ??= openReceipts(own))
  const published = (): Publishing => (publishing ??= openPublishing(own, received))
  const subscribed = (): Subscriptions => (subscriptions ??= openSubscriptions(own))
  let keyEnd: Timer | undefined
  const connection: Connection = {
    session,
    end,
    async drain() {
      isDraining = true
      await publishing?.settled()
      end(reasons.serverShuttingDown, 'the server stops: connect again')
    },
    async recheck(mustKnow) {
      if (hasEnded) return true
      const refusal = await whyRefused(session, access, logger)
      if (refusal === undefined) watchKeyEnd()
      else if (refusal.code !== 'unavailable') end(reasons.notAuthorized, 'the key or certificate of the thing is no longer valid')
      else if (mustKnow) end(reasons.serverBusy, refusal.sentence)
      else return false
      return true
    },
  }

  /** A key that was replaced, or a certificate, ends later, without another change. */
  function watchKeyEnd(): void {
    keyEnd?.stop()
    keyEnd = undefined
    if (session!.endsMs === undefined || hasEnded) return
    keyEnd = startTimer(Math.min(Math.max(session!.endsMs - Date.now(), 1), timerMsMax), () => {
      void connection.recheck(true)
    })
  }

  /** Waits for the delay of the will, or the end of its session. @returns false if the client came back before (MQTT 5 §3.1.3.2.2), or the process stops */
  async function isWillDue(): Promise<boolean> {
    const delaySeconds = Math.min(session!.will?.properties?.willDelayInterval ?? 0, session!.expirySeconds)
    if (delaySeconds === 0) return true
    if (isTaken) return false
    if (connections.areFull()) return true
    const { promise, resolve } = Promise.withResolvers<boolean>()
    dropWill = () => resolve(false)
    const timer = startTimer(Math.min(delaySeconds * 1000, timerMsMax), () => resolve(true))
    const isDue = await promise
    timer.stop()
    return isDue
  }

  /** @returns false after a DISCONNECT */
  async function handle(packet: Packet): Promise<boolean> {
    const { cmd, messageId = 0 } = packet
    if (cmd === 'puback' && subscriptions?.acknowledged(messageId, 1) === true) return true
    if (cmd === 'pubrec') {
      const isRefused = (packet.reasonCode ?? 0) >= reasons.unspecified
      if (isRefused ? subscriptions?.acknowledged(messageId, 2) : subscriptions?.received(messageId)) return true
    }
    if (cmd === 'pubcomp' && subscriptions?.acknowledged(messageId, 2) === true) return true
    if (cmd === 'pubrel' && published().release(messageId)) return true
    controls.spend()
    if (cmd === 'pingreq') link.send({ cmd: 'pingresp' })
    else if (cmd === 'subscribe') await subscribed().subscribe(packet)
    else if (cmd === 'unsubscribe') await subscribed().unsubscribe(packet)
    else if (cmd === 'disconnect') {
      const { sessionExpiryInterval: expirySeconds = session!.expirySeconds } = packet.properties ?? {}
      if (session!.askedExpirySeconds === 0 && expirySeconds > 0) {
        throw new PacketError(
          reasons.protocolError,
          'a DISCONNECT begins a session that outlives the connection: ask for it in the CONNECT',
        )
      }
      session!.expirySeconds = Math.min(expirySeconds, options.sessionExpirySecondsMax)
      hasWill &&= session!.version === 5 && packet.reasonCode !== reasons.success
      return false
    } else if (!acknowledgements.has(cmd)) throw new PacketError(reasons.protocolError, `a client sends no ${cmd.toUpperCase()} here`)
    return true
  }

  const overfull = connections.join(connection)
  if (overfull !== undefined) return refuse(link, parts, refusalOf(reasons.quotaExceeded, overfull), session)
  const silentMs = session.keepAliveSeconds * 1000 * keepAliveFactor
  let keepAlive: Timer | undefined
  function onIdle(): void {
    // While the log is full the client is not read, so it is not silent.
    if (link.isAwaited()) end(reasons.keepAliveTimeout, 'no packet arrived within one and a half of the keep-alive')
    else keepAlive!.restart()
  }
  try {
    persistence = await openPersistence({
      session,
      parts,
      stateOf: ended => ({ ...nothingKept, ...subscriptions?.state(ended), ...(receipts && { receipts: receipts.state() }) }),
      onTaken: () => end(reasons.sessionTakenOver, 'another connection has the same thing and client id'),
    })
    const kept = persistence?.kept
    if (kept !== undefined && kept.receipts.messages.length > 0) received().resume(kept.receipts)
    const begin = kept && (await subscribed().resume(kept))
    if (hasEnded || link.isClosed()) return
    await persistence?.save()
    if (hasEnded) return
    hasWill = session.will !== undefined
    watchKeyEnd()
    if (silentMs > 0) keepAlive = startTimer(silentMs, onIdle)
    isAccepted = true
    link.send(connackOf(session, parts, packetBytesMax, kept !== undefined))
    begin?.()
    for (;;) {
      const next = link.next(packetBytesMax)
      const packet = next instanceof Promise ? await next : next
      if (packet === undefined) break
      keepAlive?.restart()
      // Messages have bounds of their own, and so their acknowledgements.
      const done = isDraining ? true : packet.cmd === 'publish' ? published().take(packet) : handle(packet)
      if ((done instanceof Promise ? await done : done) === false) break
      const limited = controls.ready(link) ?? refusals.ready(link)
      if (limited !== undefined) await limited
    }
  } catch (error) {
    const refusal = isAccepted ? undefined : sessionRefusal(error)
    if (refusal !== undefined) {
      if (!hasEnded) refuse(link, parts, refusal, session)
      hasEnded = true
    } else if (error instanceof SessionsUnavailableError) end(reasons.serverBusy, error.message)
    else if (error instanceof PacketError) {
      metrics.refused('malformed_request')
      end(error.reasonCode, error.message)
    } else throw error
  } finally {
    keepAlive?.stop()
    keyEnd?.stop()
    // Its state is that before the subscriptions are closed.
    const saved = persistence?.end()
    subscriptions?.close()
    // What is looked up for it is looked up again for the next connection.
    receipts?.close()
    // A client that has ended its side may still read acknowledgements.
    await publishing?.settled()
    await saved
    hasEnded = true
    link.end()
    // Until then it has its place and its session, so that who takes one of them ends the wait, and the process when it stops.
    const isDue = hasWill && !isDraining && (await isWillDue())
    connections.leave(connection)
    persistence?.release()
    if (isDue) await published().takeWill(session.will!)
  }
}

function connackOf(
  session: Session,
  { options, live, groups }: MqttParts,
  packetBytesMax: number,
  sessionPresent: boolean,
): IConnackPacket {
  const { version, isClientIdAssigned, clientId, askedExpirySeconds, expirySeconds } = session
  if (version === 4) return { cmd: 'connack', sessionPresent, returnCode: 0 }
  const canSubscribe = live !== undefined && options.subscriptionsMax > 0
  const properties = {
    ...(askedExpirySeconds === expirySeconds ? {} : { sessionExpiryInterval: expirySeconds }),
    receiveMaximum: options.inFlightMax,
    maximumPacketSize: packetBytesMax,
    ...(isClientIdAssigned ? { assignedClientIdentifier: clientId } : {}),
    topicAliasMaximum: topicAliasMax,
    wildcardSubscriptionAvailable: canSubscribe,
    subscriptionIdentifiersAvailable: canSubscribe,
    sharedSubscriptionAvailable: canSubscribe && groups !== undefined,
  }
  return { cmd: 'connack', sessionPresent, reasonCode: reasons.success, properties }
}

/** Why a session cannot be had now; undefined for what is no reason. */
function sessionRefusal(error: unknown): Refusal | undefined {
  if (error instanceof ReasonError) return refusalOf(reasons.quotaExceeded, error.message)
  return isUnavailable(error) ? refusalOf(reasons.serverUnavailable, `the session cannot go on now: retry (${error.message})`) : undefined
}

/** @returns undefined if the connection was refused, or has ended */
async function accept(link: Link, parts: MqttParts, connections: Connections): Promise<Session | undefined> {
  const { options, startTimer, access, logger } = parts
  const timer = startTimer(options.connectTimeoutMs, () => link.end())
  try {
    const connect = await link.connect(packetHeadBytesMax)
    if (connect === undefined) return undefined
    connections.greeted()
    const answer = await authenticate(connect, link, options.sessionExpirySecondsMax, access, logger)
    if (!('sentence' in answer)) return link.isClosed() ? undefined : answer
    refuse(link, parts, answer)
  } catch (error) {
    if (!(error instanceof PacketError)) throw error
    // Only a client of another version gets an answer (MQTT 5 §3.1.2.2): others do not speak MQTT.
    if (error.reasonCode === reasons.unsupportedVersion) refuse(link, parts, refusalOf(error.reasonCode, error.message))
    else {
      parts.metrics.refused('malformed_request')
      parts.say(link, `connection refused: ${error.message}`)
      link.end()
    }
  } finally {
    timer.stop()
  }
  return undefined
}

function refuse(link: Link, { metrics, say }: MqttParts, refusal: Refusal, client: Session | Link = link): void {
  metrics.refused(refusal.code)
  const { reasonCode, returnCode, sentence } = refusal
  say(client, `connection refused: ${sentence}`)
  link.end({ cmd: 'connack', sessionPresent: false, reasonCode, returnCode, properties: { reasonString: sentence } })
}
