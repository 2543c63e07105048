// The contract of every Source, for the fake and the real ones.
//
// Longer than most files: one contract.

import { describe, expect, test } from 'vitest'
import { envelopeHeaderNames } from '../../pipeline/envelope-headers.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import type { RawChunk, Source, StartAt } from '../../pipeline/source.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { type LogPartition, logPartition } from '../../transformers/log-partition.ts'
import { outgoing } from '../pipeline/message.ts'
import { positionsOf } from '../pipeline/positions.ts'

export interface SourceSettings {
  readonly consumer?: string
  readonly startAt?: StartAt
  readonly chunkMessagesMax?: number
  readonly chunkBytesMax?: number
  readonly acceptLost?: boolean
  readonly onLost?: (at: LogPartition, messages: number) => void
}

/** A log of one partition, with a way to open its sources. A consumer's source is closed before its next one is used. */
export interface SourceUnderTest {
  append(messages: readonly OutgoingMessage[]): Promise<unknown>
  open(settings?: SourceSettings): Source
  /** Deletes the log's messages below the offset. */
  deleteBelow(offset: number): void | Promise<void>
  /** Closes everything that is open. */
  dispose(): Promise<void>
}

const partition = 0
const asked =
  (offset: number): StartAt =>
  async of =>
    new Map(of.map(at => [at, offset]))

function message(payload: string): OutgoingMessage {
  return outgoing({ payload: new TextEncoder().encode(payload) })
}

function payloadsOf(chunk: RawChunk): string[] {
  const cursor = chunk.cursor()
  const payloads: string[] = []
  while (cursor.next()) payloads.push(new TextDecoder().decode(cursor.message.payload))
  return payloads
}

/** Reads chunks until they contain this many messages, then ends. */
async function take(source: Source, count: number): Promise<RawChunk[]> {
  const ending = new AbortController()
  const chunks: RawChunk[] = []
  let messages = 0
  if (count === 0) return chunks
  for await (const chunk of source.chunks(ending.signal)) {
    chunks.push(chunk)
    messages += payloadsOf(chunk).length
    if (messages >= count) break
  }
  ending.abort()
  return chunks
}

/** Like `take`, for a source that is not used again. */
async function takeAll(source: Source, count: number): Promise<RawChunk[]> {
  try {
    return await take(source, count)
  } finally {
    await source.close()
  }
}

