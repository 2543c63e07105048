// Rules of SenML JSON only: text, JSON, labels and their types (RFC 8428 §5).

import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { createdUs, faultOf, outcomeOf, rowsOf } from './rows.ts'

function bytes(...parts: (string | number[])[]): Uint8Array {
  return Buffer.concat(parts.map(part => Buffer.from(part as string)))
}

function ruleOf(payload: Uint8Array): string {
  const outcome = outcomeOf(payload)
  return outcome instanceof DecodeError ? outcome.rule : 'none'
}

const one = [{ index: 0, name: 'a', timeUs: createdUs, value: 1 }]

describe('text', () => {
  test('a leading byte-order mark is dropped', () => {
    expect(outcomeOf(bytes([0xef, 0xbb, 0xbf], '[{"n":"a","v":1}]'))).toEqual(one)
    expect(ruleOf(bytes([0xef, 0xbb, 0xbf, 0xef, 0xbb, 0xbf], '[{"n":"a","v":1}]'))).toBe('json-syntax')
  })

  test.each([
    ['a stray continuation byte', [0x80]],
    ['an overlong encoding', [0xc0, 0xaf]],
    ['an encoded surrogate', [0xed, 0xa0, 0x80]],
    ['a cut sequence', [0xe2, 0x82]],
    ['Latin-1', [0xb0]],
  ])('%s is not UTF-8, and is refused everywhere', (_, fault) => {
    expect(ruleOf(bytes('[{"n":"a","u":"', fault, '","v":1}]'))).toBe('utf-8')
    expect(ruleOf(bytes('[{"n":"a","ignored":"', fault, '","v":1}]'))).toBe('utf-8')
    expect(ruleOf(bytes('[{"n":"a","v":1}]', fault))).toBe('utf-8')
  })

  test('UTF-16 is not SenML', () => {
    expect(ruleOf(Buffer.from('\ufeff[{"n":"a","v":1}]', 'utf16le'))).toBe('utf-8')
  })

  test('white space of JSON is allowed between all tokens', () => {
    expect(rowsOf(' \t\r\n[ { "n" : "a" , "v" : 1 } ] \n')).toEqual(one)
    expect(faultOf('[{"n":"a",\u00a0"v":1}]').rule).toBe('json-syntax')
  })

  test('an escape is decoded', () => {
    expect(rowsOf('[{"\\u006e":"\\u0061","v":1}]')).toEqual(one)
  })
})

describe('JSON', () => {
  test.each([
    '',
    ' ',
    '[',
    '[{"n":"a","v":1}',
    '[{"n":"a","v":1},]',
    '[{"n":"a","v":1,}]',
    '[{"n":"a","v":1}]x',
    '[{"n":"a","v":1}][]',
    '[{"n":"a" "v":1}]',
    '[{"n":"a","v":1}{"n":"a","v":1}]',
    "[{'n':'a','v':1}]",
    '[{n:"a","v":1}]',
    '[{"n":"a\n","v":1}]',
    '[{"n":"a\u0000","v":1}]',
    '[{"n":"a","v":tru}]',
    '[{"n":"a","vb":True}]',
    '[{"n":"a","v":NaN}]',
    '{"n":"a"',
  ])('%j is not JSON, and is refused', pack => {
    expect(faultOf(pack).rule).toBe('json-syntax')
  })

  test('the fault says what the parser found, without the payload around it', () => {
    expect(faultOf('[{"n":"secret","v":x}]').message).toBe("the payload is not JSON: Unexpected token 'x'")
  })

  test('a control character is shown as an escape, because a terminal would execute it', () => {
    expect(faultOf('[\u001b[2J]').message).toBe("the payload is not JSON: Unexpected token '\\u001b'")
    expect(faultOf('[\u009b]').message).toBe("the payload is not JSON: Unexpected token '\\u009b'")
  })

  test('a root that is not an array is refused, with advice for free-form JSON', () => {
    const outcome = outcomeOf(bytes('{"n":"a","v":1}'))
    expect(outcome).toMatchObject({
      rule: 'root-array',
      message: 'the root must be an array of records, not an object',
      hint: 'send an array; for free-form JSON use the json transformer',
    })
    for (const pack of ['1', '"a"', 'null', 'true']) expect(faultOf(pack).rule).toBe('root-array')
  })

  test('an empty pack is refused', () => {
    expect(faultOf('[]').rule).toBe('empty-pack')
    expect(faultOf(' [ ] ').rule).toBe('empty-pack')
  })

  test.each([
    ['null', 'null'],
    ['[]', 'an array'],
    ['1', 'a number'],
    ['"a"', 'a string'],
  ])('a record that is %s is refused', (record, kind) => {
    expect(faultOf(`[{"n":"a","v":1},${record}]`)).toEqual({
      rule: 'record-object',
      message: `record 1: a record must be an object, not ${kind}`,
      record: 1,
    })
  })

  test('256 KiB of nesting are refused or ignored, and do not overflow the stack', () => {
    const half = 128 * 1024
    expect(faultOf('['.repeat(2 * half)).rule).toBe('container-count')
    expect(faultOf('['.repeat(half) + ']'.repeat(half)).rule).toBe('container-count')
    expect(faultOf('[{"x":'.repeat(40_000)).rule).toBe('container-count')
    expect(faultOf('['.repeat(8000)).rule).toBe('json-syntax')
    expect(rowsOf(`[{"n":"a","v":1,"x":${'['.repeat(8000)}${']'.repeat(8000)}}]`)).toEqual(one)
    expect(rowsOf(`[{"n":"a","v":1,"x":${'{"x":'.repeat(4000)}1${'}'.repeat(4000)}}]`)).toEqual(one)
  })
})

