// A writer without a store: from the embedded log through decoder and batcher into a sink that discards everything.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openOutages } from '../../config/outage.ts'
import { openEmbeddedLog } from '../../pipeline/embedded-log/log.ts'
import { openEmbeddedSource } from '../../pipeline/embedded-log/source.ts'
import { pipelineMetrics } from '../../pipeline/writer/metrics.ts'
import { openWriter } from '../../pipeline/writer/writer.ts'
import { countMessages } from '../../sinks/counts.ts'
import type { Sink } from '../../sinks/sink.ts'
import { DecodeError } from '../../transformers/decode-error.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { type RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import type { Transformer } from '../../transformers/transformer.ts'

const messages = 200_000
const folder = mkdtempSync(join(tmpdir(), 'sluice-benchmark-'))
const logger = pino({ level: 'silent' })
const text = new TextDecoder()

/** One record for each message, decoded by JSON.parse, so that the decoder adds as little as possible to the pipeline's share. */
const transformer: Transformer = {
  decode(payload, envelope, batch) {
    const [record] = JSON.parse(text.decode(payload)) as [{ n: string; u: string; v: number }?]
    if (record === undefined) throw new DecodeError('empty', 'the pack is empty')
    batch.appendRecord(0, record.n, record.u, envelope.createdUs, ValueKind.number, record.v, undefined, Number.NaN, Number.NaN)
  },
}

const nothingRejected = new Set<number>()
const sink: Sink<RecordBatch> = {
  logNumbers: [1],
  takeNumbers: async () => undefined,
  encode: batch => batch,
  write: async batch => countMessages(batch.messages, batch.ranges, nothingRejected),
  classify: () => 'systemic',
  close: async () => undefined,
}

try {
  const log = openEmbeddedLog({
    path: join(folder, 'messages.sqlite'),
    name: 'messages',
    queueBytesMax: 64 * 1024 * 1024,
    retentionMs: 86_400_000,
    logger,
  })
  const payload = new TextEncoder().encode('[{"n":"urn:dev:mac:0024befffe804ff1:temperature","u":"Cel","v":23.1}]')
  const message = {
    channel: '0f9c1d1e-52cb-4ef4-8e4b-8a64c1f7d6a5',
    subtopic: 'room.temperature',
    publisher: 'b8f0f0b5-2f0c-4a7f-a7a4-0f9c4c1d1e52',
    protocol: 'http',
    contentType: 'application/senml+json',
    createdUs: 1_700_000_000_000_000,
    createdRestNs: 0,
    payload,
  }
  for (let at = 0; at < messages; at += 1000) await log.append(Array.from({ length: 1000 }, () => message))

  const source = openEmbeddedSource({
    log,
    consumer: 'benchmark',
    startAt: async () => new Map(),
    chunkBytesMax: 1024 * 1024,
    chunkMessagesMax: 1000,
  })
  const done = Promise.withResolvers<void>()
  const counted: typeof source = {
    chunks: (...of) => source.chunks(...of),
    ends: () => source.ends(),
    async commit(positions) {
      await source.commit(positions)
      if (positions.get(logPartition(0, 0)) === messages) done.resolve()
    },
    close: () => source.close(),
  }
  const startedMs = performance.now()
  const registry = new Registry()
  const writer = openWriter({
    name: 'benchmark',
    topics: ['messages'],
    source: counted,
    sink,
    transformer,
    deadLetters: { put: async () => undefined },
    options: {
      batch: { rows: 2000, bytes: 1024 * 1024, ageMs: 100 },
      message: { payloadBytes: 262_144, earliestSeconds: 2 ** 28, aheadDays: 366 },
      subscriber: { subjects: ['channels.>'] },
    },
    metrics: pipelineMetrics(registry, 'benchmark', ['messages']),
    outages: openOutages(logger, registry, 'benchmark', { log: 'the log', store: 'the store', dead_letters: 'the dead letters' }),
    logger,
  })
  await done.promise
  const elapsedMs = performance.now() - startedMs
  console.log(`log to a sink that keeps nothing   ${Math.round((messages / elapsedMs) * 1000).toLocaleString('en')} messages/s`)
  await writer.stop()
  await source.close()
  await log.close()

  const decodingMs = performance.now()
  let length = 0
  for (let at = 0; at < messages; at++) length += (JSON.parse(text.decode(payload)) as unknown[]).length
  console.log(
    `of which JSON.parse alone takes     ${Math.round((length / (performance.now() - decodingMs)) * 1000).toLocaleString('en')} messages/s`,
  )
} finally {
  rmSync(folder, { recursive: true, force: true })
}
