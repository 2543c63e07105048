// A writer on a real Kafka and a real PostgreSQL in the process of the test, for tests of the tools.

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openOutages } from '../../../config/outage.ts'
import { openServer } from '../../../database/server.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { openKafkaSource } from '../../../pipeline/kafka/source.ts'
import { deadLettersTopic, openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { pipelineMetrics } from '../../../pipeline/writer/metrics.ts'
import { openWriter } from '../../../pipeline/writer/writer.ts'
import { openSink } from '../../../sinks/postgres/sink.ts'
import { openTransformer } from '../../../transformers/select.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { connectionTo, quickConsumer } from '../../pipeline/kafka/consumer/source-parts.ts'
import { logSettings } from '../../pipeline/kafka/stored-messages.ts'
import { options as storeOptions } from '../../sinks/postgres/store.ts'

const name = 'relational'
const logger = pino({ level: process.env['SLUICE_TEST_LOG'] ?? 'silent' })
const message = { payloadBytes: 256 * 1024, earliestSeconds: 2 ** 28, aheadDays: 366 }

export interface RunningWriter {
  stop(): Promise<void>
}

export interface WriterSettings {
  readonly formatsPerChannelMax?: number
  readonly subjects?: string[]
}

/** Starts it on an existing topic. */
export async function startWriter(
  brokers: readonly string[],
  topic: string,
  databaseUrl: string,
  { formatsPerChannelMax = storeOptions.formatsPerChannelMax, subjects = ['channels.>'] }: WriterSettings = {},
): Promise<RunningWriter> {
  const cleanup: (() => Promise<void>)[] = []
  const kept = <Part extends { close(): Promise<void> }>(part: Part): Part => {
    cleanup.push(() => part.close())
    return part
  }
  const openLog = async (topic: string) => kept(await openKafkaLog(logSettings(brokers, topic, { partitions: 1 }), logger))
  const letters = await openLog(deadLettersTopic(topic, name))
  const log = await openLog(topic)
  const database = kept(await openServer({ url: databaseUrl, applicationName: 'writer', connectionsMax: 3 }))
  const options = { ...storeOptions, formatsPerChannelMax }
  const sink = kept(await withNumbers(openSink({ database, options, logs: [{ logName: log.name, logId: log.id, writer: name }] })))
  const source = kept(
    openKafkaSource({
      connection: connectionTo(brokers),
      topics: [log.name],
      group: `${name}.${topic}`,
      startAt: partitions => sink.positions!(partitions),
      chunkBytesMax: 1 << 20,
      chunkMessagesMax: 1000,
      consumer: quickConsumer,
      logger,
    }),
  )
  const transformer = openTransformer({ format: 'auto', contentType: 'application/senml+json', timeFields: [] })
  const deadLetters = openDeadLetters({
    logOf: async () => letters,
    topics: [topic],
    logIds: [log.id],
    logNumbers: sink.logNumbers,
    writer: name,
  })
  const registry = new Registry()
  const writer = openWriter({
    name,
    topics: [topic],
    sink,
    source,
    transformer,
    deadLetters,
    options: { batch: { rows: 500, bytes: 1 << 20, ageMs: 20 }, message, subscriber: { subjects } },
    metrics: pipelineMetrics(registry, name, [topic]),
    outages: openOutages(logger, registry, name, { log: 'Kafka', store: 'PostgreSQL', dead_letters: 'the dead letters' }),
    logger,
  })
  cleanup.push(() => writer.stop())
  return {
    async stop() {
      for (const closing of cleanup.toReversed()) await closing()
    },
  }
}
