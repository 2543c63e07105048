// One worker with a sink that writes nothing, in a separate process: the cost of source and decoder. Prints one line of JSON.
//
// node benchmarks/pipeline/kafka-writer/null-sink.ts <broker> <topic> <messages>

import { Registry } from 'prom-client'
import { Value } from 'typebox/value'
import { createLogger } from '../../../config/logger.ts'
import { openOutages } from '../../../config/outage.ts'
import { kafkaConnection } from '../../../pipeline/kafka/connection.ts'
import { kafkaConsumerOptions } from '../../../pipeline/kafka/consumer/options.ts'
import { kafkaSourceOptions } from '../../../pipeline/kafka/options.ts'
import { openKafkaSource } from '../../../pipeline/kafka/source.ts'
import { messageOptions, subscriberOptions } from '../../../pipeline/options.ts'
import { pipelineMetrics } from '../../../pipeline/writer/metrics.ts'
import { openWriter } from '../../../pipeline/writer/writer.ts'
import { writerOptions } from '../../../roles/writer/options.ts'
import { countMessages } from '../../../sinks/counts.ts'
import type { Sink } from '../../../sinks/sink.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { openTransformer } from '../../../transformers/select.ts'

const [broker = '', topic = '', messages = '0'] = process.argv.slice(2)
const wanted = Number(messages)
const done = Promise.withResolvers<void>()
let stored = 0
let startedMs = 0
let startedCpu = process.cpuUsage()

const sink: Sink<RecordBatch> = {
  logNumbers: [1],
  takeNumbers: async () => undefined,
  positions: async () => new Map(),
  encode: batch => batch,
  async write(batch) {
    // Starts at the first batch, so that joining the group does not count.
    if (stored === 0) {
      startedMs = performance.now()
      startedCpu = process.cpuUsage()
    }
    stored += batch.messages.length
    if (stored >= wanted) done.resolve()
    return countMessages(batch.messages, batch.ranges, new Map(), new Map(batch.ranges.map(({ at, from }) => [at, from])))
  },
  classify: () => 'systemic',
  close: async () => undefined,
}

const logger = createLogger({ level: 'warn', pretty: false })
const batch = Value.Create(writerOptions.properties.batch)
const log = Value.Create(kafkaSourceOptions)
const source = openKafkaSource({
  connection: await kafkaConnection({ ...log, brokers: [broker] }),
  topics: [topic],
  group: `null-${process.pid}`,
  startAt: async () => new Map(),
  consumer: Value.Create(kafkaConsumerOptions),
  chunkBytesMax: batch.bytes,
  chunkMessagesMax: batch.rows,
  logger,
})
const registry = new Registry()
const writer = openWriter({
  name: 'null',
  topics: [topic],
  source,
  sink,
  transformer: openTransformer({ format: 'auto', contentType: 'application/senml+json', timeFields: [] }),
  deadLetters: { put: () => Promise.reject(new Error('nothing here is to be dead-lettered')) },
  options: { batch, message: Value.Create(messageOptions), subscriber: Value.Create(subscriberOptions) },
  metrics: pipelineMetrics(registry, 'null', [topic]),
  outages: openOutages(logger, registry, 'null', { log: 'Kafka', store: 'the sink', dead_letters: 'the dead letters' }),
  logger,
})
await Promise.race([done.promise, writer.done])
const seconds = (performance.now() - startedMs) / 1000
const { user, system } = process.cpuUsage(startedCpu)
console.log(
  JSON.stringify({ messagesPerSecond: stored / seconds, cpuUs: (user + system) / stored, rssMb: process.resourceUsage().maxRSS / 1024 }),
)
await writer.stop()
await source.close()
