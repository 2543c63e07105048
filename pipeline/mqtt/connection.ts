// One MQTT connection, from its CONNECT to its end.

import type { Packet } from 'mqtt-packet'
import type { MqttParts } from './dependencies.ts'
import { authenticate, connackOf, type Refusal, refusedConnack, type Session, whyRefused } from './handshake.ts'
import type { Link } from './link.ts'
import { checkFilters, PacketError } from './packets.ts'
import { openPublishing } from './publishing.ts'
import { reasons, returnCodes } from './reasons.ts'

export interface Connection {
  readonly session: Session
  /** Sends a DISCONNECT (MQTT 5) and closes. */
  end(reasonCode: number, sentence: string): void
  /** Takes no more messages, answers those that were taken, and closes. The will is not published. */
  drain(): Promise<void>
  /** Ends it if the key is no longer valid, or cannot be checked. */
  recheck(): Promise<void>
}

/** All connections of a process. */
export interface Connections {
  /** Ends an older one with the same key and client id. @returns false if the thing has as many as it may */
  join(connection: Connection): boolean
  leave(connection: Connection): void
}

/** Who sends a CONNECT is not known yet. */
const connectBytesMax = 65_536
/** Of a PUBLISH besides its payload: topic and properties. */
export const packetHeadBytesMax = 16_384
/** A client may be silent for one and a half of its keep-alive (MQTT 5 §3.1.2.10). */
const keepAliveFactor = 1.5

const noSubscriptions = 'subscribing is not supported: read messages over HTTP'

/** Resolves when the connection has ended. Never rejects for what the client does. */
export async function serveConnection(link: Link, parts: MqttParts, connections: Connections): Promise<void> {
  const session = await accept(link, parts)
  if (session === undefined) return
  const { options, payloadBytesMax, startTimer, access, metrics, say } = parts
  const packetBytesMax = payloadBytesMax + packetHeadBytesMax
  let isReading = false
  let isDraining = false
  let hasEnded = false
  let hasWill = session.will !== undefined

  function end(reasonCode: number, sentence: string): void {
    if (hasEnded) return
    hasEnded = true
    say(session!, `connection closed: ${sentence}`)
    link.end(session!.version === 4 ? undefined : { cmd: 'disconnect', reasonCode, properties: { reasonString: sentence } })
  }
  const publishing = openPublishing({ session, link, parts, end })
  const connection: Connection = {
    session,
    end,
    async drain() {
      isDraining = true
      await publishing.settled()
      end(reasons.serverShuttingDown, 'the server stops: connect again')
    },
    async recheck() {
      const refusal = await whyRefused(session, access)
      if (refusal?.code === 'unavailable') end(reasons.serverBusy, refusal.sentence)
      else if (refusal !== undefined) end(reasons.notAuthorized, 'the key of the thing is no longer valid')
    },
  }

  /** @returns false after a DISCONNECT */
  async function handle(packet: Packet): Promise<boolean> {
    const { cmd, messageId = 0 } = packet
    if (cmd === 'publish') await publishing.take(packet)
    else if (cmd === 'pingreq') link.send({ cmd: 'pingresp' })
    else if (cmd === 'subscribe') {
      checkFilters(messageId, packet.subscriptions, 'SUBSCRIBE')
      say(session!, noSubscriptions)
      const refused = session!.version === 5 ? reasons.implementationSpecific : reasons.unspecified
      link.send({ cmd: 'suback', messageId, granted: packet.subscriptions.map(() => refused) })
    } else if (cmd === 'unsubscribe') {
      checkFilters(messageId, packet.unsubscriptions, 'UNSUBSCRIBE')
      link.send({ cmd: 'unsuback', messageId, granted: packet.unsubscriptions.map(() => reasons.noSubscriptionExisted) })
    } else if (cmd === 'disconnect') {
      hasWill &&= packet.reasonCode === reasons.disconnectWithWill
      return false
    } else throw new PacketError(reasons.protocolError, `a client sends no ${cmd.toUpperCase()} here`)
    return true
  }

  async function next(): Promise<Packet | undefined> {
    isReading = true
    try {
      return await link.next(packetBytesMax)
    } finally {
      isReading = false
    }
  }

  if (!connections.join(connection)) {
    const sentence = `the thing has ${options.thingConnectionsMax} connections, and no more are allowed: close some`
    const codes = { reasonCode: reasons.quotaExceeded, returnCode: returnCodes.serverUnavailable }
    refuse(link, parts, { ...codes, code: 'too_many_requests', sentence }, session)
    return
  }
  const silentMs = session.keepAliveSeconds * 1000 * keepAliveFactor
  const keepAlive = silentMs === 0 ? undefined : startTimer(silentMs, onIdle)
  function onIdle(): void {
    // While the log is full the client is not read, so it is not silent.
    if (isReading) end(reasons.keepAliveTimeout, 'no packet arrived within one and a half of the keep-alive')
    else keepAlive!.restart()
  }
  try {
    link.send(connackOf(session, options.inFlightMax, packetBytesMax))
    for (let packet = await next(); packet !== undefined; packet = await next()) {
      keepAlive?.restart()
      if (!isDraining && !(await handle(packet))) break
    }
  } catch (error) {
    if (!(error instanceof PacketError)) throw error
    metrics.refused('malformed_request')
    end(error.reasonCode, error.message)
  } finally {
    keepAlive?.stop()
    // A client that has ended its side may still read acknowledgements.
    await publishing.settled()
    connections.leave(connection)
    link.end()
  }
  if (hasWill && !isDraining) await publishing.takeWill(session.will!)
}

/** @returns undefined if the connection was refused, or has ended */
async function accept(link: Link, parts: MqttParts): Promise<Session | undefined> {
  const { options, startTimer, access } = parts
  const timer = startTimer(options.connectTimeoutMs, () => link.end())
  try {
    const connect = await link.connect(connectBytesMax)
    if (connect === undefined) return undefined
    const answer = await authenticate(connect, link.address, access)
    if (!('sentence' in answer)) return link.closed.aborted ? undefined : answer
    refuse(link, parts, answer)
  } catch (error) {
    if (!(error instanceof PacketError)) throw error
    const codes = { reasonCode: error.reasonCode, returnCode: returnCodes.unsupportedVersion }
    const refusal: Refusal = { ...codes, code: 'malformed_request', sentence: error.message }
    // Only a client of another version gets an answer (MQTT 5 §3.1.2.2): others do not speak MQTT.
    if (error.reasonCode === reasons.unsupportedVersion) refuse(link, parts, refusal)
    else {
      parts.metrics.refused(refusal.code)
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
  say(client, `connection refused: ${refusal.sentence}`)
  link.end(refusedConnack(refusal))
}
