// Faults under the source on Kafka: the broker dies, freezes, or loses the messages to be read next.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import type { Source } from '../../../../pipeline/source.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { describeWithOwnKafka } from '../../../servers/kafka.ts'
import { positionsOf } from '../../positions.ts'
import { connectionTo, openTools, quickConsumer, type Sources, sourcesOf, type Tools, textsOf } from './source-parts.ts'

/** Reads like a pipeline until it stops; retries while the log is away. */
function reader(
  source: Source,
  commits = true,
): { readonly texts: string[]; readonly failures: Error[]; readonly stop: () => Promise<void> } {
  const stopping = new AbortController()
  const texts: string[] = []
  const failures: Error[] = []
  async function read(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        for await (const chunk of source.chunks(stopping.signal)) {
          texts.push(...textsOf(chunk))
          if (commits) await source.commit(new Map([[chunk.at, chunk.to]]))
        }
      } catch (error) {
        failures.push(error as Error)
        if (!(error instanceof LogUnavailableError)) return
      }
      await wait(50)
    }
  }
  const done = read()
  return {
    texts,
    failures,
    async stop() {
      stopping.abort()
      await done
    },
  }
}

describeWithOwnKafka('the source on Kafka', kafka => {
  async function withTopic(
    work: (under: { topic: string; sources: Sources; tools: Tools }) => Promise<void>,
    partitions = 1,
  ): Promise<void> {
    const topic = await kafka.createTopic({ partitions })
    const sources = sourcesOf(kafka.brokers, topic)
    const tools = await openTools(kafka.brokers)
    try {
      await work({ topic, sources, tools })
    } finally {
      await sources.close()
      await tools.close()
    }
  }

  test('resumes after the committed offset when the broker was killed and restarted, within a session or later', () =>
    withTopic(async ({ topic, sources, tools }) => {
      await tools.appendTexts(topic, ['a', 'b'])
      const { texts, failures, stop } = reader(sources.open())
      await expect.poll(() => texts).toEqual(['a', 'b'])
      // Messages that were not committed would come again.
      const committed = (): Promise<Map<number, number>> => tools.committed(topic, sources.group())
      await expect.poll(committed).toEqual(positionsOf({ 0: 2 }))
      await kafka.kill()
      await kafka.restart()
      await tools.appendTexts(topic, ['c'])
      await expect.poll(() => texts.slice(2)).toEqual(['c'])
      await expect.poll(committed).toEqual(positionsOf({ 0: 3 }))
      const before = failures.length
      await kafka.kill()
      // It is reported after a session.
      await expect.poll(() => failures.length).toBeGreaterThan(before)
      await kafka.restart()
      await tools.appendTexts(topic, ['d'])
      await expect.poll(() => texts.slice(3)).toEqual(['d'])
      expect(failures.every(error => error instanceof LogUnavailableError)).toBe(true)
      await stop()
    }))

  test('reports that the log is away while the broker is frozen, and continues afterwards', () =>
    withTopic(async ({ topic, sources, tools }) => {
      await tools.appendTexts(topic, ['a'])
      const { texts, failures, stop } = reader(sources.open())
      await expect.poll(() => texts).toEqual(['a'])
      // Messages that were not committed would come again.
      await expect.poll(() => tools.committed(topic, sources.group())).toEqual(positionsOf({ 0: 1 }))
      kafka.pause()
      await expect.poll(() => failures.length).toBeGreaterThan(0)
      kafka.resume()
      await tools.appendTexts(topic, ['b'])
      await expect.poll(() => texts).toContain('b')
      await expect.poll(() => tools.committed(topic, sources.group())).toEqual(positionsOf({ 0: 2 }))
      await stop()
      // A session that ended in the pause ends with the share, perhaps between reading and committing `b`, which then comes again.
      expect([...new Set(texts)]).toEqual(['a', 'b'])
      expect(failures.every(error => error instanceof LogUnavailableError)).toBe(true)
    }))

  test('closes while the broker is frozen', () =>
    withTopic(async ({ topic, sources, tools }) => {
      await tools.appendTexts(topic, ['a'])
      const source = sources.open()
      const { texts, stop } = reader(source)
      await expect.poll(() => texts).toEqual(['a'])
      kafka.pause()
      try {
        // Each request waits for its time limit and no longer: the broker continues only when they have ended.
        await stop()
        await source.close()
      } finally {
        kafka.resume()
      }
    }))

  test('stops if unread messages are deleted, or by option counts them and continues', () =>
    withTopic(async ({ topic, sources, tools }) => {
      const small = { ...quickConsumer, fetchBytes: 1024, partitionBytes: 1024, queueBytes: 1024 }
      const texts = Array.from({ length: 20 }, (_, at) => `${at}`.padEnd(600, '.'))
      for (const text of texts) await tools.appendTexts(topic, [text])
      const lost: [number, number][] = []
      for (const acceptLost of [false, true]) {
        const group = sources.group(`w${acceptLost}`)
        const source = sources.open({
          group,
          acceptLost,
          onLost: (...loss) => lost.push(loss),
          chunkMessagesMax: 1,
          startAt: async () => positionsOf({ 0: acceptLost ? 10 : 0 }),
          tuning: small,
        })
        const ending = new AbortController()
        const iterator = source.chunks(ending.signal)[Symbol.asyncIterator]()
        const first = await iterator.next()
        expect(first.value.from).toBe(acceptLost ? 10 : 0)
        // At most two more fit into what it fetches ahead.
        await tools.deleteBelow(topic, acceptLost ? 18 : 10)
        const chunks: [number, number, number][] = []
        async function rest(): Promise<void> {
          for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
            chunks.push([next.value.from, next.value.to, textsOf(next.value).length])
            if (next.value.to === 20) return
          }
        }
        if (acceptLost) {
          await rest()
          const gap = chunks.find(([from, to, count]) => to - from > count)!
          expect(gap[1]).toBe(19)
          expect(lost).toEqual([[0, 18 - gap[0]]])
          expect(chunks.map(([from]) => from)).toEqual([first.value.to, ...chunks.slice(0, -1).map(([, to]) => to)])
        } else {
          await expect(rest()).rejects.toThrow(/were deleted unread/)
          expect(lost).toEqual([])
        }
        ending.abort()
        await source.close()
      }
    }))

  test('never reads a recreated topic of the same name, and says so', () =>
    withTopic(async ({ topic, sources, tools }) => {
      await tools.appendTexts(topic, ['a', 'b'])
      const { texts, failures, stop } = reader(sources.open())
      await expect.poll(() => texts).toEqual(['a', 'b'])
      await kafka.deleteTopic(topic)
      await kafka.createTopic({ name: topic })
      await tools.appendTexts(topic, ['x', 'y', 'z'])
      await expect.poll(() => failures.some(error => error instanceof SystemicError)).toBe(true)
      expect(failures.at(-1)!.message).toMatch(/was recreated/)
      expect(texts).toEqual(['a', 'b'])
      await stop()
    }))

  test('stops if the topic is deleted or missing, and says what to do', () =>
    withTopic(async ({ topic, sources, tools }) => {
      await tools.appendTexts(topic, ['a'])
      const { texts, failures, stop } = reader(sources.open())
      await expect.poll(() => texts).toEqual(['a'])
      await kafka.deleteTopic(topic)
      await expect.poll(() => failures.some(error => error instanceof SystemicError)).toBe(true)
      expect(failures.at(-1)!.message).toMatch(/does not exist: create it/)
      await stop()
    }))

  test('stops if its credentials are refused, and names the options', () =>
    withTopic(async ({ sources }) => {
      const sasl = { mechanism: 'plain', username: kafka.secured.username, password: 'another' } as const
      const connection = { ...connectionTo(kafka.secured.sasl), sasl }
      const { failures, stop } = reader(sources.open({ connection }))
      await expect.poll(() => failures.length).toBe(1)
      expect(failures[0]).toBeInstanceOf(SystemicError)
      expect(failures[0]!.message).toMatch(/log.sasl_username/)
      expect(failures[0]!.message).not.toContain('another')
      await stop()
    }))

  test('continues after a connection was cut in the middle of an answer, and after one that went silent', () =>
    withTopic(async ({ topic, tools }) => {
      const sources = sourcesOf(kafka.proxied, topic)
      const text = 'x'.repeat(1000)
      const sent = Array.from({ length: 2000 }, (_, at) => `${at} ${text}`)
      // A silent connection is noticed by an unanswered request.
      const connection = { ...connectionTo(kafka.proxied), requestTimeoutMs: 2000 }
      const { texts, stop } = reader(sources.open({ connection, chunkMessagesMax: 50 }), true)
      for (let at = 0; at < 2000; at += 500) {
        // Set before the messages arrive: a fast reader would already have all of them.
        const cut = kafka.proxy.cutAfter(300_000)
        await tools.appendTexts(topic, sent.slice(at, at + 500))
        await cut
      }
      await expect.poll(() => new Set(texts).size).toBe(2000)
      // The connections that it has now stay lost.
      kafka.proxy.halfOpen()
      await kafka.proxy.heal()
      await tools.appendTexts(topic, ['end'])
      await expect.poll(() => texts.at(-1)).toBe('end')
      expect(new Set(texts).size).toBe(2001)
      await stop()
      await sources.close()
    }))
})
