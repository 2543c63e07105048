// The conversions between SenML JSON and SenML CBOR: a pack is carried over as it is, or refused.

import { Encoder } from 'cbor-x'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { openCborOutput } from '../../../transformers/senml/cbor-output.ts'
import { resolvedVersionOfCbor, resolvedVersionOfJson } from '../../../transformers/senml/resolved-version.ts'
import { toCbor as toCborBytes } from '../../../transformers/senml/write-cbor.ts'
import { toJson as toJsonText } from '../../../transformers/senml/write-json.ts'
import { bytesOf } from './cbor-rows.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const generic = new Encoder({ useRecords: false, mapsAsObjects: false, tagUint8Array: false })

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

function toCbor(pack: string): string {
  return Buffer.from(toCborBytes(utf8(pack))).toString('hex')
}

function toJson(hex: string): string {
  return toJsonText(bytesOf(hex))
}

function hexOf(hex: string): string {
  return Buffer.from(bytesOf(hex)).toString('hex')
}

function faultOf(convert: () => unknown): { rule: string; message: string } {
  try {
    convert()
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    expect(error.hint).not.toBe('')
    return { rule: error.rule, message: error.message }
  }
  throw new Error('not refused')
}

describe('JSON to CBOR', () => {
  test('labels become integers, vd becomes bytes, and base fields and the order of labels are kept', () => {
    const pack =
      '[{"bn":"m:","bt":1600000000,"bu":"A","bv":1,"bs":2,"bver":5,"n":"a","u":"V","v":3,"s":4,"t":5,"ut":6},{"vb":true,"n":"b"},{"n":"c","vs":"x"},{"n":"d","vd":"_-8"}]'
    expect(toCbor(pack)).toBe(
      hexOf(`84
        ac 21 62 'm:' 22 1a 5f5e1000 23 61 'A' 24 01 25 02 20 05 00 61 'a' 01 61 'V' 02 03 05 04 06 05 07 06
        a2 04 f5 00 61 'b'
        a2 00 61 'c' 03 61 'x'
        a2 00 61 'd' 08 42 ffef`),
    )
  })

  test.each([
    ['0', '00'],
    ['23', '17'],
    ['24', '18 18'],
    ['255', '18 ff'],
    ['256', '19 0100'],
    ['65536', '1a 00010000'],
    ['4294967296', '1b 0000000100000000'],
    ['9007199254740991', '1b 001fffffffffffff'],
    ['9007199254740993', '1b 0020000000000001'],
    ['18446744073709551615', '1b ffffffffffffffff'],
    ['-1', '20'],
    ['-25', '38 18'],
    ['-18446744073709551616', '3b ffffffffffffffff'],
    ['18446744073709551616', 'fa 5f800000'],
    ['1e3', '19 03e8'],
    ['1.0', '01'],
    ['-0', 'f9 8000'],
    ['1.5', 'f9 3e00'],
    ['65504.5', 'fa 477fe080'],
    ['5.960464477539063e-8', 'f9 0001'],
    ['0.1', 'fb 3fb999999999999a'],
    ['1e300', 'fb 7e37e43c8800759c'],
    ['1.401298464324817e-45', 'fa 00000001'],
    ['9007199254740994.0', 'fb 4340000000000001'],
  ])('the number %s takes the shortest form that keeps it (RFC 8949 §4.1)', (number, item) => {
    expect(toCbor(`[{"n":"a","v":${number}}]`)).toBe(hexOf(`81 a2 00 61 'a' 02 ${item}`))
  })

  test('unknown labels are kept, with what they hold', () => {
    expect(toCbor('[{"n":"a","v":1,"x":{"y":[null,true,"ä"]},"0":false,"":[]}]')).toBe(
      hexOf("81 a5 61 '0' f4 00 61 'a' 02 01 61 'x' a1 61 'y' 83 f6 f5 62 c3a4 60 80"),
    )
    expect(toCbor('[{"n":"a","v":1,"x":{"__proto__":12345678901234567890}}]')).toBe(
      hexOf("81 a3 00 61 'a' 02 01 61 'x' a1 69 '__proto__' 1b ab54a98ceb1f0ad2"),
    )
  })

  test('a byte-order mark is dropped, and a time may be any', () => {
    expect(Buffer.from(toCborBytes(Buffer.from('\ufeff[{"n":"a","v":1,"t":5e9}]'))).toString('hex')).toBe(
      hexOf("81 a3 00 61 'a' 02 01 06 1b 000000012a05f200"),
    )
  })

  test('a pack that breaks a rule of SenML is refused by that rule', () => {
    expect(faultOf(() => toCbor('{"n":"a","v":1}')).rule).toBe('root-array')
    expect(faultOf(() => toCbor('[{"n":"a","v":1,"x_":1}]')).rule).toBe('must-understand')
    expect(faultOf(() => toCbor('[{"n":"a","v":1},{"n":"a"}]'))).toEqual({
      rule: 'no-value',
      message: 'record 1: n but neither a value nor a sum',
    })
  })

  test('what CBOR cannot carry is refused', () => {
    const beside = (fields: string): string => `[{"n":"a","v":1},{"n":"a","v":1,${fields}}]`
    expect(faultOf(() => toCbor(beside('"x":"\\ud800"')))).toEqual({
      rule: 'other-format',
      message: 'record 1: half a surrogate pair under the label "x" cannot be said in the other wire format',
    })
    expect(faultOf(() => toCbor(beside('"\\ud800":1'))).rule).toBe('other-format')
    expect(faultOf(() => toCbor(beside('"x":{"\\ud800":1}'))).rule).toBe('other-format')
    expect(faultOf(() => toCbor(beside('"x":[1e999]'))).rule).toBe('other-format')
    expect(faultOf(() => toCbor('[{"bn":"\\ud800"}]')).rule).toBe('other-format')
    expect(faultOf(() => toCbor(beside('"x":[[[]]]'))).rule).toBe('nesting-depth')
    expect(faultOf(() => toCbor(beside(`"x":${'['.repeat(8000)}1234567890123456789${']'.repeat(8000)}`))).rule).toBe('nesting-depth')
    expect(toCbor(beside('"x":[{"y":1}]'))).toContain(hexOf("61 'x' 81 a1 61 'y' 01"))
  })
})

