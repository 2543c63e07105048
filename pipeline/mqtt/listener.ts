// The port for MQTT: accepts connections within their bounds, and ends those whose place another took or whose thing may no longer publish.

import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { listenFailure, reachableAddress } from '../../http/listen.ts'
import type { ServerTls } from '../../http/server.ts'
import { openReceiptClock } from '../ingest/receipt-clock.ts'
import { type Connection, type Connections, serveConnection } from './connection.ts'
import type { MqttParts } from './dependencies.ts'
import { type Link, openLink } from './link.ts'
import type { MqttMetrics } from './metrics.ts'
import { reasons } from './reasons.ts'
import { type StartTimer, startTimer as startProcessTimer } from './timer.ts'

export interface MqttListenerParts extends Omit<MqttParts, 'say' | 'startTimer' | 'receiptUs'> {
  readonly tls?: ServerTls | undefined
  readonly connectionMetrics: MqttMetrics
  /** Connections without an accepted CONNECT; with more the oldest is closed. */
  readonly handshakesMax?: number
  /** By default those of the process. */
  readonly startTimer?: StartTimer
}

export interface MqttListener {
  /** As a client writes it: `mqtt://127.0.0.1:1883`. */
  readonly url: string
  /** Accepts no more connections, answers the messages that were taken, and closes; after `drainMsMax` the remaining connections are closed. */
  close(drainMsMax: number): Promise<void>
}

/** What clients do wrong is logged in so many lines a second, and otherwise at debug. */
const linesPerSecondMax = 10
/** Ends connections whose device disappeared without a word, also without keep-alive. */
const probeMs = 60_000

/** @throws ListenError */
export async function openMqttListener(parts: MqttListenerParts): Promise<MqttListener> {
  const { options, access, logger, tls, connectionMetrics, handshakesMax = 1_000, startTimer = startProcessTimer } = parts
  const shared: MqttParts = { ...parts, startTimer, receiptUs: openReceiptClock(), say: openSay(logger) }
  const handshakes = new Set<Link>()
  const members = openMembers(options.thingConnectionsMax)
  const sockets = new Set<Socket>()
  const serving = new Set<Promise<void>>()

  async function serve(socket: Socket): Promise<void> {
    const link = openLink(socket, startTimer)
    handshakes.add(link)
    if (handshakes.size > handshakesMax) {
      const [oldest] = handshakes
      handshakes.delete(oldest!)
      oldest!.end()
    }
    const join: Connections['join'] = connection => {
      handshakes.delete(link)
      return members.join(connection)
    }
    try {
      await serveConnection(link, shared, { join, leave: connection => members.leave(connection) })
    } catch (error) {
      logger.error({ err: error }, 'a connection of MQTT failed')
      socket.destroy()
    } finally {
      handshakes.delete(link)
      link.end()
    }
  }

  function onSocket(socket: Socket): void {
    const served = serve(socket).finally(() => serving.delete(served))
    serving.add(served)
  }

  // Half open, because packets that arrived before the end of the client's side are handled, and acknowledged.
  const socketOptions = { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: probeMs }
  const server: Server =
    tls === undefined
      ? createServer(socketOptions, onSocket)
      : createTlsServer({ ...socketOptions, ...tls, minVersion: 'TLSv1.2', handshakeTimeout: options.connectTimeoutMs }, onSocket)
  server.maxConnections = options.connectionsMax
  // Of TLS the connection below it, which is there before its handshake.
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    connectionMetrics.opened()
    socket.once('close', () => {
      sockets.delete(socket)
      connectionMetrics.closed()
    })
  })
  server.on('drop', () => shared.say({ address: '' }, `connection refused: there are ${options.connectionsMax}, see mqtt.connections_max`))
  await listen(server, options)
  server.on('error', error => logger.error({ err: error }, 'cannot accept a connection of MQTT'))
  const stopListening = access.onChange(change => {
    if (change.kind !== 'thing') return
    for (const connection of members.ofThing(change.thing)) {
      connection.recheck().catch((error: unknown) => logger.error({ err: error }, 'cannot check the key of a connection'))
    }
  })

  return {
    url: `${tls === undefined ? 'mqtt' : 'mqtts'}://${reachableAddress(server, options)}`,
    async close(drainMsMax) {
      stopListening()
      const closed = new Promise<void>(resolve => server.close(() => resolve()))
      const deadline = setTimeout(() => sockets.forEach(socket => socket.destroy()), drainMsMax)
      for (const link of handshakes) link.end()
      await Promise.all([...members.all()].map(connection => connection.drain()))
      await closed
      await Promise.all(serving)
      clearTimeout(deadline)
    },
  }
}

function listen(server: Server, { host, port }: MqttParts['options']): Promise<void> {
  return new Promise((resolve, reject) => {
    const advice = { host: 'SVC_MQTT_HOST', port: 'SVC_MQTT_PORT, or turn MQTT off with SVC_MQTT_ENABLED=false' }
    const onError = (error: Error): void => reject(listenFailure(error, { host, port }, advice))
    server.once('error', onError)
    server.listen({ host, port }, () => {
      server.off('error', onError)
      resolve()
    })
  })
}

/** The connections by key and client id. */
function openMembers(thingConnectionsMax: number) {
  const byKey = new Map<string, Map<string, Connection>>()
  const all = function* (): Generator<Connection> {
    for (const sameKey of byKey.values()) yield* sameKey.values()
  }
  return {
    all,
    ofThing: (thing: string): Connection[] => [...all()].filter(({ session }) => session.thing === thing),
    join(connection: Connection): boolean {
      const { credential, clientId } = connection.session
      const sameKey = byKey.get(credential.secret) ?? new Map<string, Connection>()
      const older = sameKey.get(clientId)
      if (older === undefined && sameKey.size >= thingConnectionsMax) return false
      byKey.set(credential.secret, sameKey.set(clientId, connection))
      older?.end(reasons.sessionTakenOver, 'another connection has the same key and client id')
      return true
    },
    leave(connection: Connection): void {
      const { credential, clientId } = connection.session
      const sameKey = byKey.get(credential.secret)
      if (sameKey?.get(clientId) !== connection) return
      sameKey.delete(clientId)
      if (sameKey.size === 0) byKey.delete(credential.secret)
    },
  }
}

function openSay(logger: MqttParts['logger']): MqttParts['say'] {
  let secondStartMs = -Infinity
  let lines = 0
  return ({ address, thing, clientId }, sentence, fields) => {
    const nowMs = performance.now()
    if (nowMs - secondStartMs >= 1000) {
      secondStartMs = nowMs
      lines = 0
    }
    const all = { address, thing, client: clientId, ...fields }
    if (lines++ < linesPerSecondMax) logger.info(all, `MQTT: ${sentence}`)
    else logger.debug(all, `MQTT: ${sentence}`)
  }
}
