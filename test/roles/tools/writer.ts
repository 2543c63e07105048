// A writer on a real Kafka and a real PostgreSQL in the process of the test, with its flow of replays, for what the tools are told to do.

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openOutages } from '../../../config/outage.ts'
import { openServer } from '../../../config/postgres/server.ts'
import { openDeadLetters } from '../../../pipeline/dead-letters.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { openKafkaSource } from '../../../pipeline/kafka/source.ts'
import { pipelineMetrics } from '../../../pipeline/metrics.ts'
import { deadLettersTopic, replaying, replaysTopic } from '../../../pipeline/replays.ts'
import { openWriter } from '../../../pipeline/writer.ts'
import { openSink } from '../../../sinks/postgres/sink.ts'
import { openTransformer } from '../../../transformers/select.ts'
import { connectionTo, quickConsumer } from '../../pipeline/kafka/source-parts.ts'
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

/** Starts both flows over a topic that is there. */
export async function startWriter(
  brokers: readonly string[],
  topic: string,
  databaseUrl: string,
  { formatsPerChannelMax = storeOptions.formatsPerChannelMax, subjects = ['channels.>'] }: WriterSettings = {},
): Promise<RunningWriter> {
  const closings: (() => Promise<void>)[] = []
  const kept = <Part extends { close(): Promise<void> }>(part: Part): Part => {
    closings.push(() => part.close())
    return part
  }
  const openLog = async (topic: string) => kept(await openKafkaLog(logSettings(brokers, topic, { partitions: 1 }), logger))
  const letters = await openLog(deadLettersTopic(topic, name))
  const replays = await openLog(replaysTopic(topic, name))
  const messages = await openLog(topic)

  async function flow(log: { name: string; id: string }, isReplays: boolean): Promise<void> {
    const database = kept(await openServer({ url: databaseUrl, applicationName: 'writer', connectionsMax: 3 }))
    const options = { ...storeOptions, formatsPerChannelMax }
    const sink = kept(await openSink({ database, options, logName: log.name, logId: log.id, writer: name, acceptNewLog: false }))
    const source = kept(
      openKafkaSource({
        client: 'platformatic',
        connection: connectionTo(brokers),
        topic: log.name,
        group: isReplays ? `${name}.replays.${topic}` : `${name}.${topic}`,
        startAt: partitions => sink.positions!(partitions),
        runBytesMax: 1 << 20,
        runMessagesMax: 1000,
        consumer: quickConsumer,
        logger,
      }),
    )
    const transformer = openTransformer({ format: 'auto', contentType: 'application/senml+json', timeFields: [] })
    // Of the flow of messages; that of replays says the log of each letter itself.
    const deadLetters = openDeadLetters({ log: letters, topic, logNumber: sink.logNumber, writer: name })
    const parts = { source, transformer, deadLetters }
    const registry = new Registry()
    const writer = openWriter({
      name,
      sink,
      ...(isReplays ? replaying({ ...parts, logNumber: sink.logNumber }) : parts),
      options: { batch: { rows: 500, bytes: 1 << 20, ageMs: 20 }, message, subscriber: { subjects } },
      metrics: pipelineMetrics(registry, name),
      outages: openOutages(logger, registry, name, { log: 'Kafka', store: 'PostgreSQL', dead_letters: 'the dead letters' }),
      logger,
    })
    closings.push(() => writer.stop())
  }

  await flow(messages, false)
  await flow(replays, true)
  return {
    async stop() {
      for (const closing of closings.toReversed()) await closing()
    },
  }
}
