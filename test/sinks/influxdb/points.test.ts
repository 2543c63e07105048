// The points of a batch: messages whose offsets are near each other are different points, whatever their clocks say; no time loses a digit; and of two
// messages that need the same point the later one is rejected.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encode } from '../../../sinks/influxdb/encode.ts'
import {
  documentEntries,
  indexField,
  msOf,
  nsOfLine,
  ordinalOf,
  restNsOf,
  restUsOf,
  seriesOfLine,
  textOf,
  timeIsKept,
} from '../../../sinks/influxdb/points.ts'
import { limits } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { append, batchOf, noonUs, type TestMessage } from '../batches.ts'

/** Clocks of devices, from the nth reading to its microsecond. */
const clocks: Readonly<Record<string, (nth: number) => number>> = {
  'in seconds': nth => noonUs + nth * 1_000_000,
  'in milliseconds': nth => noonUs + nth * 1000,
  'in microseconds': nth => noonUs + nth,
  'that stands still': () => noonUs + 123_457,
  'that stands still before 1970': () => -1,
}
const million = 1_000_000

/** What identifies the points of the messages: series and time. */
function pointsOf(messages: readonly TestMessage[], partition: number): string[] {
  const { lines } = encode(batchOf(0, 2 ** 44 - 1, messages, partition), [1])
  const texts = Buffer.from(lines.bytes).toString().split('\n').slice(0, -1)
  return texts.map(line => `${line.split(' ', 1)[0]} ${nsOfLine(line)}`)
}

test.each(Object.keys(clocks))('two messages less than a million offsets apart are two points: a clock %s', name => {
  const timeUs = clocks[name]!
  const offset = fc.oneof(fc.nat(10 * million), fc.integer({ min: 0, max: limits.offset - million }))
  const reading = fc.integer({ min: 0, max: 3000 })
  const apart = fc.oneof(fc.integer({ min: 1, max: million - 1 }), fc.constantFrom(1, 1000, 2000, million - 1000, million - 1))
  fc.assert(
    fc.property(offset, apart, reading, reading, fc.nat(limits.partition), (first, more, one, other, partition) => {
      const record = (nth: number) => ({ records: [{ value: 1, timeUs: timeUs(nth) }] })
      const document = (nth: number) => ({ documents: [{ format: 'engine', payload: { a: 1 }, createdUs: timeUs(nth) }] })
      for (const of of [record, document]) {
        const messages = [
          { offset: first, ...of(one) },
          { offset: first + more, ...of(other) },
        ]
        expect(new Set(pointsOf(messages, partition)).size).toBe(2)
      }
    }),
  )
})

test('equal offsets differ in all partitions and logs', () => {
  const rests = new Set<number>()
  for (let log = 1; log <= limits.log; log++)
    for (let partition = 0; partition <= limits.partition; partition++) rests.add(restNsOf(log, partition, 0))
  expect(rests.size).toBe(limits.log * (limits.partition + 1))
})

test('offsets of a few partitions and two logs that grow alike stay thousands apart', () => {
  const begins = [1, 2]
    .flatMap(log => Array.from({ length: 12 }, (_, partition) => restNsOf(log, partition, 0)))
    .sort((one, other) => one - other)
  const gaps = begins.map((begin, at) => (begins[at + 1] ?? begins[0]! + million) - begin)
  expect(Math.min(...gaps)).toBeGreaterThan(10_000)
})

test('a time and an ordinal are read back to the microsecond', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 32 - 1), fc.maxSafeInteger(), (index, timeUs) => {
      const field = indexField(index, timeUs)
      expect([ordinalOf(field), BigInt(msOf(timeUs)) * 1000n + BigInt(restUsOf(field))]).toEqual([index, BigInt(timeUs)])
      expect(timeIsKept(timeUs)).toBe(true)
    }),
  )
  expect([msOf(-1), restUsOf(indexField(3, -1))]).toEqual([-1, 999])
})

test('the keys of a document are read back from its fields, in their order', () => {
  const fields = { '/index': 1, 'b//text': 'x', 'a b': 2, 'a//bool': true, text: 3, 'd/text//text': 'y', 'd/bool': 4 }
  expect(documentEntries(Object.entries(fields))).toEqual([
    ['a', true],
    ['a b', 2],
    ['b', 'x'],
    ['d/bool', 4],
    ['d/text', 'y'],
    ['text', 3],
  ])
})

test('of several values of a key, which two messages have left, each but the first has the name of its field', () => {
  const fields = [
    ['a//text', 'x'],
    ['a//bool', true],
    ['a', 1],
  ] as const
  const entries = [
    ['a', 1],
    ['a//bool', true],
    ['a//text', 'x'],
  ]
  for (const given of [fields, fields.toReversed()]) expect(documentEntries<string | boolean | number>(given)).toEqual(entries)
})