describe('the size of a pack', () => {
  test('more rows than its size allows are refused, and a record with vd counts as three', () => {
    const packOf = (records: number, fields: string): string => `[{"bn":"a"},${Array(records).fill(`{${fields}}`).join(',')}]`
    expect(rowsOf(packOf(12_000, '"vb":true'))).toHaveLength(12_000)
    expect(faultOf(packOf(20_000, '"vb":true'))).toMatchObject({ rule: 'container-count' })
    expect(rowsOf(packOf(3000, '"vd":""'))).toHaveLength(3000)
    expect(faultOf(packOf(6000, '"vd":""'))).toMatchObject({ rule: 'record-count' })
  })

  test('unknown labels count', () => {
    const labels = (count: number): string => Array.from({ length: count }, (_, at) => `"x${at}":1`).join(',')
    expect(rowsOf(`[{"n":"a","v":1,${labels(4000)}}]`)).toEqual(one)
    expect(faultOf(`[{"n":"a","v":1,${labels(9000)}}]`)).toMatchObject({ rule: 'label-count' })
  })

  test("a long base name in many records is refused before the names exceed the payload's size", () => {
    const records = Array(5000).fill('{"v":1}').join(',')
    expect(faultOf(`[{"bn":"${'a'.repeat(300)}"},${records}]`)).toMatchObject({ rule: 'name-size' })
    expect(faultOf(`[{"bu":"${'a'.repeat(300)}","bn":"a"},${records}]`)).toMatchObject({ rule: 'name-size' })
    expect(rowsOf(`[{"bn":"${'a'.repeat(200)}"},${records}]`)).toHaveLength(5000)
    const few = Array(100).fill('{"v":1}').join(',')
    expect(faultOf(`[{"bn":"${'a'.repeat(128 * 1024)}"},${few}]`)).toMatchObject({ rule: 'name-size' })
  })

  test('the limits also apply to records with base fields only', () => {
    const record = (at: number): string => ((at & 127) === 126 ? '{"bt":0}' : '{"vd":""}')
    const many = Array.from({ length: 6000 }, (_, at) => record(at)).join(',')
    expect(faultOf(`[{"bn":"a"},${many},{"v":"1"}]`)).toMatchObject({ rule: 'record-count' })
  })
})

