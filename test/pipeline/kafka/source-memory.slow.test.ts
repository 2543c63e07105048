// What the source on Kafka holds: a bounded queue while nobody asks, nothing that was read, and no processor while nothing comes.

import { setTimeout as wait } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { describeWithOwnKafka } from '../../servers/kafka.ts'
import { clients, openTools, quickConsumer, sourcesOf } from './source-parts.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const mebibyte = 1 << 20

/** What is in use after everything that is not was collected, in MiB. */
function heldMebibytes(): number {
  collect()
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / mebibyte
}

const messageBytes = 1000
const messages = 64_000

for (const client of clients)
  describeWithOwnKafka(`the source on ${client}`, kafka => {
    test('holds no more after a gigabyte than after its first part, and no more than its queue while nobody asks', async () => {
      const topic = await kafka.createTopic({ partitions: 4 })
      const tools = await openTools(kafka.brokers)
      const text = 'x'.repeat(messageBytes)
      const lot = Array.from({ length: 500 }, () => text)
      for (let at = 0; at < messages; at += lot.length) await tools.appendTexts(topic, lot, (at / lot.length) % 4)
      await tools.close()
      const tuning = { ...quickConsumer, queueBytes: 8 * mebibyte, fetchBytes: 2 * mebibyte }
      const sources = sourcesOf(kafka.brokers, topic, client)
      const startAt = async (): Promise<Map<number, number>> => new Map()
      const source = sources.open({ startAt, tuning })
      const held: number[] = []
      let bytes = 0
      while (bytes < 1024 * mebibyte) {
        const ending = new AbortController()
        let taken = 0
        for await (const run of source.runs(ending.signal)) {
          const cursor = run.cursor()
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

      // Nobody asks: what waits is the queue, and no more than that.
      const ending = new AbortController()
      const iterator = source.runs(ending.signal)[Symbol.asyncIterator]()
      const before = heldMebibytes()
      await iterator.next()
      await wait(1000)
      const waiting = heldMebibytes() - before
      expect(waiting).toBeGreaterThan(2)
      expect(waiting).toBeLessThan(8 + 2 + 2)
      ending.abort()
      await iterator.return?.(undefined)
      await sources.close()
    })

    test('rests while no message comes', async () => {
      const topic = await kafka.createTopic({ partitions: 4 })
      const sources = sourcesOf(kafka.brokers, topic, client)
      const tuning = { ...quickConsumer, waitMs: 500, heartbeatMs: 600 }
      const ending = new AbortController()
      const started = Promise.withResolvers<void>()
      const runs = sources.open({ tuning }).runs(ending.signal, () => started.resolve())
      const next = runs[Symbol.asyncIterator]().next()
      await started.promise
      await wait(500)
      const before = process.cpuUsage()
      await wait(4000)
      const { user, system } = process.cpuUsage(before)
      // It was 42 ms, and 154 ms with the timer of kafkajs that wakes each millisecond on each connection.
      expect((user + system) / 1000).toBeLessThan(120)
      ending.abort()
      await next
      await sources.close()
    })
  })
