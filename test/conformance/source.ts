// What every Source keeps, run against the fake and the real ones.
//
// Longer than most files: one contract, told in one piece.

import { describe, expect, test } from 'vitest'
import { envelopeHeaderNames } from '../../pipeline/envelope-headers.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import type { RawRun, Source, StartAt } from '../../pipeline/source.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'
import { outgoing } from '../pipeline/message.ts'

export interface SourceSettings {
  readonly consumer?: string
  readonly startAt?: StartAt
  readonly runMessagesMax?: number
  readonly runBytesMax?: number
  readonly acceptLost?: boolean
  readonly onLost?: (partition: number, messages: number) => void
}

/** A log of one partition with the way to open sources of it. A source of a consumer is closed before the next one of it is used. */
export interface SourceUnderTest {
  append(messages: readonly OutgoingMessage[]): Promise<unknown>
  open(settings?: SourceSettings): Source
  /** The log deletes what lies below the offset. */
  deleteBelow(offset: number): void | Promise<void>
  /** Closes what is open. */
  dispose(): Promise<void>
}

const partition = 0
const asked =
  (offset: number): StartAt =>
  async partitions =>
    new Map(partitions.map(partition => [partition, offset]))

function message(payload: string): OutgoingMessage {
  return outgoing({ payload: new TextEncoder().encode(payload) })
}

function payloadsOf(run: RawRun): string[] {
  const cursor = run.cursor()
  const payloads: string[] = []
  while (cursor.next()) payloads.push(new TextDecoder().decode(cursor.message.payload))
  return payloads
}

/** Takes runs until they hold so many messages, then ends. */
async function take(source: Source, count: number): Promise<RawRun[]> {
  const ending = new AbortController()
  const runs: RawRun[] = []
  let messages = 0
  if (count === 0) return runs
  for await (const run of source.runs(ending.signal)) {
    runs.push(run)
    messages += payloadsOf(run).length
    if (messages >= count) break
  }
  ending.abort()
  return runs
}

/** As `take`, from a source that is not used again. */
async function takeAll(source: Source, count: number): Promise<RawRun[]> {
  try {
    return await take(source, count)
  } finally {
    await source.close()
  }
}

