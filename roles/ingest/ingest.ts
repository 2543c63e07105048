// The role `ingest`: appends messages that devices send over HTTP and MQTT to the log, and asks the control plane in another process who may publish.

import type { Logger } from '../../config/logger.ts'
import { watchDependency } from '../../config/outage.ts'
import { openWhenThere } from '../../config/run-process.ts'
import type { RoleListeners } from '../../http/role-listeners.ts'
import type { OpenCompactedTopic } from '../../pipeline/compacted-topic.ts'
import { brokerRoutes } from '../../pipeline/ingest/brokers/routes.ts'
import { openIngestMetrics } from '../../pipeline/ingest/metrics.ts'
import { openPublisher } from '../../pipeline/ingest/publisher.ts'
import { ingestRoutes } from '../../pipeline/ingest/routes.ts'
import { defaultDecoding } from '../../pipeline/ingest/strict-handling.ts'
import { openLiveMessages } from '../../pipeline/live/live.ts'
import type { LiveMessages } from '../../pipeline/live/messages.ts'
import { type Log, LogUnavailableError } from '../../pipeline/log.ts'
import type { RetainedStore } from '../../pipeline/mqtt/retained/store.ts'
import type { SessionStore } from '../../pipeline/mqtt/sessions/store.ts'
import { passCheck } from '../checks.ts'
import { openMqtt } from '../mqtt.ts'
import { openRoleAccess } from '../remote-access.ts'
import { type RoleScope, runRole } from '../run-role.ts'
import type { IngestRoleOptions } from './options.ts'

export interface IngestLog extends Log {
  /** @throws Error if the log cannot accept messages now */
  check(): Promise<void>
}

/**
 * Opens the log of the role's section `log`.
 *
 * @throws LogUnavailableError while it is away; the caller retries
 */
export type OpenIngestLog = (options: IngestRoleOptions['log'], logger: Logger) => Promise<IngestLog>

/**
 * Starts ingest, prints its addresses, and resolves when it has stopped after a signal and answered every running request. It
 * starts even if the log or the control plane is away; until both were reached once it is not ready and answers 503.
 *
 * @throws ListenError, SecretError, ControlPlaneRefusalError …: errors that an operator can fix, with a message that says how
 */
export async function ingest(options: IngestRoleOptions, version: string, openLog: OpenIngestLog): Promise<void> {
  const dependencies = { log: 'Kafka', control_plane: 'the control plane' }
  await runRole('ingest', dependencies, options, version, role => open(options, openLog, role))
}

async function open(options: IngestRoleOptions, openLog: OpenIngestLog, role: RoleScope<'log' | 'control_plane'>): Promise<RoleListeners> {
  const { signal, closeLater, logger, registry, outages } = role
  const control = await openRoleAccess(options.control, outages.report('control_plane'), closeLater)
  const { access } = control
  let log = absentLog(options.log.topic)
  closeLater(() => log.close())

  const append: Log['append'] = (messages, appending) => log.append(messages, appending)
  const metrics = openIngestMetrics(registry)
  // Log numbers are known only to the store, which ingest cannot access: the topic's name identifies the log as well.
  const current: Log = {
    ...log,
    append,
    get id() {
      return log.id
    },
  }
  const parts = { log: current, logLabel: () => log.name, access, metrics, options: options.ingest, logger }
  const publisher = openPublisher(parts)
  const listeners = await role.listen({
    services: ['ingest'],
    asksForCertificate: options.ingest.clientCertificates === 'tls',
    routes: async app => {
      await app.register(ingestRoutes({ ...parts, publisher }))
      await app.register(brokerRoutes({ access, brokers: options.mqtt.brokers, logger }))
    },
    internal: { address: options.internal.listen },
    checks: { log: () => log.check(), 'control-plane': () => control.check() },
    isServing: () => control.isAccepted(),
  })
  const subscribing = await openSubscribing(options, role)
  const mqttUrl = await openMqtt({ ...parts, ...subscribing, publisher, mqtt: options.mqtt, http: listeners.app, registry, closeLater })
  if (mqttUrl !== undefined) console.log(`mqtt on ${mqttUrl}`)
  const openingLog = openWhenThere({
    open: () => openLog(options.log, logger),
    closeLate: late => late.close(),
    isAway: error => error instanceof LogUnavailableError,
    outage: outages.report('log'),
    signal,
  })
  const takeLog = async (): Promise<void> => {
    log = (await openingLog) ?? log
  }
  const controlOutage = outages.report('control_plane')
  await Promise.all([takeLog(), passCheck(control.startCheck, { outage: controlOutage, logger, signal })])
  void watchDependency(() => log.check(), outages.report('log'), signal)
  return listeners
}

interface Subscribing {
  readonly live: LiveMessages | undefined
  readonly sessions: SessionStore | undefined
  readonly retained: RetainedStore | undefined
}

/** What subscribers over MQTT hear, for which Kafka is not asked before there is one, their sessions, and what is retained. */
async function openSubscribing(
  { log, ingest, mqtt }: IngestRoleOptions,
  { closeLater, outages, logger }: RoleScope<'log' | 'control_plane'>,
): Promise<Subscribing> {
  if (!mqtt.enabled) return { live: undefined, sessions: undefined, retained: undefined }
  const [{ kafkaLiveTopic }, { openCompactedTopic }, { openSessions }, { openRetained }] = await Promise.all([
    import('../../pipeline/live/kafka.ts'),
    import('../../pipeline/kafka/compacted-topic.ts'),
    import('../../pipeline/mqtt/sessions/store.ts'),
    import('../../pipeline/mqtt/retained/store.ts'),
  ])
  const openTopic: OpenCompactedTopic = use => openCompactedTopic({ ...use, log, outage: outages.report('log'), logger })
  const retained = openRetained(openTopic, mqtt.retainedMax)
  closeLater(() => retained.close())
  if (mqtt.subscriptionsMax === 0) return { live: undefined, sessions: undefined, retained }
  const message = { payloadBytes: ingest.payloadBytesMax }
  const live = openLiveMessages({
    topic: kafkaLiveTopic({ log, envelope: {}, message }, logger),
    decoder: defaultDecoding(ingest.payloadBytesMax),
    outage: outages.report('log'),
    logger,
  })
  closeLater(() => live.close())
  if (mqtt.sessionExpirySecondsMax === 0) return { live, sessions: undefined, retained }
  const sessions = openSessions({ openTopic })
  closeLater(() => sessions.close())
  return { live, sessions, retained }
}

/** Placeholder for the log until it is open. */
function absentLog(name: string): IngestLog {
  const refuse = (): Promise<never> => Promise.reject(new LogUnavailableError(`waiting for the log ${name}`))
  return { name, id: '', append: refuse, check: refuse, close: async () => undefined }
}
