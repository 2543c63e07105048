// The numbers of SenML CBOR: integers, floats and decimal fractions, each as the nearest double (RFC 8428 §6, RFC 8949 §3.4.4).

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytesOf, faultOf, rowsOf, ruleOf } from './cbor-rows.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)

/** The decoded number, as the value of v. */
function valueOf(item: string): number | undefined {
  return rowsOf(`81 a2 00 61 'a' 02 ${item}`)[0]?.value
}

function hexOf(write: (view: DataView<ArrayBuffer>) => void): string {
  const view = new DataView(new ArrayBuffer(8))
  write(view)
  return Buffer.from(view.buffer).toString('hex')
}

/** An integer in 9 bytes. */
function integerItem(integer: bigint): string {
  return `${integer < 0 ? '3b' : '1b'} ${hexOf(view => view.setBigUint64(0, integer < 0 ? -1n - integer : integer))}`
}

describe('integers', () => {
  test.each([
    ['00', 0],
    ['17', 23],
    ['18 18', 24],
    ['18 00', 0],
    ['18 ff', 255],
    ['19 0100', 256],
    ['19 ffff', 65_535],
    ['1a 00010000', 65_536],
    ['1a ffffffff', 2 ** 32 - 1],
    ['1b 0000000100000000', 2 ** 32],
    ['1b 001fffffffffffff', 2 ** 53 - 1],
    ['20', -1],
    ['37', -24],
    ['38 18', -25],
    ['38 ff', -256],
    ['39 ffff', -65_536],
    ['3a ffffffff', -(2 ** 32)],
    ['3b 00000000ffffffff', -(2 ** 32)],
    ['3b 001fffffffffffff', -(2 ** 53)],
  ])('%s is %d', (item, value) => {
    expect(valueOf(item)).toBe(value)
  })

  test('beyond 2^53 they become the nearest double, rounded once', () => {
    for (const [item, value] of [
      ['1b 0020000000000001', 2 ** 53],
      ['1b 0020000000000003', 2 ** 53 + 4],
      ['1b ffffffffffffffff', 2 ** 64],
      ['1b fffffffffffffbff', 2 ** 64 - 2048],
      ['3b ffffffffffffffff', -(2 ** 64)],
      ['3b 0020000000000000', -(2 ** 53)],
      ['3b 0020000000000002', -(2 ** 53 + 4)],
      ['3b 0040000000000002', -(2 ** 54 + 4)],
    ] as const) {
      expect(valueOf(item), item).toBe(value)
    }
    fc.assert(
      fc.property(fc.bigInt(-(2n ** 64n), 2n ** 64n - 1n), integer => {
        expect(valueOf(integerItem(integer))).toBe(Number(integer) + 0)
      }),
      { seed, numRuns: 1000 },
    )
  })
})

describe('floats', () => {
  test.each([
    ['f9 0001', 2 ** -24],
    ['f9 03ff', 1023 * 2 ** -24],
    ['f9 0400', 2 ** -14],
    ['f9 3c00', 1],
    ['f9 3e00', 1.5],
    ['f9 c000', -2],
    ['f9 7bff', 65_504],
    ['fa 3f800000', 1],
    ['fa 7f7fffff', 3.4028234663852886e38],
    ['fa 00000001', 2 ** -149],
    ['fa 3dcccccd', 0.10000000149011612],
    ['fb 3fb999999999999a', 0.1],
    ['fb ffefffffffffffff', -Number.MAX_VALUE],
    ['fb 0000000000000001', 5e-324],
  ])('%s is %d', (item, value) => {
    expect(valueOf(item)).toBe(value)
  })

  test('every finite half is read as the equal single', () => {
    const read: unknown[] = []
    const right: unknown[] = []
    for (let bits = 0; bits < 0x10000; bits++) {
      const exponent = (bits >> 10) & 0x1f
      const item = `f9 ${bits.toString(16).padStart(4, '0')}`
      const single = (bits & 0x8000 ? -1 : 1) * 2 ** Math.max(exponent, 1) * 2 ** -25 * ((exponent === 0 ? 0 : 1024) + (bits & 0x3ff)) + 0
      read.push(exponent === 31 ? ruleOf(`81 a2 00 61 'a' 02 ${item}`) : valueOf(item))
      right.push(exponent === 31 ? 'number-finite' : single)
    }
    expect(read).toStrictEqual(right)
  })

  test('a negative zero becomes zero', () => {
    for (const item of ['f9 8000', 'fa 80000000', 'fb 8000000000000000', 'c4 82 3b ffffffffffffffff 20']) expect(valueOf(item)).toBe(0)
  })

  test.each([
    ['02', 'v', 'f9 7e00'],
    ['02', 'v', 'f9 7c00'],
    ['02', 'v', 'f9 fc00'],
    ['02', 'v', 'fa 7fc00000'],
    ['02', 'v', 'fa 7f800000'],
    ['02', 'v', 'fa ff800000'],
    ['02', 'v', 'fb 7ff8000000000000'],
    ['02', 'v', 'fb 7ff0000000000000'],
    ['02', 'v', 'fb fff0000000000000'],
    ['05', 's', 'fb 7ff8000000000001'],
    ['06', 't', 'fb 7ff8000000000000'],
    ['07', 'ut', 'f9 7e00'],
    ['22', 'bt', 'f9 7c00'],
    ['24', 'bv', 'fa 7f800000'],
    ['25', 'bs', 'fb fff0000000000000'],
  ])('NaN and the infinities are refused: %s %s %s', (key, label, item) => {
    expect(faultOf(`81 a2 00 61 'a' ${key} ${item}`)).toEqual({
      rule: 'number-finite',
      message: `record 0: ${label} is not a number, or beyond the range of a double`,
      record: 0,
    })
  })
})

