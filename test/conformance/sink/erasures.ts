// Erasures: which rows go, and which stay, by each combination of conditions; in steps, beside a writer, and as often as one likes. And retentions.

import { describe, expect, test } from 'vitest'
import type { Erasure, ErasureFilter } from '../../../sinks/erasure.ts'
import { isUuid } from '../../../transformers/uuid.ts'
import { batchOf, noonUs, plain, type TestMessage } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'

const noonMs = noonUs / 1000
const dayUs = 86_400_000_000
const [house, garden] = ['channel-1', 'channel-10']
const [meter, valve] = ['thing-1', 'thing-10']
/** A text that a statement of each store would have to escape. */
const hostile = `it's "a" AND \\ b=c, $1; --`

const messages: TestMessage[] = [
  {
    offset: 0,
    records: [
      { value: 0, timeUs: noonUs - 1 },
      { value: 1, timeUs: noonUs },
    ],
  },
  { offset: 1, publisher: valve, records: [{ value: 2, timeUs: noonUs + 40 * dayUs }] },
  { offset: 2, channel: garden, records: [{ value: 3, timeUs: noonUs - 40 * dayUs }] },
  { offset: 3, documents: [{ format: 'engine', payload: { a: 1 }, createdUs: noonUs - 1, createdRestNs: 999 }] },
  { offset: 4, publisher: valve, documents: [{ format: 'engine', payload: { a: 2 }, createdUs: noonUs }] },
  { offset: 5, channel: garden, documents: [{ format: 'climate', payload: { a: 3 }, createdUs: noonUs + dayUs }] },
  { offset: 6, channel: garden, publisher: valve, records: [{ value: 4, timeUs: noonUs - 2 * dayUs }] },
  { offset: 7, channel: hostile, publisher: hostile, records: [{ value: 5 }] },
  { offset: 8, channel: hostile, publisher: hostile, documents: [{ format: 'Temp-1', payload: {} }] },
]

const cases: readonly (readonly [ErasureFilter, gone: readonly string[], counts: Readonly<Record<string, number>>])[] = [
  [{ channel: house }, ['0/0', '0/1', '1/0', '3/0', '4/0'], { messages: 3, engine: 2 }],
  [{ publisher: meter }, ['0/0', '0/1', '2/0', '3/0', '5/0'], { messages: 3, engine: 1, climate: 1 }],
  [{ beforeMs: noonMs }, ['0/0', '2/0', '3/0', '6/0'], { messages: 3, engine: 1 }],
  [{ channel: house, publisher: meter }, ['0/0', '0/1', '3/0'], { messages: 2, engine: 1 }],
  [{ channel: house, beforeMs: noonMs }, ['0/0', '3/0'], { messages: 1, engine: 1 }],
  [{ publisher: valve, beforeMs: noonMs }, ['6/0'], { messages: 1 }],
  [{ channel: garden, publisher: meter, beforeMs: noonMs }, ['2/0'], { messages: 1 }],
  [{ channel: hostile }, ['7/0', '8/0'], { messages: 1, 'Temp-1': 1 }],
  [{ publisher: hostile }, ['7/0', '8/0'], { messages: 1, 'Temp-1': 1 }],
  [{ channel: 'channel', publisher: 'thing' }, [], {}],
  [{ format: 'messages', beforeMs: noonMs }, ['0/0', '2/0', '6/0'], { messages: 3 }],
  [{ channel: garden, format: 'messages' }, ['2/0', '6/0'], { messages: 2 }],
  [{ publisher: valve, format: 'messages' }, ['1/0', '6/0'], { messages: 2 }],
  [{ publisher: valve, format: 'engine', beforeMs: noonMs + 1 }, ['4/0'], { engine: 1 }],
]