export function sourceConformance(name: string, open: () => Promise<SourceUnderTest>): void {
  async function withLog(work: (under: SourceUnderTest) => Promise<void>): Promise<void> {
    const under = await open()
    try {
      await work(under)
    } finally {
      await under.dispose()
    }
  }
  const five = ['a', 'b', 'c', 'd', 'e']

  describe(`${name} fulfils the contract of a source`, () => {
    test('returns every message in order, in contiguous chunks within their limits', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const chunks = await takeAll(under.open({ chunkMessagesMax: 2 }), 5)
        expect(chunks.map(({ from, to }) => [from, to])).toEqual([
          [0, 2],
          [2, 4],
          [4, 5],
        ])
        expect(chunks.flatMap(payloadsOf)).toEqual(five)
      }))

    test('a chunk ends with the message that reaches its size', () =>
      withLog(async under => {
        await under.append(Array.from({ length: 4 }, () => message('x'.repeat(3000))))
        const chunks = await takeAll(under.open({ chunkBytesMax: 5000 }), 4)
        expect(chunks.map(({ from, to }) => [from, to])).toEqual([
          [0, 2],
          [2, 4],
        ])
        expect(chunks[0]!.byteLength).toBeGreaterThanOrEqual(6000)
      }))

    test('a chunk can be read again, and returns every header, including those of the envelope', () =>
      withLog(async under => {
        await under.append([
          outgoing({
            createdUs: 1_700_000_000_000_001,
            createdRestNs: 2,
            contentType: 'application/senml+json',
            headers: [
              { key: 'trace', value: '7' },
              { key: 'trace', value: Buffer.of(0xff, 0) },
              { key: 'mark', value: null },
            ],
          }),
          outgoing({ channel: '', subtopic: '' }),
        ])
        const [chunk] = await takeAll(under.open(), 2)
        expect(payloadsOf(chunk!)).toEqual(payloadsOf(chunk!))
        const cursor = chunk!.cursor()
        cursor.next()
        expect(cursor.message).toMatchObject({
          offset: 0,
          fault: undefined,
          channel: 'c1',
          createdUs: 1_700_000_000_000_001,
          createdRestNs: 2,
        })
        // The envelope's headers and the sender's may be in either order, each in its own.
        const headers = cursor.headers()
        const [envelopeHeaders, senderHeaders] = [true, false].map(is => headers.filter(({ key }) => envelopeHeaderNames.has(key) === is))
        expect(envelopeHeaders).toEqual([
          { key: 'subtopic', value: 'room.temperature' },
          { key: 'publisher', value: 't1' },
          { key: 'protocol', value: 'http' },
          { key: 'created', value: '1700000000000001002' },
          { key: 'content-type', value: 'application/senml+json' },
        ])
        expect(senderHeaders!.map(({ key, value }) => ({ key, value: value instanceof Uint8Array ? Buffer.from(value) : value }))).toEqual([
          { key: 'trace', value: '7' },
          { key: 'trace', value: Buffer.of(0xff, 0) },
          { key: 'mark', value: null },
        ])
        cursor.next()
        expect(cursor.message).toMatchObject({ offset: 1, fault: { rule: 'no-key' }, channel: '' })
        expect(cursor.next()).toBe(false)
      }))

    test('waits at the end of the log and continues as soon as there is a message', () =>
      withLog(async under => {
        const source = under.open()
        const taken = take(source, 1)
        await under.append([message('late')])
        expect((await taken).flatMap(payloadsOf)).toEqual(['late'])
      }))

    test('ends when its signal aborts while it waits, and immediately if it was aborted before', () =>
      withLog(async under => {
        await under.append([message('a')])
        const source = under.open({ startAt: asked(1) })
        const ending = new AbortController()
        const next = source.chunks(ending.signal)[Symbol.asyncIterator]().next()
        ending.abort()
        expect((await next).done).toBe(true)
        expect((await source.chunks(AbortSignal.abort())[Symbol.asyncIterator]().next()).done).toBe(true)
      }))

    test('a store with positions that has none yet begins at the start of the log, whatever was committed', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const committing = under.open({ consumer: 'w' })
        await committing.commit(positionsOf({ [partition]: 3 }))
        await committing.close()
        expect((await takeAll(under.open({ consumer: 'w', startAt: async () => new Map() }), 5)).flatMap(payloadsOf)).toEqual(five)
      }))

    test("the store's position takes precedence over the committed one, and that over the start of the log", () =>
      withLog(async under => {
        await under.append(five.map(message))
        expect((await takeAll(under.open({ consumer: 'w' }), 5))[0]!.from).toBe(0)
        const source = under.open({ consumer: 'w' })
        await source.commit(positionsOf({ [partition]: 3 }))
        expect((await takeAll(source, 2)).flatMap(payloadsOf)).toEqual(['d', 'e'])
        expect((await takeAll(under.open({ consumer: 'w', startAt: asked(1) }), 4)).flatMap(payloadsOf)).toEqual(['b', 'c', 'd', 'e'])
        expect((await takeAll(under.open({ consumer: 'other' }), 5)).flatMap(payloadsOf)).toEqual(five)
      }))

    test('a commit applies to the next source of the same consumer, and never goes back', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const source = under.open({ consumer: 'w' })
        await source.commit(positionsOf({ [partition]: 4 }))
        await source.commit(positionsOf({ [partition]: 2 }))
        await source.close()
        expect((await takeAll(under.open({ consumer: 'w' }), 1)).flatMap(payloadsOf)).toEqual(['e'])
      }))

    test('requests the positions each time, and reports where it resumes before the first chunk', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const positions = [1, 4]
        const source = under.open({ startAt: async () => positionsOf({ [partition]: positions.shift()! }) })
        expect((await take(source, 1))[0]!.from).toBe(1)
        expect((await takeAll(source, 1))[0]!.from).toBe(4)

        const started: number[] = []
        const ending = new AbortController()
        const waiting = under
          .open({ startAt: asked(5) })
          .chunks(ending.signal, starts => started.push(starts.get(logPartition(0, partition))!))
        const next = waiting[Symbol.asyncIterator]().next()
        await expect.poll(() => started).toEqual([5])
        ending.abort()
        await next
      }))

    test('an error of the store about its positions is passed on', () =>
      withLog(async under => {
        const away = new Error('the store is away')
        const source = under.open({ startAt: () => Promise.reject(away) })
        await expect(take(source, 1)).rejects.toBe(away)
      }))

    test('a source reports the end of the log when a share begins and on request, also beyond what was read', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const ending = new AbortController()
        const source = under.open({ startAt: asked(2) })
        const begun: unknown[] = []
        const chunks = source.chunks(ending.signal, (_positions, _revoked, ends) => begun.push(ends))[Symbol.asyncIterator]()
        await chunks.next()
        expect(begun).toEqual([new Map([[partition, 5]])])
        await under.append(['f', 'g'].map(message))
        expect(await source.ends()).toEqual(new Map([[partition, 7]]))
        ending.abort()
      }))

    test('a log that ends below the position stops the source: it was truncated or recreated', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const failing = take(under.open({ startAt: asked(9) }), 1)
        await expect(failing).rejects.toBeInstanceOf(SystemicError)
        await expect(failing).rejects.toThrow(/ends at offset 5, but the store continues at 9/)
      }))

    test('messages deleted unread stop the source, and the error says how many', () =>
      withLog(async under => {
        await under.append(five.map(message))
        await under.deleteBelow(3)
        const failing = take(under.open({ startAt: asked(1) }), 1)
        await expect(failing).rejects.toBeInstanceOf(SystemicError)
        await expect(failing).rejects.toThrow(/2 messages were deleted unread/)
      }))

    test('by option it continues after them: they are reported, and are a gap in the first chunk', () =>
      withLog(async under => {
        await under.append(five.map(message))
        await under.deleteBelow(3)
        const lost: [number, number][] = []
        const source = under.open({
          startAt: asked(1),
          acceptLost: true,
          onLost: (partition, messages) => lost.push([partition, messages]),
        })
        const [chunk] = await take(source, 2)
        expect([chunk!.from, chunk!.to, chunk!.lost, payloadsOf(chunk!)]).toEqual([1, 5, 2, ['d', 'e']])
        expect(lost).toEqual([[0, 2]])
      }))
  })
}
