// A broker that does as the test says, and a bridge that reads it into a log that the test answers for.

import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import {
  generate,
  type IConnackPacket,
  type IConnectPacket,
  type IPublishPacket,
  type ISubscribePacket,
  type Packet,
  parser,
} from 'mqtt-packet'
import { Registry } from 'prom-client'
import { onTestFinished } from 'vitest'
import { openOutages } from '../../../config/outage.ts'
import type { TlsTexts } from '../../../http/tls-files.ts'
import { openBridge } from '../../../pipeline/bridge/bridge.ts'
import { openEnvelopeReader } from '../../../pipeline/bridge/envelope.ts'
import { openIntake } from '../../../pipeline/bridge/intake.ts'
import type { BrokerOptions } from '../../../pipeline/bridge/options.ts'
import { openIngestMetrics } from '../../../pipeline/ingest/metrics.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { fixture } from '../ingest/device.ts'

/** The broker's side of a connection that has subscribed. */
export interface Side {
  readonly connect: IConnectPacket
  readonly subscribe: ISubscribePacket
  publish(id: number, topic: string, own?: Partial<IPublishPacket>): void
  /** The next packet of the bridge; undefined after the end of the connection. */
  next(): Promise<Packet | undefined>
  close(): void
}

interface Broker {
  readonly port: number
  /** The next connection that has subscribed, or was refused. */
  accept(connack?: Partial<IConnackPacket>, granted?: number): Promise<Side>
}

async function openBroker(version: 4 | 5, isTls: boolean): Promise<Broker> {
  const server = isTls ? createTlsServer({ cert: fixture('server'), key: fixture('server-key') }) : createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const arrived: Socket[] = []
  let wake: (() => void) | undefined
  server.on(isTls ? 'secureConnection' : 'connection', (socket: Socket) => {
    arrived.push(socket)
    onTestFinished(() => void socket.destroy())
    wake?.()
  })
  onTestFinished(() => void server.close())

  return {
    port: (server.address() as AddressInfo).port,
    async accept(connack = {}, granted = 1) {
      while (arrived.length === 0) {
        await new Promise<void>(resolve => {
          wake = resolve
        })
      }
      const socket = arrived.shift()!
      const next = packetsOf(socket, version)
      const send = (packet: Packet): void => void socket.write(generate(packet, { protocolVersion: version }))
      const connect = (await next()) as IConnectPacket
      const codes = version === 5 ? { reasonCode: 0 } : { returnCode: 0 }
      send({ cmd: 'connack', sessionPresent: false, ...codes, ...connack })
      const subscribe = (await next()) as ISubscribePacket
      if (subscribe !== undefined)
        send({ cmd: 'suback', messageId: subscribe.messageId!, granted: subscribe.subscriptions.map(() => granted) })
      return {
        connect,
        subscribe,
        publish: (messageId, topic, own) =>
          send({ cmd: 'publish', topic, payload: `{"v":${messageId}}`, qos: 1, dup: false, retain: false, messageId, ...own }),
        next,
        close: () => void socket.destroy(),
      }
    },
  }
}

function packetsOf(socket: Socket, protocolVersion: 4 | 5): () => Promise<Packet | undefined> {
  const packets: Packet[] = []
  let wake: (() => void) | undefined
  const bytes = parser({ protocolVersion }).on('packet', packet => {
    packets.push(packet)
    wake?.()
  })
  socket.on('data', chunk => bytes.parse(chunk))
  socket.on('error', () => undefined)
  socket.on('close', () => wake?.())
  return async () => {
    while (packets.length === 0 && !socket.closed) {
      await new Promise<void>(resolve => {
        wake = resolve
      })
    }
    return packets.shift()
  }
}

/** A message that the log was given. */
export interface Given {
  readonly message: OutgoingMessage
  readonly store: () => void
  readonly fail: (error: Error) => void
}

export interface Site extends Broker {
  /** The next message that the log is given. */
  given(): Promise<Given>
  /** How many more it was given. */
  readonly waiting: () => number
  /** What was logged. */
  readonly lines: string[]
  readonly registry: Registry
  stop(): Promise<void>
}

/** @param tls of the bridge, to a broker that has TLS */
export async function openSite(own: Partial<BrokerOptions> = {}, tls?: TlsTexts): Promise<Site> {
  const broker = await openBroker(own.version === '3.1.1' ? 4 : 5, tls !== undefined)
  const options: BrokerOptions = {
    url: `${tls === undefined ? 'mqtt' : 'mqtts'}://127.0.0.1:${broker.port}`,
    topics: ['plant/#'],
    version: '5',
    share: 'sluice',
    clientId: 'bridge-1',
    sessionExpirySeconds: 3_600,
    inFlightMax: 10,
    envelope: { channel: ['topic'] },
    ...own,
  }
  const given: Given[] = []
  let wake: (() => void) | undefined
  const log = {
    append: ([message]: readonly OutgoingMessage[]) =>
      new Promise<never[]>((resolve, reject) => {
        given.push({ message: message!, store: () => resolve([]), fail: reject })
        wake?.()
      }),
  }
  const lines: string[] = []
  const say = (fields: unknown, text?: string): void => void lines.push(text ?? String(fields))
  const logger = { info: say, warn: say }
  const registry = new Registry()
  const outages = openOutages(logger, registry, 'bridge', { log: 'Kafka', broker: 'the MQTT broker' })
  const stopping = new AbortController()
  const retrying = new AbortController()
  const intake = openIntake({
    log,
    messagesMax: options.inFlightMax,
    bytesMax: 1024 * 1024,
    metrics: openIngestMetrics(registry, 'bridge'),
    outage: outages.report('log'),
    logger,
    signal: retrying.signal,
  })
  const read = openEnvelopeReader(options.envelope, 1_000)
  const parts = { options, tls, read, intake, receiptUs: () => 1_790_000_000_000_000, logger }
  const bridge = openBridge({ ...parts, outage: outages.report('broker') }, stopping.signal)
  async function stop(): Promise<void> {
    stopping.abort()
    await bridge.stopped
    retrying.abort()
  }
  onTestFinished(stop)
  return {
    ...broker,
    async given() {
      while (given.length === 0) {
        await new Promise<void>(resolve => {
          wake = resolve
        })
      }
      return given.shift()!
    },
    waiting: () => given.length,
    lines,
    registry,
    stop,
  }
}