/** Covers each partition from its first message to its last. */
function batchOfAll(messages: readonly TestMessage[]): RecordBatch {
  const batch = new RecordBatch()
  for (const message of messages) append(batch, message)
  for (const [partition = 0, some] of Map.groupBy(messages, ({ partition }) => partition)) {
    const offsets = some.map(({ offset }) => offset)
    batch.cover(logPartition(0, partition), Math.min(...offsets), Math.max(...offsets) + 1)
  }
  return batch
}

const rejectionsOf = (messages: readonly TestMessage[]) => [...encode(batchOfAll(messages), [1]).rejected.values()]
const at = (offset: number, some: Partial<TestMessage> = {}): TestMessage => ({ offset, records: [{ value: 1 }], ...some })

describe('the later message of a batch', () => {
  test('is rejected if its offset is a million above that of another with its series and millisecond', () => {
    expect(
      rejectionsOf([
        at(7),
        at(8),
        at(7 + million, {
          records: [
            { name: 'other', value: 1 },
            { value: 2, timeUs: noonUs + 999 },
          ],
        }),
      ]),
    ).toEqual([expect.objectContaining({ message: 2, record: 1, rule: 'point-taken', reason: expect.stringContaining('1-0-7 ') })])
  })

  test.each([
    ['another millisecond', { records: [{ value: 1, timeUs: noonUs - 1 }] }],
    ['another name', { records: [{ name: 'other', value: 1 }] }],
    ['a unit', { records: [{ unit: 'C', value: 1 }] }],
    ['another subtopic', { subtopic: 'other' }],
    ['another publisher', { publisher: 'other' }],
    ['another channel', { channel: 'other' }],
    ['a document', { records: [], documents: [{ format: 'engine', payload: { a: 1 } }] }],
  ] satisfies [string, Partial<TestMessage>][])('is not rejected with %s', (_what, other) => {
    expect(rejectionsOf([at(7), at(7 + million, other)])).toEqual([])
  })

  test('is rejected if it is of another partition whose numbers meet', () => {
    const offset = 3 * million + 5 - restNsOf(1, 9, 0)
    expect(restNsOf(1, 9, offset)).toBe(5)
    expect(rejectionsOf([at(5), at(offset - 1, { partition: 9 }), at(offset, { partition: 9 })])).toEqual([
      expect.objectContaining({ message: 2, rule: 'point-taken' }),
    ])
  })

  test('does not take points that it is not stored at', () => {
    const both = {
      records: [
        { name: 'a', value: 1 },
        { name: 'b', value: 1 },
      ],
    }
    const second = { records: [{ name: 'b', value: 1 }] }
    expect(rejectionsOf([at(7, { records: [{ name: 'a', value: 1 }] }), at(7 + million, both), at(7 + 2 * million, second)])).toEqual([
      expect.objectContaining({ message: 1, rule: 'point-taken' }),
    ])
  })

  test('what is left are different points, and each message that is not left needs one of them', () => {
    const record = fc.record({ name: fc.constantFrom('a', 'b', 'a b, c='), timeUs: fc.constantFrom(noonUs, noonUs + 1, noonUs + 1000) })
    const message = fc.record({
      offset: fc.oneof(
        fc.nat(5).map(nth => nth * million),
        fc.nat(3 * million),
      ),
      partition: fc.constantFrom(0, 0, 0, 1),
      records: fc.array(record, { minLength: 1, maxLength: 3 }),
    })
    const batches = fc.uniqueArray(message, { selector: ({ offset, partition }) => `${partition} ${offset}`, maxLength: 20, minLength: 1 })
    fc.assert(
      fc.property(batches, given => {
        const sorted = given.map(one => ({
          ...one,
          // In partition 1 at the offset that meets the one of partition 0.
          offset: one.partition === 0 ? one.offset : one.offset + 4 * million - restNsOf(1, 1, 0),
          records: one.records.map(some => ({ ...some, value: 1 })).sort((some, other) => some.timeUs - other.timeUs),
        }))
        const { lines, rejected } = encode(batchOfAll(sorted.sort((one, other) => one.offset - other.offset)), [1])
        const left = new Set<string>()
        const expected = new Set<number>()
        const points = Array.from({ length: lines.length }, (_, line) => textOf(lines, line)).map(
          text => `${seriesOfLine(text)} ${nsOfLine(text)}`,
        )
        for (let message = 0; message < sorted.length; message++) {
          const own = points.filter((_, line) => lines.message[line] === message)
          if (own.some(point => left.has(point))) expected.add(message)
          else for (const point of own) left.add(point)
        }
        expect([...rejected.keys()].sort((one, other) => one - other)).toEqual([...expected])
      }),
    )
  })
})
