// Opens the port for MQTT of a process that devices publish to.

import type { Registry } from 'prom-client'
import type { Logger } from '../config/logger.ts'
import type { ProcessScope } from '../config/run-process.ts'
import type { HttpServer } from '../http/server.ts'
import { readServerTls } from '../http/tls-files.ts'
import { takeWebSockets } from '../http/web-sockets.ts'
import type { IngestOptions } from '../pipeline/ingest/options.ts'
import type { MqttListenerParts } from '../pipeline/mqtt/listener.ts'
import type { MqttOptions } from '../pipeline/mqtt/options.ts'

interface MqttParts extends Pick<MqttListenerParts, 'publisher' | 'access' | 'metrics' | 'arrivals' | 'live' | 'sessions'> {
  /** Of MQTT if it is enabled. */
  readonly retained: MqttListenerParts['retained'] | undefined
  readonly options: Pick<IngestOptions, 'payloadBytesMax' | 'clientCertificates'>
  readonly mqtt: MqttOptions
  /** For MQTT over WebSocket. Close it after this. */
  readonly http: HttpServer
  readonly registry: Registry
  readonly logger: Logger
  readonly closeLater: ProcessScope['closeLater']
}

/** As of other brokers. */
const webSocketPath = '/mqtt'
/** The part of a stop in which messages that were taken are answered. */
const drainMsMax = 500

/**
 * @returns the address as a client writes it; undefined if MQTT is not enabled
 * @throws ListenError, SecretError
 */
export async function openMqtt(parts: MqttParts): Promise<string | undefined> {
  const { mqtt, http, registry, logger, closeLater, options, publisher, access, metrics, arrivals, live, sessions, retained } = parts
  if (!mqtt.enabled || retained === undefined) return undefined
  const [{ openMqttListener }, { openMqttMetrics }] = await Promise.all([
    import('../pipeline/mqtt/listener.ts'),
    import('../pipeline/mqtt/metrics.ts'),
  ])
  const tls = await readServerTls('mqtt', mqtt)
  const listener = await openMqttListener({
    publisher,
    access,
    metrics,
    arrivals,
    live,
    sessions,
    retained,
    options: mqtt,
    payloadBytesMax: options.payloadBytesMax,
    logger,
    tls: tls && { ...tls, asksForCertificate: mqtt.clientCertificates },
    clientCertificates: options.clientCertificates,
    connectionMetrics: openMqttMetrics(registry),
  })
  closeLater(() => listener.close(drainMsMax))
  takeWebSockets(http, webSocketPath, request => listener.takeWebSocket(request))
  logger.info({ url: listener.url }, 'listening for MQTT')
  return listener.url
}
