// The points of a batch: messages whose offsets are near each other are different points, whatever their clocks say, and no time loses a digit.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { encode } from '../../../sinks/influxdb/encode.ts'
import { indexField, msOf, nsOfLine, ordinalOf, restNsOf, restUsOf, timeIsKept } from '../../../sinks/influxdb/points.ts'
import { limits } from '../../../sinks/sink.ts'
import { batchOf, noonUs, type TestMessage } from '../batches.ts'

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
