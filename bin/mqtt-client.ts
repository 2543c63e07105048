// Publishes over MQTT 5 as a device does, with QoS 1: for tools. Nothing is retried.

import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { generate, type IConnackPacket, type Packet, parser } from 'mqtt-packet'
import { ToolError } from './streams.ts'

export interface MqttTarget {
  /** `mqtt://host[:port]`, or `mqtts://…` for TLS. */
  readonly url: string
  /** The id of the publishing thing, or empty. */
  readonly thing: string
  readonly key: string
}

export interface MqttClient {
  /** How many messages the server takes at once. */
  readonly inFlightMax: number
  /** Of a packet that the server takes; undefined if it does not say. */
  readonly packetBytesMax: number | undefined
  /**
   * Resolves when the server has acknowledged the message.
   *
   * @throws ToolError with the reason of a refusal, or of the end of the connection
   */
  publish(topic: string, payload: Uint8Array, contentType: string): Promise<void>
  close(): Promise<void>
}

const ports: Readonly<Record<string, number>> = { 'mqtt:': 1883, 'mqtts:': 8883 }
const answerMsMax = 20_000
const messageIdMax = 65_535
/** Reason codes from here on are refusals (MQTT 5 §2.4). */
const refusedFrom = 0x80

const encode = (packet: Packet): Buffer => generate(packet, { protocolVersion: 5 })

/** Resolves when the server has accepted the connection. @throws ToolError */
export async function openMqttClient({ url, thing, key }: MqttTarget): Promise<MqttClient> {
  const socket = connectionTo(url)
  const unacknowledged = new Map<number, PromiseWithResolvers<void>>()
  const accepted = Promise.withResolvers<IConnackPacket>()
  let isAccepted = false
  let failure: ToolError | undefined
  let lastId = 0

  function fail(reason: string): void {
    if (failure !== undefined) return
    const uncertain = unacknowledged.size === 0 ? '' : `: the next ${unacknowledged.size} may or may not be stored`
    failure = new ToolError(`${url} ${reason}${uncertain}`)
    accepted.reject(failure)
    for (const { reject } of unacknowledged.values()) reject(failure)
    unacknowledged.clear()
    socket.destroy()
  }

  function take(packet: Packet): void {
    if (packet.cmd === 'connack') {
      if (packet.reasonCode === 0) accepted.resolve(packet)
      else fail(`refused the connection ${reasonIn(packet)}`)
    } else if (packet.cmd === 'puback') {
      const waiting = unacknowledged.get(packet.messageId!)
      unacknowledged.delete(packet.messageId!)
      if ((packet.reasonCode ?? 0) < refusedFrom) waiting?.resolve()
      else waiting?.reject(new ToolError(`a message was refused ${reasonIn(packet)}`))
    } else if (packet.cmd === 'disconnect') fail(`closed the connection ${reasonIn(packet)}`)
  }

  const packets = parser({ protocolVersion: 5 }).on('packet', take)
  packets.on('error', error => fail(`does not speak MQTT 5 (${error.message})`))
  socket.on('data', bytes => packets.parse(bytes))
  socket.on('error', error => fail(`cannot be reached (${error.message}): check the address`))
  socket.on('close', () => fail('closed the connection'))
  socket.setTimeout(answerMsMax, () => {
    if (unacknowledged.size > 0 || !isAccepted) fail(`did not answer for ${answerMsMax / 1000} s`)
  })
  const login = { clientId: '', username: thing, password: Buffer.from(key) }
  socket.write(encode({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 5, clean: true, keepalive: 0, ...login }))
  const { properties } = await accepted.promise
  isAccepted = true

  return {
    inFlightMax: properties?.receiveMaximum ?? messageIdMax,
    packetBytesMax: properties?.maximumPacketSize,
    async publish(topic, bytes, contentType) {
      if (failure !== undefined) throw failure
      lastId = (lastId % messageIdMax) + 1
      const answer = Promise.withResolvers<void>()
      unacknowledged.set(lastId, answer)
      const payload = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      const message = { topic, payload, qos: 1, messageId: lastId, dup: false, retain: false, properties: { contentType } } as const
      socket.write(encode({ cmd: 'publish', ...message }))
      await answer.promise
    },
    async close() {
      failure ??= new ToolError('the connection was closed')
      if (!socket.destroyed) await new Promise<void>(resolve => socket.end(encode({ cmd: 'disconnect', reasonCode: 0 }), () => resolve()))
    },
  }
}

/** @throws ToolError */
function connectionTo(url: string): Socket {
  const { protocol, hostname, port } = URL.canParse(url) ? new URL(url) : { protocol: '', hostname: '', port: '' }
  const ownPort = ports[protocol]
  if (ownPort === undefined || hostname === '') {
    throw new ToolError(`"${url}" is not an address for MQTT: give one such as mqtt://127.0.0.1:1883`)
  }
  const host = hostname.replace(/^\[|\]$/g, '')
  const target = { host, port: port === '' ? ownPort : Number(port) }
  if (protocol === 'mqtt:') return connectTcp(target)
  return connectTls({ ...target, ...(isIP(host) === 0 ? { servername: host } : {}) })
}

/** The reason code and the sentence of a packet. */
function reasonIn(packet: Packet): string {
  const { reasonCode = 0, properties } = packet as { reasonCode?: number; properties?: { reasonString?: string } }
  const code = `(reason code 0x${reasonCode.toString(16).padStart(2, '0')})`
  return properties?.reasonString === undefined ? code : `${code}: ${properties.reasonString}`
}
