// Texts in line protocol: what is written can be read back. Whether the server reads it so too is the matter of texts.deep.test.ts.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { doubleBytesMax } from '../../../config/decimal-bytes.ts'
import { fieldKeyText, LineBytes, stringText, tagText } from '../../../sinks/influxdb/line-protocol.ts'
import { nsOfLine } from '../../../sinks/influxdb/points.ts'

const text = fc.string({
  unit: fc.constantFrom('\\', ',', '=', ' ', '"', 'a', '\t', 'ü', '😀', '\n', '\r', '\0', '\ud800'),
  minLength: 1,
  maxLength: 8,
})

test('the time of a line can be read back', () => {
  fc.assert(
    fc.property(text, text, fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n }), (one, value, ns) => {
      const [tag, field] = [tagText(one), stringText(value)]
      fc.pre(tag !== undefined && field !== undefined)
      expect(nsOfLine(`engine,channel=${tag} v=${field} ${ns}`)).toBe(ns)
    }),
  )
})

test('harmless text is written unchanged', () => {
  expect([tagText('floor.3/room-1:a'), fieldKeyText('d/tmp'), stringText('a, b = c')]).toEqual(['floor.3/room-1:a', 'd/tmp', '"a, b = c"'])
})

test('text that InfluxDB cannot store is not written', () => {
  expect(['a\\', 'a\n', 'a\r', 'a\0', '\ud83d'].map(tagText)).toEqual(Array.from({ length: 5 }, () => undefined))
  expect(['a\\', 'a\\ b', 'a\\,', 'a\\=', 'a\n', '\ude00'].map(fieldKeyText)).toEqual(Array.from({ length: 6 }, () => undefined))
  expect(['a\0', '\ud83d', 'x'.repeat(1_048_577)].map(stringText)).toEqual(Array.from({ length: 3 }, () => undefined))
})

/** What `write` writes in room for so many bytes and no more; undefined where it writes nothing and says so. */
function written(bytesMax: number, write: (line: LineBytes) => boolean | void): string | undefined {
  const line = new LineBytes(Buffer.alloc(bytesMax + 1, '!'))
  const kept = write(line)
  expect(line.bytes[bytesMax]).toBe('!'.charCodeAt(0))
  if (kept === false) expect(line.at).toBe(0)
  return kept === false ? undefined : line.bytes.toString('utf8', 0, line.at)
}

test('the byte writer and the text functions agree', () => {
  const character = fc.oneof(
    fc.constantFrom('\\', ',', '=', ' ', '"', 'a', '\t', '\x7f', '\x80', 'ü', '😀', '\n', '\r', '\0', '\ud800'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  )
  fc.assert(
    fc.property(fc.string({ unit: character, maxLength: 12 }), text => {
      expect(written(text.length * 3, line => line.tag(text))).toBe(tagText(text))
      expect(written(text.length * 3, line => line.fieldKey(text))).toBe(fieldKeyText(text))
      expect(written(text.length * 3 + 2, line => line.string(text))).toBe(stringText(text))
    }),
    { numRuns: 2000 },
  )
  const longest = 'x'.repeat(1_048_576)
  expect(written(longest.length + 3, line => line.string(longest))).toBe(`"${longest}"`)
  expect(written(longest.length + 3, line => line.string(`${longest}x`))).toBeUndefined()
})

test('doubles are unchanged, except for the sign of zero', () => {
  const decimal = fc.tuple(fc.integer({ min: -200_000_000, max: 200_000_000 }), fc.integer({ min: 0, max: 5 })).map(([n, d]) => n / 10 ** d)
  const edges = [0, -0, 0.001, -0.001, 0.0005, 1e-7, 99_999.999, 100_000, 123_456.789, 2 ** 53, 1e21, -1.7976931348623157e308, 5e-324]
  const double = fc.oneof(decimal, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(...edges))
  fc.assert(
    fc.property(double, value => {
      const text = written(doubleBytesMax, line => line.number(value))!
      expect(text).toMatch(/^-?\d+(\.\d+)?(e[+-]\d+)?$/)
      expect(Number(text)).toBe(value === 0 ? 0 : value)
    }),
    { numRuns: 5000 },
  )
  expect([20.5, -0.25, 1000, 7.125].map(value => written(doubleBytesMax, line => line.number(value)))).toEqual([
    '20.5',
    '-0.25',
    '1000',
    '7.125',
  ])
})

test('integers of 64 bits are exact', () => {
  const offsets = fc.oneof(fc.integer({ min: 0, max: 2 ** 44 - 1 }), fc.constantFrom(0, 2 ** 44 - 1))
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 127 }), fc.integer({ min: 0, max: 4095 }), offsets, (log, partition, offset) => {
      const position = (BigInt(log) << 56n) | (BigInt(partition) << 44n) | BigInt(offset)
      expect(written(19, line => line.position(log, partition, offset))).toBe(String(position))
    }),
  )
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.integer({ min: 0, max: 999_999 }), fc.constantFrom(3, 6), (us, rest, digits) => {
      const [units, restNs] = digits === 3 ? [us, rest % 1000] : [Math.floor(us / 1000), rest]
      const ns = BigInt(units) * 10n ** BigInt(digits) + BigInt(restNs)
      expect(written(20, line => line.time(units, restNs, digits))).toBe(String(ns))
    }),
  )
  const times = [
    [-1, 5],
    [-1, 0],
    [0, 0],
    [0, 5],
    [-2, 995],
  ] as const
  expect(times.map(([us, rest]) => written(20, line => line.time(us, rest, 3)))).toEqual(['-995', '-1000', '0', '5', '-1005'])
  fc.assert(
    fc.property(fc.maxSafeNat(), value => {
      expect(written(16, line => line.integer(value))).toBe(String(value))
    }),
  )
})