describe('labels', () => {
  test('an unknown label is ignored, with any content (RFC 8428 §4.4)', () => {
    expect(rowsOf('[{"n":"a","x":{"y":[null,"\\ud800\\u0000"]},"v":1,"":0,"constructor":1,"7":7,"V":2,"_v":3}]')).toEqual(one)
  })

  test.each(['foo_', '_', '__proto__', 'v_', 'bver_'])('the label %s ends in _ and refuses the pack (RFC 8428 §4.4)', label => {
    expect(faultOf(`[{"n":"a","v":1},{"n":"a","v":1,"${label}":null}]`)).toEqual({
      rule: 'must-understand',
      message: `record 1: the label "${label}" ends in _ and is unknown`,
      record: 1,
    })
    expect(faultOf(`[{"${label}":{"n":"a","v":1}}]`).rule).toBe('must-understand')
  })

  test('of a duplicate label the last one counts', () => {
    expect(rowsOf('[{"n":"b","v":"x","n":"a","v":1}]')).toEqual(one)
    expect(rowsOf('[{"bn":"b","n":"","v":2,"bn":"a","v":1}]')).toEqual(one)
    expect(faultOf('[{"n":"a","v":1,"v":null}]').rule).toBe('label-type')
  })

  test.each(['bn', 'n', 'bu', 'u', 'vs', 'vd'])('%s must be a string', label => {
    for (const value of ['1', 'true', 'null', '[]', '{}']) {
      const fault = faultOf(`[{"bn":"a","v":1,"${label}":${value}}]`)
      expect(fault.rule).toBe('label-type')
      expect(fault.message).toContain(`${label} must be a string`)
    }
  })

  test.each(['bt', 'bv', 'bs', 'bver', 'v', 's', 't', 'ut'])('%s must be a number', label => {
    for (const value of ['"1"', 'true', 'null', '[]', '{}']) {
      const fault = faultOf(`[{"bn":"a","v":1,"${label}":${value}}]`)
      expect(fault.rule).toBe('label-type')
      expect(fault.message).toContain(`${label} must be a number`)
    }
  })

  test('vb must be a boolean', () => {
    for (const value of ['1', '"true"', 'null', '[]', '{}']) expect(faultOf(`[{"n":"a","vb":${value}}]`).rule).toBe('label-type')
    expect(faultOf('[{"n":"a","vb":1}]').message).toBe('record 0: vb must be a boolean, not a number')
  })
})

describe('numbers', () => {
  test.each(['1e999', '-1e999', '1e309'])('%s is beyond a double, and is refused in every number label', number => {
    for (const label of ['bt', 'bv', 'bs', 'bver', 'v', 's', 't', 'ut']) {
      expect(faultOf(`[{"n":"a","v":1,"${label}":${number}}]`)).toMatchObject({ rule: 'number-finite', record: 0 })
    }
  })

  test.each([
    '0',
    '-1',
    '23.1',
    '120.10',
    '1e5',
    '1E+5',
    '1.5e-7',
    '0.1e1',
    '1.276020076001e+09',
    '22.299999999999997',
    '9007199254740991',
    '9007199254740993',
    '9007199254740993e1',
    '9007199254740991e1',
    '-9007199254740993e-1',
    '0.00000000000000000000001',
    '90071992547409930',
    '0.30000000000000004',
    '5e-324',
    '1.7976931348623157e308',
    '123456789012345678901234567890',
    '0.000000000000000000000000123',
    '8.41e21',
    '1e22',
    '1e23',
    '9007199254740991e22',
    '0e999',
    '-0.0000001',
    '4.35',
    '2.2250738585072011e-308',
  ])('%s is read as the nearest double', number => {
    expect(rowsOf(`[{"n":"a","v":${number}}]`)).toEqual([{ index: 0, name: 'a', timeUs: createdUs, value: Number(number) }])
  })

  test.each(['01', '1.', '.5', '+1', '-', '1e', '1e+', '0x10', '--1', '1_000', '-01', '1.e5'])(
    '%s is not a JSON number, and is refused',
    number => {
      expect(faultOf(`[{"n":"a","v":${number}}]`).rule).toBe('json-syntax')
    },
  )
})

describe('data', () => {
  test.each([
    ['', ''],
    ['AQ', '01'],
    ['aGkgCg', '6869200a'],
    ['_-8', 'ffef'],
    ['AR', '01'],
  ])('vd %j is base64url without padding (RFC 8428 §5)', (text, hex) => {
    expect(rowsOf(`[{"n":"a","vd":"${text}"}]`)).toEqual([{ index: 0, name: 'a', timeUs: createdUs, data: hex }])
  })

  test.each(['AQ==', 'AQ=', '+w', '/w', 'A', 'AAAAA', 'A Q', 'AQ\\n', 'ÄQ', 'AQ.'])('vd %j is refused', text => {
    expect(faultOf(`[{"n":"a","vd":"${text}"}]`)).toEqual({
      rule: 'data-base64url',
      message: 'record 0: vd is not base64url without padding',
      record: 0,
    })
  })

  test('long data is kept completely', () => {
    const data = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 251))
    expect(rowsOf(`[{"n":"a","vd":"${data.toString('base64url')}"}]`)[0]?.data).toBe(data.toString('hex'))
  })
})