describe('decimal fractions', () => {
  test.each([
    ['c4 82 21 19 6ab3', 273.15],
    ['c4 82 20 18 eb', 23.5],
    ['c4 82 20 38 ea', -23.5],
    ['c4 82 00 01', 1],
    ['c4 82 02 05', 500],
    ['c4 82 36 01', 1e-23],
    ['c4 82 17 01', 1e23],
    ['c4 82 20 1b 001fffffffffffff', 900719925474099.1],
    ['c4 82 39 0143 05', 5e-324],
    ['c4 82 19 0134 01', 1e308],
    ['d8 04 82 20 18 eb', 23.5],
    ['db 0000000000000004 99 0002 38 00 18 eb', 23.5],
    ['c4 82 20 1b ffffffffffffffff', Number('1844674407370955161.5')],
    ['c4 82 20 3b ffffffffffffffff', Number('-1844674407370955161.6')],
  ])('%s is %d', (item, value) => {
    expect(valueOf(item)).toBe(value)
  })

  test('mantissa × 10 ^ exponent is rounded once, like the decimal', () => {
    fc.assert(
      fc.property(
        fc.bigInt(-(2n ** 64n), 2n ** 64n - 1n),
        fc.integer({ min: 0, max: 64 }),
        fc.integer({ min: -400, max: 400 }),
        (large, shift, exponent) => {
          const mantissa = large >> BigInt(shift)
          const item = `c4 82 ${integerItem(BigInt(exponent))} ${integerItem(mantissa)}`
          const value = Number(`${mantissa}e${exponent}`)
          if (Number.isFinite(value)) expect(valueOf(item)).toBe(value + 0)
          else expect(ruleOf(`81 a2 00 61 'a' 02 ${item}`)).toBe('number-finite')
        },
      ),
      { seed, numRuns: 2000 },
    )
  })

  test('the largest exponents are read immediately: beyond a double is refused, below it is zero', () => {
    for (const exponent of ['1a ffffffff', '1b ffffffffffffffff', '19 0135']) {
      expect(ruleOf(`81 a2 00 61 'a' 02 c4 82 ${exponent} 01`)).toBe('number-finite')
      expect(ruleOf(`81 a2 00 61 'a' 02 c4 82 ${exponent} 20`)).toBe('number-finite')
      expect(valueOf(`c4 82 ${exponent} 00`)).toBe(0)
    }
    for (const exponent of ['3a ffffffff', '3b ffffffffffffffff']) {
      expect(valueOf(`c4 82 ${exponent} 01`)).toBe(0)
      expect(valueOf(`c4 82 ${exponent} 1b ffffffffffffffff`)).toBe(0)
    }
  })

  test.each([
    'c4 01',
    'c4 80',
    'c4 81 00',
    'c4 83 00 00 00',
    'c4 a1 00 00',
    "c4 61 'x'",
    'c4 82 f9 0000 01',
    'c4 82 00 f9 3c00',
    "c4 82 00 61 '1'",
    'c4 82 80 00',
    'c4 c4 82 00 00',
    'c4 82 00 c4 82 00 00',
    'c4 f6',
    'c4 82 00 41 01',
  ])('%s is invalid, and is refused', item => {
    expect(ruleOf(`81 a2 00 61 'a' 02 ${item}`)).toBe('decimal-fraction')
    expect(['decimal-fraction', 'nesting-depth']).toContain(ruleOf(`81 a3 00 61 'a' 02 01 61 'x' ${item}`))
  })

  test('they are allowed wherever a number is', () => {
    expect(
      rowsOf("81 a7 22 c4 82 05 19 3e80 24 c4 82 20 0a 00 61 'a' 02 c4 82 20 05 05 c4 82 21 05 06 c4 82 20 05 07 c4 82 20 05"),
    ).toEqual([{ index: 0, name: 'a', timeUs: 1_600_000_000_500_000, value: 1.5, sum: 0.05, updateTime: 0.5 }])
  })
})

test('a number at the end of a payload is read the same', () => {
  for (const item of [
    'fb 3fb999999999999a',
    'fa 3f800000',
    'f9 3c00',
    '1b 0000000000000001',
    '1a 00000001',
    '19 0001',
    '18 01',
    '01',
    '20',
    '38 20',
  ]) {
    const pack = bytesOf(`81 a2 00 61 'a' 02 ${item}`)
    expect(rowsOf(pack)).toHaveLength(1)
    for (let cut = 1; cut < bytesOf(item).length; cut++) expect(ruleOf(pack.subarray(0, -cut))).toBe('cbor-cut')
  }
})
