// The contract of every TopicReader, for the fake and the real ones.

import { describe, expect, test } from 'vitest'
import { retainHeader } from '../../pipeline/envelope-headers.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import type { RawChunk } from '../../pipeline/source.ts'
import type { TopicReader } from '../../pipeline/topic-reader.ts'
import { outgoing } from '../pipeline/message.ts'

/** A topic of one partition, with a way to fill it and to delete from its start. */
export interface TopicUnderTest {
  readonly reader: TopicReader
  readonly append: (messages: readonly OutgoingMessage[]) => Promise<void>
  readonly deleteBelow: (offset: number) => Promise<void>
  readonly dispose: () => Promise<void>
}

export function topicReaderConformance(name: string, open: () => Promise<TopicUnderTest>): void {
  async function withTopic(work: (under: TopicUnderTest) => Promise<void>): Promise<void> {
    const under = await open()
    try {
      await work(under)
    } finally {
      await under.dispose()
    }
  }
  const numbered = (count: number, bytes = 1): OutgoingMessage[] =>
    Array.from({ length: count }, (_, at) => outgoing({ payload: new TextEncoder().encode(`${at}`.padEnd(bytes)) }))

  describe(`${name} fulfils the contract of a topic reader`, () => {
    test('an empty topic has bounds and no messages', () =>
      withTopic(async ({ reader }) => {
        expect([...(await reader.bounds())]).toEqual([[0, { start: 0, end: 0 }]])
        expect(await chunksOf(reader, 0, 0)).toEqual([])
      }))

    test('reads exactly the messages of a range, in contiguous chunks that end with it', () =>
      withTopic(async ({ reader, append }) => {
        for (let at = 0; at < 5; at++) await append(numbered(7))
        expect([...(await reader.bounds())]).toEqual([[0, { start: 0, end: 35 }]])
        for (const [from, to] of [
          [0, 35],
          [0, 1],
          [3, 11],
          [34, 35],
          [7, 14],
          [12, 12],
        ] as const) {
          const chunks = await chunksOf(reader, from, to)
          expect(offsetsOf(chunks)).toEqual(Array.from({ length: to - from }, (_, at) => from + at))
          let at: number = from
          for (const chunk of chunks) {
            expect(chunk.from).toBe(at)
            at = chunk.to
          }
          expect(at).toBe(to)
        }
      }))

    test('a message is returned as it was appended, with headers that are not text', () =>
      withTopic(async ({ reader, append }) => {
        const message = outgoing({
          headers: [
            { key: 'trace', value: 'x' },
            { key: 'none', value: null },
          ],
          createdRestNs: 7,
        })
        await append([message])
        const [chunk] = await chunksOf(reader, 0, 1)
        const cursor = chunk!.cursor()
        expect(cursor.next()).toBe(true)
        const { headers, ...envelope } = message
        expect({ ...cursor.message, payload: new Uint8Array(cursor.message.payload) }).toMatchObject(envelope)
        expect(cursor.headers()).toEqual(expect.arrayContaining([...headers!]))
        expect(cursor.next()).toBe(false)
      }))

    test('a message says whether it was published with the retain flag', () =>
      withTopic(async ({ reader, append }) => {
        const trace = { key: 'trace', value: 'x' }
        const headers = [[trace], [trace, retainHeader], [{ ...retainHeader, value: '0' }], [{ ...retainHeader, value: null }], []]
        await append([outgoing(), ...headers.map(headers => outgoing({ headers }))])
        const said = (await chunksOf(reader, 0, 6)).flatMap(chunk => {
          const cursor = chunk.cursor()
          return Array.from({ length: chunk.to - chunk.from }, () => cursor.next() && cursor.isRetained?.())
        })
        expect(said).toEqual([false, false, true, false, false, false])
      }))

    test('more than one fetch', () =>
      withTopic(async ({ reader, append }) => {
        for (let at = 0; at < 6; at++) await append(numbered(500, 1000))
        expect(offsetsOf(await chunksOf(reader, 0, 3000))).toEqual(Array.from({ length: 3000 }, (_, at) => at))
      }))

    test('messages that are deleted during the read are skipped, and the next chunk says so', () =>
      withTopic(async ({ reader, append, deleteBelow }) => {
        for (let at = 0; at < 6; at++) await append(numbered(500, 1000))
        const chunks: RawChunk[] = []
        for await (const chunk of reader.read(0, 0, 3000)) {
          chunks.push(chunk)
          if (chunks.length === 1) await deleteBelow(2900)
        }
        expect(chunks.at(-1)!.to).toBe(3000)
        const offsets = offsetsOf(chunks)
        expect(offsets).toEqual(expect.arrayContaining([0, 2900, 2999]))
        expect(offsets).toEqual(offsets.toSorted((one, other) => one - other))
      }))

    test('two concurrent reads of a topic do not affect each other', () =>
      withTopic(async ({ reader, append }) => {
        await append(numbered(20))
        const [one, other] = await Promise.all([chunksOf(reader, 0, 20), chunksOf(reader, 5, 20)])
        expect([offsetsOf(one).length, offsetsOf(other).length]).toEqual([20, 15])
      }))
  })
}

async function chunksOf(reader: TopicReader, from: number, to: number): Promise<RawChunk[]> {
  const chunks: RawChunk[] = []
  for await (const chunk of reader.read(0, from, to)) chunks.push(chunk)
  return chunks
}

function offsetsOf(chunks: readonly RawChunk[]): number[] {
  return chunks.flatMap(chunk => {
    const offsets: number[] = []
    const cursor = chunk.cursor()
    while (cursor.next()) offsets.push(cursor.message.offset)
    return offsets
  })
}
