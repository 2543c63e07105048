// What each MQTT connection needs of its process.

import type { Logger } from '../../config/logger.ts'
import type { AccessControl } from '../../control-plane/client.ts'
import type { ArrivalListener } from '../ingest/arrivals.ts'
import type { IngestMetrics } from '../ingest/metrics.ts'
import type { Publisher } from '../ingest/publisher.ts'
import type { LiveMessages } from '../live/messages.ts'
import type { Rights } from '../live/rights.ts'
import type { Budget } from './bounds/budget.ts'
import type { RateLimit } from './bounds/rate-limit.ts'
import type { Session } from './handshake.ts'
import type { Link } from './link.ts'
import type { MqttMetrics } from './metrics.ts'
import type { MqttOptions } from './options.ts'
import type { RetainedStore } from './retained/store.ts'
import type { SessionStore } from './sessions/store.ts'
import type { Groups } from './subscribe/groups.ts'
import type { StartTimer } from './timer.ts'

export interface MqttParts {
  /** The one of the HTTP routes, whose quotas it shares. */
  readonly publisher: Publisher
  readonly access: AccessControl
  readonly metrics: IngestMetrics
  readonly options: Omit<MqttOptions, 'enabled' | 'clientCertificates' | 'brokers'>
  readonly payloadBytesMax: number
  /** Of all connections. */
  readonly budget: Budget
  /** What subscribers hear; undefined where the log is not read. */
  readonly live: LiveMessages | undefined
  /** undefined: no session outlives its connection. */
  readonly sessions: SessionStore | undefined
  readonly retained: RetainedStore
  /** Of shared subscriptions; undefined without `live` or `sessions`. */
  readonly groups: Groups | undefined
  readonly rights: Rights
  readonly connectionMetrics: MqttMetrics
  readonly arrivals?: ArrivalListener | undefined
  readonly logger: Pick<Logger, 'info' | 'debug' | 'warn' | 'error'>
  readonly startTimer: StartTimer
  readonly receiptUs: () => number
  /** Logs what a client did wrong, a few lines a second. */
  readonly say: (client: Pick<Session, 'address'> & Partial<Session>, sentence: string, fields?: object) => void
}

/** What the parts of one connection share. */
export interface ConnectionParts {
  readonly session: Session
  readonly link: Link
  readonly parts: MqttParts
  /** Ends the connection. */
  readonly end: (reasonCode: number, sentence: string) => void
  /** Of packets other than messages, and of refused messages and subscriptions. */
  readonly controls: RateLimit
  readonly refusals: RateLimit
  /** undefined if the session ends with the connection. */
  readonly persistence: () => Saving | undefined
}

/** Saves the session of a connection. */
export interface Saving {
  /**
   * Saves at once; first when the connection has what was kept. Resolves when it is durable.
   *
   * @throws SessionsUnavailableError
   */
  save(): Promise<void>
  /** Saves like `save`, and throws as well if another connection has taken the session before. */
  saveHeld(): Promise<void>
  /** Saves within a second, or ten of a large session: after a crash as much is sent again. */
  saveSoon(): void
}