/** A group may have to be joined before anything comes. */
const soon = { timeout: 10_000 }

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

  describe(`${name} keeps the contract of a source`, () => {
    test('hands out every message in order, in runs that touch and hold no more than they may', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const runs = await takeAll(under.open({ runMessagesMax: 2 }), 5)
        expect(runs.map(({ from, to }) => [from, to])).toEqual([
          [0, 2],
          [2, 4],
          [4, 5],
        ])
        expect(runs.flatMap(payloadsOf)).toEqual(five)
      }))

    test('a run ends with the message that reaches its bytes', () =>
      withLog(async under => {
        await under.append(Array.from({ length: 4 }, () => message('x'.repeat(3000))))
        const runs = await takeAll(under.open({ runBytesMax: 5000 }), 4)
        expect(runs.map(({ from, to }) => [from, to])).toEqual([
          [0, 2],
          [2, 4],
        ])
        expect(runs[0]!.byteLength).toBeGreaterThanOrEqual(6000)
      }))

    test('a run can be walked again, and gives every header, those of the envelope too', () =>
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
        const [run] = await takeAll(under.open(), 2)
        expect(payloadsOf(run!)).toEqual(payloadsOf(run!))
        const cursor = run!.cursor()
        cursor.next()
        expect(cursor.message).toMatchObject({
          offset: 0,
          fault: undefined,
          channel: 'c1',
          createdUs: 1_700_000_000_000_001,
          createdRestNs: 2,
        })
        // Those of the envelope and those of the sender may come in either order, each in its own.
        const headers = cursor.headers()
        const [ofEnvelope, ofSender] = [true, false].map(is => headers.filter(({ key }) => envelopeHeaderNames.has(key) === is))
        expect(ofEnvelope).toEqual([
          { key: 'subtopic', value: 'room.temperature' },
          { key: 'publisher', value: 't1' },
          { key: 'protocol', value: 'http' },
          { key: 'created', value: '1700000000000001002' },
          { key: 'content-type', value: 'application/senml+json' },
        ])
        expect(ofSender!.map(({ key, value }) => ({ key, value: value instanceof Uint8Array ? Buffer.from(value) : value }))).toEqual([
          { key: 'trace', value: '7' },
          { key: 'trace', value: Buffer.of(0xff, 0) },
          { key: 'mark', value: null },
        ])
        cursor.next()
        expect(cursor.message).toMatchObject({ offset: 1, fault: { rule: 'no-key' }, channel: '' })
        expect(cursor.next()).toBe(false)
      }))

    test('waits at the end of the log and goes on as soon as a message is there', () =>
      withLog(async under => {
        const source = under.open()
        const taken = take(source, 1)
        await under.append([message('late')])
        expect((await taken).flatMap(payloadsOf)).toEqual(['late'])
      }))

    test('ends when its signal aborts while it waits, and at once when it has aborted before', () =>
      withLog(async under => {
        await under.append([message('a')])
        const source = under.open({ startAt: asked(1) })
        const ending = new AbortController()
        const next = source.runs(ending.signal)[Symbol.asyncIterator]().next()
        ending.abort()
        expect((await next).done).toBe(true)
        expect((await source.runs(AbortSignal.abort())[Symbol.asyncIterator]().next()).done).toBe(true)
      }))

    test('a store that keeps positions and knows none begins at the start of the log, whatever was committed', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const committing = under.open({ consumer: 'w' })
        await committing.commit(new Map([[partition, 3]]))
        await committing.close()
        expect((await takeAll(under.open({ consumer: 'w', startAt: async () => new Map() }), 5)).flatMap(payloadsOf)).toEqual(five)
      }))

    test("the store's position wins over the committed one, which wins over the start of the log", () =>
      withLog(async under => {
        await under.append(five.map(message))
        expect((await takeAll(under.open({ consumer: 'w' }), 5))[0]!.from).toBe(0)
        const source = under.open({ consumer: 'w' })
        await source.commit(new Map([[partition, 3]]))
        expect((await takeAll(source, 2)).flatMap(payloadsOf)).toEqual(['d', 'e'])
        expect((await takeAll(under.open({ consumer: 'w', startAt: asked(1) }), 4)).flatMap(payloadsOf)).toEqual(['b', 'c', 'd', 'e'])
        expect((await takeAll(under.open({ consumer: 'other' }), 5)).flatMap(payloadsOf)).toEqual(five)
      }))

    test('a commit is there for the next source of the same consumer, and never goes back', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const source = under.open({ consumer: 'w' })
        await source.commit(new Map([[partition, 4]]))
        await source.commit(new Map([[partition, 2]]))
        await source.close()
        expect((await takeAll(under.open({ consumer: 'w' }), 1)).flatMap(payloadsOf)).toEqual(['e'])
      }))

    test('asks for the positions anew each time, and says where it goes on before the first run', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const positions = [1, 4]
        const source = under.open({ startAt: async () => new Map([[partition, positions.shift()!]]) })
        expect((await take(source, 1))[0]!.from).toBe(1)
        expect((await takeAll(source, 1))[0]!.from).toBe(4)

        const started: number[] = []
        const ending = new AbortController()
        const waiting = under.open({ startAt: asked(5) }).runs(ending.signal, starts => started.push(starts.get(partition)!))
        const next = waiting[Symbol.asyncIterator]().next()
        await expect.poll(() => started, soon).toEqual([5])
        ending.abort()
        await next
      }))

    test('an error of the store about its positions is passed on', () =>
      withLog(async under => {
        const away = new Error('the store is away')
        const source = under.open({ startAt: () => Promise.reject(away) })
        await expect(take(source, 1)).rejects.toBe(away)
      }))

    test('bounds are the first offset kept and the one that comes next', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const source = under.open()
        expect(await source.bounds(partition)).toEqual({ start: 0, end: 5 })
        await under.deleteBelow(2)
        expect(await source.bounds(partition)).toEqual({ start: 2, end: 5 })
      }))

    test('a source says where the log ends: when a share begins, and when it is asked, also behind what was read', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const ending = new AbortController()
        const source = under.open({ startAt: asked(2) })
        const begun: unknown[] = []
        const runs = source.runs(ending.signal, (_positions, _revoked, ends) => begun.push(ends))[Symbol.asyncIterator]()
        await runs.next()
        expect(begun).toEqual([new Map([[partition, 5]])])
        await under.append(['f', 'g'].map(message))
        expect(await source.ends()).toEqual(new Map([[partition, 7]]))
        ending.abort()
      }))

    test('a log that ends below the position stops the source: it was truncated or made anew', () =>
      withLog(async under => {
        await under.append(five.map(message))
        const failing = take(under.open({ startAt: asked(9) }), 1)
        await expect(failing).rejects.toBeInstanceOf(SystemicError)
        await expect(failing).rejects.toThrow(/ends at offset 5, but the store goes on at 9/)
      }))

    test('messages deleted unread stop the source, which says how many', () =>
      withLog(async under => {
        await under.append(five.map(message))
        await under.deleteBelow(3)
        const failing = take(under.open({ startAt: asked(1) }), 1)
        await expect(failing).rejects.toBeInstanceOf(SystemicError)
        await expect(failing).rejects.toThrow(/2 messages were deleted unread/)
      }))

    test('by option it goes on behind them: they are told, and a gap in the first run', () =>
      withLog(async under => {
        await under.append(five.map(message))
        await under.deleteBelow(3)
        const lost: [number, number][] = []
        const source = under.open({
          startAt: asked(1),
          acceptLost: true,
          onLost: (partition, messages) => lost.push([partition, messages]),
        })
        const [run] = await take(source, 2)
        expect([run!.from, run!.to, run!.lost, payloadsOf(run!)]).toEqual([1, 5, 2, ['d', 'e']])
        expect(lost).toEqual([[0, 2]])
      }))
  })
}
