// What every TopicReader keeps, run against the fake and the real ones.

import { describe, expect, test } from 'vitest'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import type { RawRun } from '../../pipeline/source.ts'
import type { TopicReader } from '../../pipeline/topic-reader.ts'
import { outgoing } from '../pipeline/message.ts'

/** A topic of one partition, with a way to fill it and to delete from its beginning. */
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

  describe(`${name} keeps the contract of a topic reader`, () => {
    test('an empty topic has its bounds, and nothing to read', () =>
      withTopic(async ({ reader }) => {
        expect([...(await reader.bounds())]).toEqual([[0, { start: 0, end: 0 }]])
        expect(await runsOf(reader, 0, 0)).toEqual([])
      }))

    test('reads exactly the messages of a range, in runs that join and end with it', () =>
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
          const runs = await runsOf(reader, from, to)
          expect(offsetsOf(runs)).toEqual(Array.from({ length: to - from }, (_, at) => from + at))
          let at: number = from
          for (const run of runs) {
            expect(run.from).toBe(at)
            at = run.to
          }
          expect(at).toBe(to)
        }
      }))

    test('a message is as it was appended, with headers that are no text', () =>
      withTopic(async ({ reader, append }) => {
        const message = outgoing({
          headers: [
            { key: 'trace', value: 'x' },
            { key: 'none', value: null },
          ],
          createdRestNs: 7,
        })
        await append([message])
        const [run] = await runsOf(reader, 0, 1)
        const cursor = run!.cursor()
        expect(cursor.next()).toBe(true)
        const { headers, ...envelope } = message
        expect({ ...cursor.message, payload: new Uint8Array(cursor.message.payload) }).toMatchObject(envelope)
        expect(cursor.headers()).toEqual(expect.arrayContaining([...headers!]))
        expect(cursor.next()).toBe(false)
      }))

    test('more than is fetched at once', () =>
      withTopic(async ({ reader, append }) => {
        for (let at = 0; at < 6; at++) await append(numbered(500, 1000))
        expect(offsetsOf(await runsOf(reader, 0, 3000))).toEqual(Array.from({ length: 3000 }, (_, at) => at))
      }))

    test('what is deleted while it is read is passed over, and the next run says so', () =>
      withTopic(async ({ reader, append, deleteBelow }) => {
        for (let at = 0; at < 6; at++) await append(numbered(500, 1000))
        const runs: RawRun[] = []
        for await (const run of reader.read(0, 0, 3000)) {
          runs.push(run)
          if (runs.length === 1) await deleteBelow(2900)
        }
        expect(runs.at(-1)!.to).toBe(3000)
        const offsets = offsetsOf(runs)
        expect(offsets).toEqual(expect.arrayContaining([0, 2900, 2999]))
        expect(offsets).toEqual(offsets.toSorted((one, other) => one - other))
      }))

    test('two readings of one topic do not disturb each other', () =>
      withTopic(async ({ reader, append }) => {
        await append(numbered(20))
        const [one, other] = await Promise.all([runsOf(reader, 0, 20), runsOf(reader, 5, 20)])
        expect([offsetsOf(one).length, offsetsOf(other).length]).toEqual([20, 15])
      }))
  })
}

async function runsOf(reader: TopicReader, from: number, to: number): Promise<RawRun[]> {
  const runs: RawRun[] = []
  for await (const run of reader.read(0, from, to)) runs.push(run)
  return runs
}

function offsetsOf(runs: readonly RawRun[]): number[] {
  return runs.flatMap(run => {
    const offsets: number[] = []
    const cursor = run.cursor()
    while (cursor.next()) offsets.push(cursor.message.offset)
    return offsets
  })
}