export function erasuresSuite(bench: Bench): void {
  describe('erasures', () => {
    /** `<offset>/<index>` of each row. */
    const left = async (): Promise<string[]> =>
      (await bench.store.rows()).map(({ position, index }) => `${position & 0xfff_ffff_ffffn}/${index}`).sort()
    const all = ['0/0', '0/1', '1/0', '2/0', '3/0', '4/0', '5/0', '6/0', '7/0', '8/0']

    test.each(cases)('delete what they count, and nothing else: %j', async (filter, gone, expected) => {
      await bench.write(batchOf(0, 9, messages))
      const { erasure } = bench.store
      expect(Object.fromEntries(await erasure.count(filter, signal))).toEqual(expected)
      expect(await left()).toEqual(all)
      let stepped = 0
      const erased = await erasure.erase(filter, signal, async rows => void (stepped += rows))
      expect([erased, stepped]).toEqual([gone.length, gone.length])
      expect(await left()).toEqual(all.filter(row => !gone.includes(row)))
      expect(Object.fromEntries(await erasure.count(filter, signal))).toEqual({})
      expect(await erasure.erase(filter, signal, async () => undefined)).toBe(0)
      await bench.expectPosition(9)
    })

    test('that are interrupted are finished by the next, beside a writer whose other rows stay', async () => {
      const rows = 12_000
      for (let from = 0; from < rows; from += 3_000) {
        const some = Array.from({ length: 3_000 }, (_, at): TestMessage => {
          const offset = from + at
          const origin = offset % 2 === 0 ? { channel: house, publisher: meter } : { channel: garden, publisher: valve }
          return { ...plain(offset), ...origin, records: [{ value: offset, timeUs: noonUs + offset }] }
        })
        await bench.write(batchOf(from, from + 3_000, some))
      }
      const interrupted = new AbortController()
      let first = 0
      const erasing = bench.store.erasure.erase({ publisher: meter }, interrupted.signal, async erased => {
        first += erased
        await bench.write(batchOf(rows, rows + 1, [{ ...plain(rows), publisher: valve }]))
        interrupted.abort(new Error('interrupted'))
      })
      // A store that deletes all of it in one step has nothing left to interrupt.
      await erasing.catch((error: Error) => expect(error.message).toMatch(/interrupted|aborted/))
      expect(first).toBeGreaterThan(0)
      const rest = await bench.store.erasure.erase({ publisher: meter }, signal, async () => undefined)
      expect(first + rest).toBe(rows / 2)
      const values = await bench.values()
      expect(values.length).toBe(rows / 2 + 1)
      expect(values.every(value => value === rows || value! % 2 === 1)).toBe(true)
    })

    test('leave notes, which are replaced by their ids, and are read in the order in which they began', async () => {
      const { erasure, replays } = bench.store
      const one: Erasure = {
        id: '0b2f4a52-6a3c-4f0e-9d5b-1c2d3e4f5a6b',
        channel: hostile,
        beforeMs: noonMs,
        startedMs: 2_000,
        rows: 0,
        deadLetters: 0,
        logs: [],
      }
      await erasure.note(one)
      await erasure.note({ ...one, id: '1b2f4a52-6a3c-4f0e-9d5b-1c2d3e4f5a6b', startedMs: 1_000 })
      const ended = { ...one, endedMs: 3_000, rows: 7, logs: [{ number: 1, id: 'id-1', partitions: { 0: { stored: 9, reached: 10 } } }] }
      await erasure.note(ended)
      expect(await replays.audit.erasures()).toEqual([{ ...one, id: '1b2f4a52-6a3c-4f0e-9d5b-1c2d3e4f5a6b', startedMs: 1_000 }, ended])
    })

    test('by retentions of channels and formats delete what is too old, also if it comes late, and nothing else; notes say how far', async () => {
      const { maintain, replays } = bench.store
      const nowUs = Date.now() * 1000
      const record = (offset: number, channel: string, daysAgo: number): TestMessage => ({
        ...plain(offset),
        channel,
        records: [{ value: offset, timeUs: nowUs - daysAgo * dayUs }],
      })
      const document = (offset: number, channel: string, format: string, daysAgo: number): TestMessage => ({
        offset,
        channel,
        documents: [{ format, payload: { offset }, createdUs: nowUs - daysAgo * dayUs }],
      })
      const without = (...gone: number[]): string[] => written.filter(offset => !gone.includes(offset)).map(offset => `${offset}/0`)
      const written = Array.from({ length: 12 }, (_, offset) => offset)
      // Of the current day and so many before it.
      const retention = {
        retentionChannels: [`${house}:3`, `${hostile}:1`, 'other:1'],
        retentionFormats: ['engine:5', 'messages:40', 'other:1'],
      }
      await bench.write(
        batchOf(0, 12, [
          record(0, house, 4.1),
          record(1, house, 2.9),
          document(2, house, 'climate', 4.1),
          document(3, house, 'climate', 2.9),
          document(4, garden, 'engine', 6.1),
          document(5, garden, 'engine', 4.9),
          record(6, garden, 41.1),
          record(7, garden, 39.9),
          record(8, hostile, 2.1),
          document(9, garden, 'climate', 400),
          { ...record(10, house, 700), publisher: valve },
          record(11, 'channel', 4.1),
        ]),
      )
      await maintain({}, new Date())
      expect(await left()).toEqual(without().sort())
      await maintain(retention, new Date())
      expect(await left()).toEqual(without(0, 2, 4, 6, 8, 10).sort())
      written.push(12, 13)
      await bench.sink.close()
      bench.sink = await bench.store.open()
      await bench.write(batchOf(12, 14, [record(12, house, 4.1), record(13, house, 0.9)]))
      await maintain(retention, new Date())
      expect(await left()).toEqual(without(0, 2, 4, 6, 8, 10, 12).sort())
      await bench.expectPosition(14)
      const last = new Date()
      await maintain({ retentionChannels: [`${house}:1`] }, last)
      expect(await left()).toEqual(without(0, 1, 2, 3, 4, 6, 8, 10, 12).sort())
      const notes = await replays.audit.erasures()
      expect(notes).toHaveLength(7)
      expect(notes.every(({ id, endedMs, retention }) => isUuid(id) && endedMs !== undefined && retention === true)).toBe(true)
      const beforeMs = (Math.floor(last.getTime() / 86_400_000) - 1) * 86_400_000
      expect(notes.at(-1)).toMatchObject({ channel: house, beforeMs, startedMs: last.getTime(), rows: 0, logs: [] })
    })
  })
}
