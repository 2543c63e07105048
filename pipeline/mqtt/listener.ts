// The port for MQTT, and MQTT over WebSocket: accepts connections within their bounds, and ends those whose place another took or whose thing may no longer publish.

import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createServer as createTlsServer } from 'node:tls'
import { unlessAborted } from '../../config/aborting.ts'
import { stopDetail } from '../../http/error-answer.ts'
import { HttpError } from '../../http/errors.ts'
import { listenFailure, reachableAddress } from '../../http/listen.ts'
import { oneForm } from '../../http/requests/client-address.ts'
import { type ServerTls, tlsServerOptions } from '../../http/tls-files.ts'
import type { WebSocketRequest } from '../../http/web-sockets.ts'
import { shownCredential } from '../ingest/certificates.ts'
import type { IngestOptions } from '../ingest/options.ts'
import { openReceiptClock } from '../ingest/receipt-clock.ts'
import { watchRights } from '../live/rights.ts'
import { openBudget } from './bounds/budget.ts'
import { openHalfOpen } from './bounds/half-open.ts'
import { openMembers } from './bounds/members.ts'
import { type Connection, serveConnection } from './connection.ts'
import type { MqttParts } from './dependencies.ts'
import { openDue } from './due.ts'
import { type Link, openLink, type Peer } from './link.ts'
import { removeWithChannels } from './retained/deleted-channels.ts'
import { openGroups } from './subscribe/groups.ts'
import { type StartTimer, startTimer as startProcessTimer } from './timer.ts'
import { checkProtocol, openUpgrades } from './web-socket.ts'
import { packetHeadBytesMax } from './well-formed.ts'

export interface MqttListenerParts extends Omit<MqttParts, 'say' | 'startTimer' | 'receiptUs' | 'budget' | 'rights' | 'groups'> {
  readonly tls?: ServerTls | undefined
  /** How clients over WebSocket show certificates. */
  readonly clientCertificates: IngestOptions['clientCertificates']
  /** Connections that have not sent a CONNECT; with more the oldest is closed. */
  readonly halfOpenMax?: number
  /** By default those of the process. */
  readonly startTimer?: StartTimer
}

export type MqttListener = Awaited<ReturnType<typeof openMqttListener>>

/** What clients do wrong is logged in so many lines a second, and otherwise at debug. */
const linesPerSecondMax = 10
/** Ends connections whose device disappeared without a word, also without keep-alive. */
const probeMs = 60_000
/** Connections whose keys are checked at the same time after missed changes, so that devices that publish are answered too. */
const recheckedAtOnce = 20

