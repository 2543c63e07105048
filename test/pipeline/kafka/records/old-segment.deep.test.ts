// A segment older than Kafka 0.11 on a real broker: the writer's source stops at it, or skips and counts it.

import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openKafkaTopicReader } from '../../../../pipeline/kafka/topic-reader.ts'
import type { RawChunk } from '../../../../pipeline/source.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { connectionTo, openTools, sourcesOf, textsOf } from '../consumer/source-parts.ts'
import { encodeOldByKafkajs } from './kafkajs-codec.ts'

describeWithOwnKafka('a segment of an old format', kafka => {
  test('stops its reader, or by option is skipped and counted as lost', async () => {
    const topic = await kafka.createTopic()
    const tools = await openTools(kafka.brokers)
    // The first message makes a broker record whose folder the partition's is; without that record it recreates the folder at a start.
    await tools.appendTexts(topic, ['first'])
    await kafka.kill()
    const segment = Array.from({ length: 5 }, (_, offset) =>
      encodeOldByKafkajs(1, offset, { key: 'c', value: 'old', timestamp: Date.now() }),
    )
    const folder = join(kafka.folder, 'data', `${topic}-0`)
    await writeFile(join(folder, `${'0'.repeat(20)}.log`), Buffer.concat(segment))
    for (const index of ['index', 'timeindex']) await rm(join(folder, `${'0'.repeat(20)}.${index}`), { force: true })
    await kafka.restart()
    await tools.appendTexts(topic, ['new'])

    const sources = sourcesOf(kafka.brokers, topic)
    const failing = sources.open().chunks(new AbortController().signal)[Symbol.asyncIterator]().next()
    const error = (await failing.catch((error: unknown) => error)) as Error
    expect(error).toBeInstanceOf(SystemicError)
    expect(error.message).toMatch(new RegExp(`topic ${topic}, partition 0: the batch at offset 0 .*message format 1.*--skip-batch`))

    const lost: number[] = []
    const source = sources.open({ consumer: 'past', skipBatch: true, onLost: (_, messages) => void lost.push(messages) })
    for await (const chunk of source.chunks(new AbortController().signal)) {
      expect([chunk.from, chunk.to, chunk.lost, textsOf(chunk)]).toEqual([0, 6, 5, ['new']])
      break
    }
    expect(lost).toEqual([5])

    // To tools they look like messages that the log deleted.
    const reader = await openKafkaTopicReader({ connection: connectionTo(kafka.brokers), topic, fetchBytes: 1 << 20, skipBatch: true })
    const chunks: RawChunk[] = []
    for await (const chunk of reader.read(0, 0, 6)) chunks.push(chunk)
    expect(chunks.map(chunk => [chunk.from, chunk.to, textsOf(chunk)])).toEqual([[5, 6, ['new']]])
    await reader.close()
    await sources.close()
    await tools.close()
  })
})
