// Which JSON values have a text: of whole numbers beyond int64, all that answers show so.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { scalarText } from '../../../readers/matching.ts'
import { scalarCandidates, wholeNumbersOf } from '../../../readers/postgres/conditions.ts'
import { parsePayload } from '../../../transformers/json/canonical.ts'

/** As an answer shows the number that is stored with these digits. */
function shown(digits: bigint): string {
  return scalarText(parsePayload(String(digits)))!
}

const int64Max = 2n ** 63n - 1n
const doubleMax = BigInt(Number.MAX_VALUE)
const power = fc.integer({ min: 63, max: 1023 }).map(exponent => 2n ** BigInt(exponent))
const beyondInt64 = fc.oneof(
  fc.bigInt({ min: int64Max + 1n, max: 2n ** 70n }),
  fc.bigInt({ min: int64Max + 1n, max: doubleMax }),
  fc.tuple(power, fc.bigInt({ min: -4096n, max: 4096n })).map(([one, more]) => (one + more > int64Max ? one + more : one)),
)
const signed = fc.tuple(beyondInt64, fc.boolean()).map(([one, isNegative]) => (isNegative ? -one - 1n : one))

test('exactly the whole numbers between the least and the greatest are printed as a text', () => {
  fc.assert(
    fc.property(signed, stored => {
      const text = shown(stored)
      const [least, greatest] = wholeNumbersOf(text)!.map(BigInt)
      expect(least! <= stored && stored <= greatest!).toBe(true)
      for (const [number, isShownSo] of [
        [least!, true],
        [greatest!, true],
        [least! - 1n, false],
        [greatest! + 1n, false],
      ] as const)
        expect(shown(number) === text, String(number)).toBe(isShownSo)
    }),
    { numRuns: 1000 },
  )
})

test('an int64 is printed as one text, and a larger number only as answers print it', () => {
  for (const text of ['-9223372036854775808', '9223372036854775807', '0', '21.5', '-1e-7', '1000000000000000']) {
    expect([text, scalarCandidates(text), wholeNumbersOf(text)]).toEqual([text, [JSON.stringify(text), text], undefined])
  }
  for (const text of ['9223372036854775808', '12345678901234567890', '1e21', '-0', '1.0', 'Infinity', '1e400', '', ' 1']) {
    expect([text, scalarCandidates(text), wholeNumbersOf(text)]).toEqual([text, [JSON.stringify(text)], undefined])
  }
  expect(wholeNumbersOf('9223372036854776000')).toEqual(['9223372036854775808', '9223372036854776832'])
  expect(wholeNumbersOf('-9223372036854776000')).toEqual(['-9223372036854776832', '-9223372036854775809'])
})