/** @throws ListenError */
export async function openMqttListener(parts: MqttListenerParts) {
  const { options, access, live, sessions, logger, tls, retained, connectionMetrics, halfOpenMax = 1_000 } = parts
  const { startTimer = startProcessTimer } = parts
  const shared: MqttParts = {
    ...parts,
    options: { ...options, sessionExpirySecondsMax: sessions === undefined ? 0 : options.sessionExpirySecondsMax },
    startTimer,
    receiptUs: openReceiptClock(),
    budget: openBudget(options.inFlightBytesMax),
    rights: watchRights(access, logger),
    groups: live === undefined || sessions === undefined ? undefined : openGroups({ ...parts, live, sessions, startTimer }),
    say: openSay(logger),
  }
  const links = new Set<Link>()
  const halfOpen = openHalfOpen(halfOpenMax)
  const members = openMembers(options)
  /** Whose keys are to be checked. */
  const rechecks = openDue<Connection>({
    atOnce: recheckedAtOnce,
    logger,
    failure: 'cannot check the keys of connections',
    async work(connections) {
      const areChecked = await Promise.all(connections.map(connection => connection.recheck(false)))
      return connections.filter((_, at) => !areChecked[at])
    },
  })
  const sockets = new Set<Socket>()
  const serving = new Set<Promise<void>>()
  const upgrade = openUpgrades(parts.payloadBytesMax + packetHeadBytesMax)
  let isClosing = false

  /** With those that are closed, whose wills wait. */
  const areFull = (): boolean => serving.size > 2 * options.connectionsMax

  async function serveStream(stream: Duplex, peer: Peer, greeted: () => void): Promise<void> {
    const link = openLink(stream, peer, startTimer)
    links.add(link)
    try {
      await serveConnection(link, shared, { ...members, greeted, areFull })
    } catch (error) {
      logger.error({ err: error }, 'a connection of MQTT failed')
      stream.destroy()
    } finally {
      links.delete(link)
      link.end()
    }
  }

  function serve(...connection: Parameters<typeof serveStream>): void {
    const served = serveStream(...connection).finally(() => serving.delete(served))
    serving.add(served)
  }

  function onSocket(socket: Socket): void {
    // What arrived before the client ended its side is handled, and acknowledged.
    socket.allowHalfOpen = true
    const certificate = shownCredential('tls', { socket })
    serve(socket, { address: addressOf(socket), certificate }, () => halfOpen.remove(socket))
  }

  /** @returns false if there are too many connections */
  function admit(socket: Socket, address: string): boolean {
    if (sockets.size >= options.connectionsMax) {
      shared.say({ address }, `connection refused: there are ${options.connectionsMax}, see mqtt.connections_max`)
      return false
    }
    if (!halfOpen.add(socket, address)) return false
    sockets.add(socket)
    connectionMetrics.opened()
    socket.once('close', () => {
      sockets.delete(socket)
      connectionMetrics.closed()
    })
    return true
  }

  const socketOptions = { noDelay: true, keepAlive: true, keepAliveInitialDelay: probeMs }
  const server: Server =
    tls === undefined
      ? createServer(socketOptions, onSocket)
      : createTlsServer({ ...socketOptions, ...tlsServerOptions(tls), handshakeTimeout: options.connectTimeoutMs }, onSocket)
  // Of TLS the connection below it, which is there before its handshake.
  server.on('connection', (socket: Socket) => {
    if (!admit(socket, addressOf(socket))) socket.destroy()
  })
  await listen(server, options)
  server.on('error', error => logger.error({ err: error }, 'cannot accept a connection of MQTT'))
  const stopRemoving = removeWithChannels(access, retained, logger)
  const stopListening = access.onChange(change => {
    // Changes were missed, of any thing.
    if (change.kind === 'unheard') rechecks.add(members.all())
    else if (change.kind === 'thing') for (const connection of members.thingConnections(change.thing)) void connection.recheck(true)
  })

  return {
    /** As a client writes it: `mqtt://127.0.0.1:1883`. */
    url: `${tls === undefined ? 'mqtt' : 'mqtts'}://${reachableAddress(server, options)}`,
    /** Over WebSocket, within the same bounds. */
    takeWebSocket(wanted: WebSocketRequest): void {
      const { request, socket, address, isFromTrustedProxy } = wanted
      if (isClosing) throw new HttpError('unavailable', stopDetail)
      checkProtocol(request)
      const certificate = shownCredential(parts.clientCertificates, { socket, headers: request.headers, isFromTrustedProxy })
      if (!admit(socket, address)) throw new HttpError('unavailable', 'there are too many connections of MQTT: retry')
      socket.setKeepAlive(true, probeMs)
      const failed = (sentence: string): void => shared.say({ address }, `connection closed: ${sentence}`)
      upgrade(wanted, failed, (stream, greeted) =>
        serve(stream, { address, certificate }, () => {
          greeted()
          halfOpen.remove(socket)
        }),
      )
    },
    /** Accepts no more connections, answers the messages that were taken, and closes; after `drainMsMax` the remaining connections are closed. */
    async close(drainMsMax: number): Promise<void> {
      isClosing = true
      stopListening()
      stopRemoving()
      rechecks.stop()
      const closed = [...sockets].map(socket => new Promise<void>(resolve => void socket.once('close', () => resolve())))
      closed.push(new Promise(resolve => void server.close(() => resolve())))
      async function drain(): Promise<void> {
        halfOpen.close()
        await Promise.all([...members.all()].map(connection => connection.drain()))
        // Those within their handshake.
        for (const link of links) link.end()
        await Promise.all(closed)
        await Promise.all(serving)
      }
      // While the log is away, sessions wait longer to be saved.
      await unlessAborted(drain(), AbortSignal.timeout(drainMsMax)).catch(() => undefined)
      for (const socket of sockets) socket.destroy()
    },
  }
}

function addressOf({ remoteAddress }: Socket): string {
  return remoteAddress === undefined ? '' : oneForm(remoteAddress)
}

async function listen(server: Server, { host, port }: MqttParts['options']): Promise<void> {
  try {
    await once(server.listen({ host, port }), 'listening')
  } catch (error) {
    const advice = { host: 'SVC_MQTT_HOST', port: 'SVC_MQTT_PORT, or turn MQTT off with SVC_MQTT_ENABLED=false' }
    throw listenFailure(error, { host, port }, advice)
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
    const level = lines++ < linesPerSecondMax ? 'info' : 'debug'
    logger[level]({ address, thing, client: clientId, ...fields }, `MQTT: ${sentence}`)
  }
}
