// Bodies of about the same size: as many as can be in flight, cut between messages.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { EncodedLines } from '../../../sinks/influxdb/points.ts'
import { splitBodies } from '../../../sinks/influxdb/sink.ts'

/** @param messages by message, the bytes of its lines */
function linesOf(messages: readonly (readonly number[])[]): EncodedLines {
  const lengths = messages.flat()
  let end = 0
  return {
    length: lengths.length,
    bytes: new Uint8Array(0),
    start: Uint32Array.from([0, ...lengths.map(length => (end += length))]),
    message: Uint32Array.from(messages.flatMap((lines, message) => lines.map(() => message))),
    record: new Uint32Array(lengths.length),
    timeUs: new Float64Array(lengths.length),
  }
}
const everyLine = ({ length }: EncodedLines): number[] => Array.from({ length }, (_, line) => line)

test('no body of a line or two follows equal ones', () => {
  for (const count of [1000, 1001, 1002, 1003, 1999, 4001]) {
    // 0, 1 and 2 bytes more: no share is a multiple of a line.
    const lines = linesOf(Array.from({ length: count }, (_, nth) => [100 + (nth % 3)]))
    const bodies = splitBodies(lines, everyLine(lines), { bodyBytes: 32 * 1024, requestsInFlight: 4 })
    const needed = Math.ceil((count * 101) / (32 * 1024))
    expect(bodies).toHaveLength(Math.ceil(needed / 4) * 4)
    const lengths = bodies.map(({ length }) => length)
    expect(Math.min(...lengths)).toBeGreaterThan(Math.max(...lengths) * 0.8)
  }
})

test('a message is divided only if it is larger than a body, and then evenly', () => {
  const ten = Array.from({ length: 10 }, () => 100)
  const lines = linesOf(Array.from({ length: 30 }, () => ten))
  for (const body of splitBodies(lines, everyLine(lines), { bodyBytes: 8000, requestsInFlight: 4 })) expect(body.length % 10).toBe(0)
  const one = linesOf([Array.from({ length: 1000 }, () => 100)])
  const sizes = splitBodies(one, everyLine(one), { bodyBytes: 24_000, requestsInFlight: 4 }).map(({ length }) => length)
  expect(sizes).toEqual([125, 125, 125, 125, 125, 125, 125, 125])
})

test('the bodies have the selected lines, in order, and no more bytes than allowed', () => {
  const messages = fc.array(fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 12 }), { maxLength: 40 })
  fc.assert(
    fc.property(
      messages,
      fc.integer({ min: 50, max: 2000 }),
      fc.integer({ min: 1, max: 5 }),
      fc.func(fc.boolean()),
      (given, most, atOnce, chosen) => {
        const lines = linesOf(given)
        const selection = everyLine(lines).filter(line => chosen(line))
        const bodies = splitBodies(lines, selection, { bodyBytes: most, requestsInFlight: atOnce })
        expect(bodies.flat()).toEqual(selection)
        for (const body of bodies) {
          const bytes = body.reduce((sum, line) => sum + lines.start[line + 1]! - lines.start[line]!, 0)
          expect(body.length === 1 || (body.length > 1 && bytes <= most)).toBe(true)
        }
      },
    ),
  )
})
