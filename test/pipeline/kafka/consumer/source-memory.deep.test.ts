// The resources of the source on Kafka: a bounded queue while nothing is requested, no memory for what was read, and little CPU while idle.

import { setTimeout as wait } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { Positions } from '../../../../sinks/sink.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { openTools, quickConsumer, sourcesOf } from './source-parts.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const mebibyte = 1 << 20

/** Memory in use after a garbage collection, in MiB. */
function heldMebibytes(): number {
  collect()
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / mebibyte
}

const messageBytes = 1000
const messages = 64_000

describeWithOwnKafka('the source on Kafka', kafka => {
  test('uses no more memory after a gigabyte than after its first part, and no more than its queue while nothing is requested', async () => {
    const topic = await kafka.createTopic({ partitions: 4 })
    const tools = await openTools(kafka.brokers)
    const text = 'x'.repeat(messageBytes)
    const lot = Array.from({ length: 500 }, () => text)
    for (let at = 0; at < messages; at += lot.length) await tools.appendTexts(topic, lot, (at / lot.length) % 4)
    await tools.close()
    const tuning = { ...quickConsumer, queueBytes: 8 * mebibyte, fetchBytes: 2 * mebibyte }
    const sources = sourcesOf(kafka.brokers, topic)
    const startAt = async (): Promise<Positions> => new Map()
    const source = sources.open({ startAt, tuning })
    const held: number[] = []
    let bytes = 0
    while (bytes < 1024 * mebibyte) {
      const ending = new AbortController()
      let taken = 0
      for await (const chunk of source.chunks(ending.signal)) {
        const cursor = chunk.cursor()
        while (cursor.next()) {
          taken++
          bytes += cursor.message.payload.byteLength
        }
        if (taken === messages) break
      }
      ending.abort()
      held.push(heldMebibytes())
    }
    expect(held.length).toBeGreaterThan(15)
    const [first, last] = [Math.max(...held.slice(1, 4)), Math.max(...held.slice(-3))]
    expect(last - first).toBeLessThan(4)

    // Nothing is requested now: only the queue is in memory.
    const ending = new AbortController()
    const iterator = source.chunks(ending.signal)[Symbol.asyncIterator]()
    const before = heldMebibytes()
    await iterator.next()
    let waiting = 0
    for (let last = -1; waiting < 2 || waiting > last + 0.5; ) {
      last = waiting
      await wait(1000)
      waiting = heldMebibytes() - before
    }
    expect(waiting).toBeLessThan(8 + 2 + 2)
    ending.abort()
    await iterator.return?.(undefined)
    await sources.close()
  })

  test('uses little CPU while no message comes', async () => {
    const topic = await kafka.createTopic({ partitions: 4 })
    const sources = sourcesOf(kafka.brokers, topic)
    const tuning = { ...quickConsumer, waitMs: 500, heartbeatMs: 600 }
    const ending = new AbortController()
    const started = Promise.withResolvers<void>()
    const chunks = sources.open({ tuning }).chunks(ending.signal, () => started.resolve())
    const next = chunks[Symbol.asyncIterator]().next()
    await started.promise
    await wait(500)
    const before = process.cpuUsage()
    await wait(4000)
    const { user, system } = process.cpuUsage(before)
    // Measured: 42 ms; on a busy machine the same work takes more.
    expect((user + system) / 1000).toBeLessThan(250)
    ending.abort()
    await next
    await sources.close()
  })
})