describe('CBOR to JSON', () => {
  test('integers become labels, vd becomes base64url, and base fields and the order of labels are kept', () => {
    expect(
      toJson(`84
        ac 21 62 'm:' 22 1a 5f5e1000 23 61 'A' 24 01 25 02 20 05 00 61 'a' 01 61 'V' 02 03 05 04 06 05 07 06
        a2 04 f5 00 61 'b'
        a2 00 61 'c' 03 64 '"' 0a c3a4
        a2 00 61 'd' 08 42 ffef`),
    ).toBe(
      '[{"bn":"m:","bt":1600000000,"bu":"A","bv":1,"bs":2,"bver":5,"n":"a","u":"V","v":3,"s":4,"t":5,"ut":6},{"vb":true,"n":"b"},{"n":"c","vs":"\\"\\nä"},{"n":"d","vd":"_-8"}]',
    )
  })

  test.each([
    ['18 00', '0'],
    ['1b 0020000000000001', '9007199254740993'],
    ['1b ffffffffffffffff', '18446744073709551615'],
    ['3b ffffffffffffffff', '-18446744073709551616'],
    ['f9 3e00', '1.5'],
    ['f9 8000', '-0'],
    ['fa 3dcccccd', '0.10000000149011612'],
    ['fb 3fb999999999999a', '0.1'],
    ['fb 7e37e43c8800759c', '1e+300'],
    ['c4 82 21 19 6ab3', '273.15'],
    ['c4 82 19 0134 01', '1e+308'],
  ])('the number %s is %s', (item, number) => {
    expect(toJson(`81 a2 00 61 'a' 02 ${item}`)).toBe(`[{"n":"a","v":${number}}]`)
  })

  test('unknown labels are kept; what JSON has no value for becomes null, and bytes become base64url (RFC 8949 §6.1)', () => {
    expect(toJson("81 a3 00 61 'a' 02 01 61 'x' 89 f4 f5 f6 f7 e0 f8 ff f9 7e00 fa ff800000 42 ffef")).toBe(
      '[{"n":"a","v":1,"x":[false,true,null,null,null,null,null,null,"_-8"]}]',
    )
    expect(toJson("81 a4 00 61 'a' 02 01 61 'x' c4 82 20 0b 61 'y' c4 82 1b ffffffffffffffff 01")).toBe(
      '[{"n":"a","v":1,"x":1.1,"y":null}]',
    )
    expect(toJson("81 a4 00 61 'a' 02 01 60 a2 61 'y' 81 01 69 '__proto__' a0 61 'z' 3b ffffffffffffffff")).toBe(
      '[{"n":"a","v":1,"":{"y":[1],"__proto__":{}},"z":-18446744073709551616}]',
    )
  })

  test('a pack that breaks a rule of SenML is refused by that rule', () => {
    expect(faultOf(() => toJson('80')).rule).toBe('empty-pack')
    expect(faultOf(() => toJson("81 a2 00 61 'a' 02 01 00")).rule).toBe('cbor-trailing')
  })

  test('what JSON cannot say is refused', () => {
    expect(faultOf(() => toJson("82 a2 00 61 'a' 02 01 a3 00 61 'a' 02 01 61 'v' 02"))).toEqual({
      rule: 'other-format',
      message: 'record 1: the label "v", which in CBOR is one of SenML only as an integer, cannot be said in the other wire format',
    })
    for (const map of ['a1 01 02', 'a1 41 00 02', 'a1 f5 02', 'a1 80 02']) {
      expect(faultOf(() => toJson(`81 a3 00 61 'a' 02 01 61 'x' ${map}`)).rule).toBe('other-format')
    }
  })
})

