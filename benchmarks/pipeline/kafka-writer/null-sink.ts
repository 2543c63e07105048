// One worker into a sink that writes nothing, in a process of its own: what source and decoder cost. Prints one line of JSON.
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
import { pipelineMetrics } from '../../../pipeline/metrics.ts'
import { messageOptions, subscriberOptions } from '../../../pipeline/options.ts'
import { openWriter } from '../../../pipeline/writer.ts'
import { writerOptions } from '../../../roles/writer-options.ts'
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
  logNumber: 1,
  positions: async () => new Map(),
  encode: batch => batch,
  async write(batch) {
    // From the first batch on: joining the group is not part of it.
    if (stored === 0) {
      startedMs = performance.now()
      startedCpu = process.cpuUsage()
    }
    stored += batch.messages.length
    if (stored >= wanted) done.resolve()
    return countMessages(batch.messages, batch.ranges, new Map(), new Map(batch.ranges.map(({ partition, from }) => [partition, from])))
  },
  classify: () => 'systemic',
  close: async () => undefined,
}

const logger = createLogger({ level: 'warn', pretty: false })
const batch = Value.Create(writerOptions.properties.batch)
const log = Value.Create(kafkaSourceOptions)
const source = openKafkaSource({
  client: log.client,
  connection: await kafkaConnection({ ...log, brokers: [broker] }),
  topic,
  group: `null-${process.pid}`,
  startAt: async () => new Map(),
  consumer: Value.Create(kafkaConsumerOptions),
  runBytesMax: batch.bytes,
  runMessagesMax: batch.rows,
  logger,
})
const registry = new Registry()
const writer = openWriter({
  name: 'null',
  source,
  sink,
  transformer: openTransformer({ format: 'auto', contentType: 'application/senml+json', timeFields: [] }),
  deadLetters: { put: () => Promise.reject(new Error('nothing here is to be dead-lettered')) },
  options: { batch, message: Value.Create(messageOptions), subscriber: Value.Create(subscriberOptions) },
  metrics: pipelineMetrics(registry, 'null'),
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
