// The content of a real log: batches of every codec and client, transactions, and the result of compaction.

import { Producer } from '@platformatic/kafka'
import { CompressionTypes } from 'kafkajs'
import { expect, test } from 'vitest'
import type { RawChunk, Source } from '../../../../pipeline/source.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { positionsOf } from '../../positions.ts'
import { openTools, sourcesOf, textsOf } from './source-parts.ts'

/** The chunks of one partition up to the offset. */
async function chunksTo(source: Source, end: number): Promise<RawChunk[]> {
  const ending = new AbortController()
  const chunks: RawChunk[] = []
  for await (const chunk of source.chunks(ending.signal)) {
    chunks.push(chunk)
    if (chunk.to >= end) break
  }
  ending.abort()
  await source.close()
  return chunks
}

describeWithOwnKafka('the source on Kafka reads', kafka => {
  test('all codecs as written by Java, @platformatic/kafka and kafkajs', async () => {
    const topic = await kafka.createTopic()
    const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const
    for (const codec of codecs) {
      const properties = [`bootstrap.servers=${kafka.brokers[0]}`, `compression.type=${codec}`, 'linger.ms=50']
      const load = ['--topic', topic, '--num-records', '300', '--record-size', '100', '--throughput', '-1']
      await kafka.tool('ProducerPerformance', [...load, '--producer-props', ...properties])
    }
    const producer = new Producer<string, string, string, string>({
      clientId: 'tests',
      bootstrapBrokers: [...kafka.brokers],
      serializers: { key: one => Buffer.from(one ?? ''), value: one => Buffer.from(one ?? '') },
    })
    const expected: string[] = []
    for (const codec of codecs) {
      const texts = Array.from({ length: 100 }, (_, at) => `${codec} ${at} ${'x'.repeat(50)}`)
      expected.push(...texts)
      await producer.send({ compression: codec, messages: texts.map(value => ({ topic, partition: 0, key: 'c', value })) })
    }
    await producer.close()
    const tools = await openTools(kafka.brokers)
    for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
      const texts = Array.from({ length: 100 }, (_, at) => `kafkajs ${compression} ${at} ${'x'.repeat(50)}`)
      expected.push(...texts)
      await tools.producer.send({ topic, compression, messages: texts.map(value => ({ partition: 0, key: 'c', value })) })
    }
    const chunks = await chunksTo(sourcesOf(kafka.brokers, topic).open(), 2200)
    const texts = chunks.flatMap(textsOf)
    expect(texts).toHaveLength(2200)
    expect(texts.slice(0, 1500).every(text => text.length === 100)).toBe(true)
    expect(texts.slice(1500)).toEqual(expected)
    await tools.close()
  })

  test('committed transactions and no aborted ones, with their markers as gaps', async () => {
    const topic = await kafka.createTopic()
    const tools = await openTools(kafka.brokers)
    const transactional = tools.kafka.producer({ transactionalId: `t-${topic}`, idempotent: true, maxInFlightRequests: 1 })
    await transactional.connect()
    const expected: string[] = []
    for (let at = 0; at < 12; at++) {
      const isAborted = at % 3 === 1
      const transaction = await transactional.transaction()
      const own = [`${at} first`, `${at} second`]
      const between = `${at} beside`
      await transaction.send({ topic, messages: [{ partition: 0, key: 'c', value: own[0]! }] })
      await tools.appendTexts(topic, [between])
      await transaction.send({ topic, messages: [{ partition: 0, key: 'c', value: own[1]! }] })
      if (isAborted) await transaction.abort()
      else await transaction.commit()
      expected.push(...(isAborted ? [between] : [own[0]!, between, own[1]!]))
    }
    const end = 12 * 4
    const chunks = await chunksTo(sourcesOf(kafka.brokers, topic).open({ chunkMessagesMax: 4 }), end)
    expect(chunks.flatMap(textsOf)).toEqual(expected)
    expect(chunks.map(({ from }) => from)).toEqual([0, ...chunks.slice(0, -1).map(({ to }) => to)])
    expect(chunks.at(-1)!.to).toBe(end)
    await transactional.disconnect()
    await tools.close()
  })

  test('the result of compaction, and continues after the gaps', async () => {
    const config = { 'cleanup.policy': 'compact', 'segment.ms': '100', 'min.cleanable.dirty.ratio': '0.01', 'min.compaction.lag.ms': '0' }
    const topic = await kafka.createTopic({ config })
    const tools = await openTools(kafka.brokers)
    for (let round = 0; round < 5; round++) {
      await tools.producer.send({ topic, messages: ['a', 'b', 'c'].map(key => ({ partition: 0, key, value: `${key}${round}` })) })
      await new Promise(resolve => setTimeout(resolve, 150))
    }
    let chunks: RawChunk[] = []
    await expect
      .poll(
        async () => {
          // Segments roll when something is written.
          const [sent] = await tools.producer.send({ topic, messages: [{ partition: 0, key: 'tick', value: 'tick' }] })
          const source = sourcesOf(kafka.brokers, topic).open({ startAt: async () => positionsOf({ 0: 0 }) })
          chunks = await chunksTo(source, Number(sent!.baseOffset) + 1)
          return chunks.flatMap(textsOf).filter(text => text !== 'tick')
        },
        { interval: 500 },
      )
      .toEqual(['a4', 'b4', 'c4'])
    expect(chunks[0]!.from).toBe(0)
    expect(chunks.map(({ from }) => from)).toEqual([0, ...chunks.slice(0, -1).map(({ to }) => to)])
    await tools.close()
  })
})
