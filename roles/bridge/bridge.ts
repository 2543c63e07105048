// The role `bridge`: takes the messages of an MQTT broker that devices use already, and acknowledges each to it when the log has it.

import { Registry } from 'prom-client'
import { aborted } from '../../config/aborting.ts'
import { openLogger } from '../../config/logger.ts'
import { openOutages, watchDependency } from '../../config/outage.ts'
import { openWhenThere, type ProcessScope, runProcess } from '../../config/run-process.ts'
import { readTlsFiles } from '../../http/tls-files.ts'
import { type Bridge, openBridge } from '../../pipeline/bridge/bridge.ts'
import { openEnvelopeReader } from '../../pipeline/bridge/envelope.ts'
import { openIntake } from '../../pipeline/bridge/intake.ts'
import { openIngestMetrics } from '../../pipeline/ingest/metrics.ts'
import { openReceiptClock } from '../../pipeline/ingest/receipt-clock.ts'
import { openMessagesLog } from '../../pipeline/kafka/confluent/encoding.ts'
import type { KafkaLog } from '../../pipeline/kafka/log.ts'
import { LogUnavailableError } from '../../pipeline/log.ts'
import { openHealth } from '../writer/health.ts'
import type { BridgeOptions } from './options.ts'

/**
 * Starts a bridge, prints the address of its health, and resolves when it has stopped after a signal and acknowledged what it had stored. It starts
 * even if Kafka or the broker is away, and reads the broker once Kafka was reached.
 *
 * @throws SystemicError, ListenError, SecretError: errors that an operator can fix, with a message that says how
 */
export async function bridge(options: BridgeOptions, version: string): Promise<void> {
  const logger = openLogger(options.logging)
  await runProcess(logger, options.process, scope => serve(options, version, logger, scope))
}

async function serve(
  options: BridgeOptions,
  version: string,
  logger: ReturnType<typeof openLogger>,
  { signal, closeLater }: ProcessScope,
): Promise<void> {
  const registry = new Registry()
  const outages = openOutages(logger, registry, 'bridge', { log: 'Kafka', broker: 'the MQTT broker' })
  const metrics = openIngestMetrics(registry, 'bridge')
  const tls = await readTlsFiles('broker', options.broker)
  let log = undefined as KafkaLog | undefined
  let reading = undefined as Bridge | undefined
  const waits = (): never => {
    throw new Error('the bridge waits for Kafka')
  }
  const checks = {
    log: async () => log?.check() ?? waits(),
    broker: async () => reading?.check() ?? waits(),
  }
  await openHealth({ options, version, logger, checks, ready: () => reading !== undefined, metrics: () => registry.metrics() }, closeLater)

  log = await openWhenThere({
    open: () => openMessagesLog(options.log, logger),
    closeLate: late => late.close(),
    isAway: error => error instanceof LogUnavailableError,
    outage: outages.report('log'),
    signal,
  })
  if (log === undefined) return
  const opened = log
  closeLater(() => opened.close())
  const retrying = new AbortController()
  const intake = openIntake({
    log,
    messagesMax: options.broker.inFlightMax,
    bytesMax: options.log.queueBytes,
    metrics,
    outage: outages.report('log'),
    logger,
    signal: retrying.signal,
  })
  const connection = {
    options: options.broker,
    tls,
    read: openEnvelopeReader(options.broker.envelope, options.message.payloadBytes),
    intake,
    receiptUs: openReceiptClock(),
  }
  reading = openBridge({ ...connection, outage: outages.report('broker'), logger }, signal)
  const { stopped } = reading
  closeLater(async () => {
    await stopped
    retrying.abort()
  })
  void watchDependency(() => opened.check(), outages.report('log'), signal)
  logger.info({ version }, 'ready')
  await aborted(signal)
}