describe(`there and back (seed ${seed})`, () => {
  const value = fc.oneof(
    fc.double({ noDefaultInfinity: true, noNaN: true }).map(v => ({ v })),
    fc.integer().map(v => ({ v })),
    fc.string({ unit: 'grapheme' }).map(vs => ({ vs: vs.replaceAll('\0', '') })),
    fc.boolean().map(vb => ({ vb })),
    fc.uint8Array().map(bytes => ({ vd: Buffer.from(bytes).toString('base64url') })),
  )
  const fields = fc.record(
    {
      bn: fc.constantFrom('m:', 'urn:dev:1/'),
      bt: fc.constantFrom(1.6e9, 1600000000.001),
      n: fc.stringMatching(/^[a-z0-9]{1,30}$/),
      t: fc.double({ min: -100, max: 100, noNaN: true }).map(t => t + 0),
      x: fc.jsonValue({ maxDepth: 1 }),
    },
    { requiredKeys: ['n'] },
  )
  const pack = fc.array(
    fc.tuple(fields, value).map(([some, one]) => ({ ...some, ...one })),
    { minLength: 1, maxLength: 10 },
  )

  test('a pack in JSON is the same after CBOR, and cbor-x reads what was written', () => {
    fc.assert(
      fc.property(pack, records => {
        const text = JSON.stringify(records)
        const cbor = toCborBytes(utf8(text))
        expect(JSON.parse(toJsonText(cbor))).toEqual(JSON.parse(text))
        const read = generic.decode(cbor) as Map<number | string, unknown>[]
        expect(read.map(record => record.get(0))).toEqual(records.map(record => record.n))
        const [first] = read
        if ('v' in records[0]!) expect(Number(first!.get(2))).toBe(JSON.parse(text)[0].v)
      }),
      { seed, numRuns: 1000 },
    )
  })

  test('every number is written as what cbor-x reads as the same', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.double({ noNaN: true }),
          fc.integer(),
          fc.float({ noNaN: true }),
          fc.integer({ min: -70_000, max: 70_000 }).map(n => n / 8),
        ),
        number => {
          const output = openCborOutput()
          output.number(number)
          expect(Number(generic.decode(output.bytes()))).toBe(number)
        },
      ),
      { seed, numRuns: 3000 },
    )
  })

  test('every half is written as a half', () => {
    const view = new DataView(new ArrayBuffer(2))
    for (let bits = 0; bits < 0x10000; bits++) {
      if (((bits >> 10) & 0x1f) === 31) continue
      view.setUint16(0, bits)
      const half = generic.decode(Uint8Array.of(0xf9, bits >> 8, bits & 0xff)) as number
      const output = openCborOutput()
      output.number(half)
      const written = output.bytes()
      if (Number.isInteger(half) && !Object.is(half, -0)) expect(generic.decode(written)).toBe(half)
      else expect(Buffer.from(written).toString('hex')).toBe(Buffer.from([0xf9, bits >> 8, bits & 0xff]).toString('hex'))
    }
  })
})

test('the version of resolved records is that of the pack, and 10 where secondary units were all it was for', () => {
  for (const [bver, resolved] of [
    [undefined, 10],
    [10, 10],
    [5, 5],
    [26, 10],
  ] as const) {
    const pack = utf8(
      JSON.stringify([
        { x: [{ bver: 7 }], n: 'a', v: 1, bver },
        { n: 'b', v: 1 },
      ]),
    )
    expect(resolvedVersionOfJson(pack)).toBe(resolved)
    expect(resolvedVersionOfCbor(toCborBytes(pack))).toBe(resolved)
  }
})
