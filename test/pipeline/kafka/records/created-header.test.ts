// The header `created`: exact decimal nanoseconds, and nothing else.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { created, readCreated } from '../../../../pipeline/kafka/records/created-header.ts'

function parse(text: string): { us: number; restNs: number } | undefined {
  const bytes = Buffer.from(`<${text}>`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return readCreated(bytes, view, 1, bytes.length - 1) ? { ...created } : undefined
}

test.each([
  ['1700000000000000001', 1_700_000_000_000_000, 1],
  ['1700000000123456789', 1_700_000_000_123_456, 789],
  ['0', 0, 0],
  ['7', 0, 7],
  ['999', 0, 999],
  ['1000', 1, 0],
  ['0001000', 1, 0],
  ['-1', -1, 999],
  ['-1000', -1, 0],
  ['-1001', -2, 999],
  ['-0', 0, 0],
  ['9007199254740991999', Number.MAX_SAFE_INTEGER, 999],
  ['-9007199254740991000', -Number.MAX_SAFE_INTEGER, 0],
])('%s', (text, us, restNs) => expect(parse(text)).toEqual({ us, restNs }))

test.each([
  '',
  '-',
  '--1',
  '+1',
  '1.5',
  '1e18',
  ' 1',
  '1 ',
  '0x10',
  '12345678901234567a9',
  '/000000000000000000',
  ':000000000000000000',
  '17000000000000000\u{661}',
  'ÿÿÿÿÿÿÿÿ',
  '9007199254740992000',
  '-9007199254740991001',
  '99999999999999999999',
  '000000000000000000001',
  'yesterday',
])('%j is invalid', text => expect(parse(text)).toBeUndefined())

test('every time equals what BigInt computes', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), ns => {
      const us = BigInt.asIntN(64, ns < 0n ? (ns - 999n) / 1000n : ns / 1000n)
      const safe = us >= -(2n ** 53n) + 1n && us < 2n ** 53n
      expect(parse(String(ns))).toEqual(safe ? { us: Number(us), restNs: Number(ns - us * 1000n) } : undefined)
    }),
    { numRuns: 3000 },
  )
})

test('any other character is detected at any place of the digits', () => {
  const digits = '1700000000123456789'
  for (let at = 1; at < digits.length; at++) {
    for (let byte = 0; byte < 256; byte++) {
      const bytes = Buffer.from(digits)
      bytes[at] = byte
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      expect(readCreated(bytes, view, 0, bytes.length)).toBe(byte >= 0x30 && byte <= 0x39)
    }
  }
})
