// The conversions between SenML JSON and SenML CBOR: a pack is converted unchanged, or refused.

import { Encoder } from 'cbor-x'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toCbor as toCborBytes, toJson as toJsonText } from '../../bin/senml-conversion.ts'
import { DecodeError } from '../../transformers/decode-error.ts'
import { resolvedVersionOfCbor, resolvedVersionOfJson } from '../../transformers/senml/resolved-version.ts'
import { bytesOf } from '../transformers/senml/cbor/cbor-rows.ts'

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
  test('a key with escapes is decoded, whatever keys came before it', () => {
    const plain = '[{"bn":"a","x":0,"v":1},{"x":0,"n":"b","v":2}]'
    for (const [x, v, n] of [
      ['x', '\\u0076', '\\u006e'],
      ['', '\\u0076', '\\u006e'],
    ]) {
      const escaped = toCbor(`[{"bn":"a","${x}":0,"${v}":1},{"${x}":0,"${n}":"b","v":2}]`)
      expect(toJson(escaped)).toBe(plain.replaceAll('"x"', `"${x}"`))
    }
  })

  test.each([5, 1000, 4000])('an unknown label that contains %i levels is refused', levels => {
    const deep = `${'['.repeat(levels)}${']'.repeat(levels)}`
    expect(faultOf(() => toCbor(`[{"n":"a","v":1,"x":${deep}}]`)).rule).toBe('nesting-depth')
  })

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

  test.each(['0', '23', '65536', '4294967296', '9007199254740991', '-1', '1e3', '1.5', '0.1', '1e300', '5e-324', '-2.5e-8'])(
    'the number %s is preserved',
    number => {
      expect(JSON.parse(toJson(toCbor(`[{"n":"a","v":${number}}]`)))).toEqual([{ n: 'a', v: Number(number) }])
    },
  )

  test('unknown labels are kept, with their content', () => {
    expect(toCbor('[{"n":"a","v":1,"x":{"y":[null,true,"ä"]},"0":false,"":[]}]')).toBe(
      hexOf("81 a5 61 '0' f4 00 61 'a' 02 01 61 'x' a1 61 'y' 83 f6 f5 62 c3a4 60 80"),
    )
    expect(toCbor('[{"n":"a","v":1,"x":{"__proto__":1}}]')).toBe(hexOf("81 a3 00 61 'a' 02 01 61 'x' a1 69 '__proto__' 01"))
  })

  test('a byte-order mark is dropped, and any time is accepted', () => {
    expect(Buffer.from(toCborBytes(Buffer.from('\ufeff[{"n":"a","v":1,"t":5e9}]'))).toString('hex')).toBe(
      hexOf("81 a3 00 61 'a' 02 01 06 fb 41f2a05f20000000"),
    )
  })

  test('a pack that breaks a rule of SenML is refused with that rule', () => {
    expect(faultOf(() => toCbor('{"n":"a","v":1}')).rule).toBe('root-array')
    expect(faultOf(() => toCbor('[{"n":"a","v":1,"x_":1}]')).rule).toBe('must-understand')
    expect(faultOf(() => toCbor('[{"n":"a","v":1},{"n":"a"}]'))).toEqual({
      rule: 'no-value',
      message: 'record 1: n but neither a value nor a sum',
    })
  })

  test('what CBOR cannot represent is refused', () => {
    const beside = (fields: string): string => `[{"n":"a","v":1},{"n":"a","v":1,${fields}}]`
    expect(faultOf(() => toCbor(beside('"x":"\\ud800"')))).toEqual({
      rule: 'other-format',
      message: 'half a surrogate pair under the label "x" cannot be expressed in the other wire format',
    })
    expect(faultOf(() => toCbor(beside('"\\ud800":1'))).rule).toBe('other-format')
    expect(faultOf(() => toCbor(beside('"x":{"\\ud800":1}'))).rule).toBe('other-format')
    expect(faultOf(() => toCbor('[{"bn":"\\ud800"}]')).rule).toBe('other-format')
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
    ['1b 001fffffffffffff', '9007199254740991'],
    ['1b 0020000000000001', '9007199254740992'],
    ['f9 3e00', '1.5'],
    ['fa 3dcccccd', '0.10000000149011612'],
    ['fb 3fb999999999999a', '0.1'],
    ['fb 7e37e43c8800759c', '1e+300'],
    ['c4 82 21 19 6ab3', '273.15'],
    ['c4 82 19 0134 01', '1e+308'],
  ])('the number %s is %s', (item, number) => {
    expect(toJson(`81 a2 00 61 'a' 02 ${item}`)).toBe(`[{"n":"a","v":${number}}]`)
  })

  test('an integer label in a longer form than it needs is the label', () => {
    expect(toJson("81 a2 1b 0000000000000000 61 'a' 1a 00000002 01")).toBe('[{"n":"a","v":1}]')
  })

  test('unknown labels are kept; values that JSON lacks become null, and bytes become base64url (RFC 8949 §6.1)', () => {
    expect(toJson("81 a3 00 61 'a' 02 01 61 'x' 87 f4 f5 f6 f7 f9 7e00 fa ff800000 42 ffef")).toBe(
      '[{"n":"a","v":1,"x":[false,true,null,null,null,null,"_-8"]}]',
    )
    expect(toJson("81 a4 00 61 'a' 02 01 61 'x' c4 82 20 0b 61 'y' c4 82 1b ffffffffffffffff 01")).toBe(
      '[{"n":"a","v":1,"x":1.1,"y":null}]',
    )
    expect(toJson("81 a4 00 61 'a' 02 01 60 a2 61 'y' 81 01 69 '__proto__' a0 61 'z' 3b ffffffffffffffff")).toBe(
      '[{"n":"a","v":1,"":{"y":[1],"__proto__":{}},"z":-18446744073709552000}]',
    )
  })

  test('a pack that breaks a rule of SenML is refused with that rule', () => {
    expect(faultOf(() => toJson('80')).rule).toBe('empty-pack')
    expect(faultOf(() => toJson("81 a2 00 61 'a' 02 01 00")).rule).toBe('cbor-trailing')
  })

  test('what JSON cannot represent is refused', () => {
    expect(faultOf(() => toJson("81 a3 00 61 'a' 02 01 61 'x' e0")).rule).toBe('other-format')
    expect(faultOf(() => toJson("82 a2 00 61 'a' 02 01 a3 00 61 'a' 02 01 61 'v' 02"))).toEqual({
      rule: 'other-format',
      message:
        'record 1: the label "v", which CBOR accepts as a SenML label only as an integer, cannot be expressed in the other wire format',
    })
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

  test('a pack in JSON is the same after CBOR, and cbor-x can read the CBOR', () => {
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
})

test('resolved records have the version of the pack, or 10 if only secondary units required a higher one', () => {
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
