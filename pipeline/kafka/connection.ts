// Describes how to connect to the brokers, and opens clients with it.

import { isIP } from 'node:net'
import { Admin, type BaseOptions, type Broker, type Connection, kGetConnection, type SASLMechanismValue } from '@platformatic/kafka'
import { readTlsFiles, type TlsTexts } from '../../http/tls-files.ts'
import type { KafkaLogOptions } from './options.ts'

/** Plain data, which can be sent to a worker. */
export interface KafkaConnection {
  readonly brokers: readonly string[]
  readonly clientId: string
  /** undefined means unencrypted. */
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

/** The options of the section `log` for connections. */
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
 * Builds the description from options, and reads the certificates. `kafkaFaults` must have accepted the options.
 *
 * @throws SecretError for an unusable certificate or key
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

/** A client for topics, offsets and other occasional requests; it connects on first use. */
export async function openAdmin(connection: KafkaConnection): Promise<Admin> {
  return new Admin({ ...platformaticOptions(connection), retries: 5, retryDelay: 200 })
}

/** A connection to this broker, owned and shared by the client. */
export function connectTo(admin: Admin, broker: Broker): Promise<Connection> {
  return new Promise((resolve, reject) => {
    admin[kGetConnection](broker, (error, connection) =>
      connection === undefined ? reject(error ?? new Error('no connection')) : resolve(connection),
    )
  })
}

function hostOf(broker: string): string {
  return broker.slice(0, broker.lastIndexOf(':')).replace(/^\[|\]$/g, '')
}
