// How brokers are reached: one description for both clients, and each client opened from it.

import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Admin, BaseOptions, Broker, Connection, SASLMechanismValue } from '@platformatic/kafka'
import type { ISocketFactoryArgs, Kafka, KafkaConfig, logCreator, SASLOptions } from 'kafkajs'
import type { Logger } from '../../config/logger.ts'
import { readTlsFiles, type TlsTexts } from '../../config/tls-files.ts'
import { restRequestQueues } from './kafkajs-idle-timer.ts'
import type { KafkaLogOptions } from './options.ts'
import type { KafkaClient } from './produce.ts'

/** Plain data: it can be handed to a worker. */
export interface KafkaConnection {
  readonly brokers: readonly string[]
  readonly clientId: string
  /** undefined is not encrypted. */
  readonly tls: TlsTexts | undefined
  readonly sasl: SaslLogin | undefined
  readonly connectTimeoutMs: number
  readonly requestTimeoutMs: number
}

export interface SaslLogin {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'
  readonly username: string
  readonly password: string
}

/** What of the section `log` says how brokers are reached. */
export type ConnectionOptions = Pick<
  KafkaLogOptions,
  | 'brokers'
  | 'clientId'
  | 'tls'
  | 'caFile'
  | 'certFile'
  | 'keyFile'
  | 'saslMechanism'
  | 'saslUsername'
  | 'saslPassword'
  | 'connectTimeoutMs'
  | 'requestTimeoutMs'
>

/**
 * The description that the options make, with its certificates read. The options have passed `kafkaFaults`.
 *
 * @throws SecretError for a certificate or key that cannot be used
 */
export async function kafkaConnection(options: ConnectionOptions): Promise<KafkaConnection> {
  const { brokers, clientId, saslMechanism, saslUsername, saslPassword, connectTimeoutMs, requestTimeoutMs } = options
  const sasl =
    saslMechanism === 'none' ? undefined : { mechanism: saslMechanism, username: saslUsername ?? '', password: saslPassword ?? '' }
  const tls = options.tls ? ((await readTlsFiles('log', options)) ?? {}) : undefined
  return { brokers, clientId, tls, sasl, connectTimeoutMs, requestTimeoutMs }
}

/** The options of any client of `@platformatic/kafka`. It sets TCP_NODELAY by itself. */
export function platformaticOptions(connection: KafkaConnection): BaseOptions {
  const { brokers, clientId, tls, sasl, connectTimeoutMs, requestTimeoutMs } = connection
  return {
    bootstrapBrokers: [...brokers],
    clientId,
    connectTimeout: connectTimeoutMs,
    requestTimeout: requestTimeoutMs,
    timeout: requestTimeoutMs,
    ...(tls === undefined ? {} : { tls: { ...tls }, tlsServerName: brokers.every(broker => isIP(hostOf(broker)) === 0) }),
    ...(sasl === undefined ? {} : { sasl: { ...sasl, mechanism: sasl.mechanism.toUpperCase() as SASLMechanismValue } }),
  }
}

/** A client for topics, offsets and whatever else is asked of brokers now and then; it connects at its first request. */
export async function openAdmin(connection: KafkaConnection): Promise<Admin> {
  const { Admin: Client } = await import('@platformatic/kafka')
  return new Client({ ...platformaticOptions(connection), retries: 5, retryDelay: 200 })
}

/** A connection to this broker, which the client keeps and shares. */
export function connectTo(client: KafkaClient, admin: Admin, broker: Broker): Promise<Connection> {
  return new Promise((resolve, reject) => {
    admin[client.kGetConnection](broker, (error, connection) =>
      connection === undefined ? reject(error ?? new Error('no connection')) : resolve(connection),
    )
  })
}

/**
 * kafkajs, with its idle timer at rest and each socket without delay. Its lines go to `logger`; what it says again and again of a broker
 * that is away is at debug there, since who uses it says so once.
 *
 * @throws SystemicError where kafkajs is another than the one that is patched here
 */
export async function openKafkajs(connection: KafkaConnection, logger: Logger): Promise<Kafka> {
  restRequestQueues()
  const { brokers, clientId, tls, sasl, connectTimeoutMs, requestTimeoutMs } = connection
  const { Kafka: Client, logLevel } = await import('kafkajs')
  const config: KafkaConfig = {
    brokers: [...brokers],
    clientId,
    connectionTimeout: connectTimeoutMs,
    authenticationTimeout: requestTimeoutMs,
    requestTimeout: requestTimeoutMs,
    socketFactory: openSocket,
    logLevel: logLevel.DEBUG,
    logCreator: linesTo(logger),
    ...(tls === undefined ? {} : { ssl: { ...tls } }),
    ...(sasl === undefined ? {} : { sasl: sasl as SASLOptions }),
  }
  return new Client(config)
}

const keepAliveMs = 60_000

function openSocket({ host, port, ssl, onConnect }: ISocketFactoryArgs): Socket {
  // Without TLS there is none, whatever its type says.
  const tls = ssl as ISocketFactoryArgs['ssl'] | null | undefined
  const socket = tls
    ? connectTls({ host, port, ...(isIP(host) === 0 ? { servername: host } : {}), ...tls }, onConnect)
    : connectPlain({ host, port }, onConnect)
  return socket.setNoDelay(true).setKeepAlive(true, keepAliveMs)
}

/** Levels of kafkajs. */
const levels = { 1: 'error', 2: 'warn', 4: 'info', 5: 'debug' } as const
/** Of its fields, those that say something and hold nothing of a message. */
const fields = ['broker', 'clientId', 'groupId', 'memberId', 'topic', 'partition', 'error', 'retryCount', 'retryTime'] as const
/** What is usual: a group's first use, a rebalance, and a broker that is away, of which the source speaks itself. */
const usual =
  /coordinator is not available|not the correct coordinator|not the leader|group is rebalancing|rebalanc|Connection (error|timeout)|ECONNREFUSED|Closed connection/i

function linesTo(logger: Logger): logCreator {
  return () =>
    ({ level, log }) => {
      const said = log as unknown as Record<string, unknown> & { message: string }
      const error = typeof said['error'] === 'string' ? said['error'] : ''
      const name = levels[level as keyof typeof levels] ?? 'debug'
      // It logs each join of a group at info; what a person is told of is the source's own line.
      const quiet = name === 'info' || usual.test(said.message) || usual.test(error)
      const line = Object.fromEntries(fields.filter(field => said[field] !== undefined).map(field => [field, said[field]]))
      logger[quiet ? 'debug' : name](line, `kafkajs: ${said.message}`)
    }
}

function hostOf(broker: string): string {
  return broker.slice(0, broker.lastIndexOf(':')).replace(/^\[|\]$/g, '')
}
