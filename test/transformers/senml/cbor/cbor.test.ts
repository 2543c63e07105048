// Rules of SenML CBOR only: labels, their types, and the CBOR that a pack may contain (RFC 8428 §6, RFC 8949).

import { describe, expect, test } from 'vitest'
import { RecordBatch } from '../../../../transformers/record-batch.ts'
import { openSenmlCbor } from '../../../../transformers/senml/cbor/cbor.ts'
import { createdUs, envelope, origin, rowsIn } from '../rows.ts'
import { bytesOf, faultOf, rowsOf, ruleOf } from './cbor-rows.ts'

/** The row of the pack `[{n: 'a', v: 1}]`. */
const one = [{ index: 0, name: 'a', timeUs: createdUs, value: 1 }]

/** That pack with one more pair. */
function beside(pair: string): string {
  return `81 a3 00 61 'a' 02 01 ${pair}`
}

describe('labels', () => {
  test("every label has its integer, and its value the label's type (RFC 8428 §6)", () => {
    const pack = `84
      ac  21 62 'm:'  22 1a 5f5e1000  23 61 'A'  24 01  25 02  20 05  00 61 'a'  01 61 'V'  02 03  05 04  06 05  07 06
      a2  00 61 'b'  08 42 01ff
      a2  00 61 'c'  04 f5
      a3  00 61 'd'  03 62 'on'  06 09`
    expect(rowsOf(pack)).toEqual([
      { index: 1, name: 'm:b', unit: 'A', timeUs: 1_600_000_000_000_000, data: '01ff', sum: 2 },
      { index: 2, name: 'm:c', unit: 'A', timeUs: 1_600_000_000_000_000, boolean: true, sum: 2 },
      { index: 0, name: 'm:a', unit: 'V', timeUs: 1_600_000_005_000_000, value: 4, sum: 6, updateTime: 6 },
      { index: 3, name: 'm:d', unit: 'A', timeUs: 1_600_000_009_000_000, string: 'on', sum: 2 },
    ])
  })

  test('a label may be written longer than necessary', () => {
    expect(rowsOf("81 a2 18 00 61 'a' 1b 0000000000000002 01")).toEqual(one)
    expect(rowsOf("81 a2 38 01 61 'a' 19 0002 01")).toEqual(one)
  })

  test.each([
    ['-7', '26', -7],
    ['9', '09', 9],
    ['23', '17', 23],
    ['24', '18 18', 24],
    ['2^64 - 1', '1b ffffffffffffffff', 2 ** 64],
    ['-2^64', '3b ffffffffffffffff', -(2 ** 64)],
  ])('the integer label %s is unknown, and refused: the table is closed', (_, key, integer) => {
    expect(faultOf(beside(`${key} 00`))).toEqual({
      rule: 'label-unknown',
      message: `record 0: the integer label ${integer} is not a SenML label`,
      record: 0,
    })
  })

  test('an unknown text label is ignored, with any content to a depth of 4', () => {
    for (const value of ['00', 'f9 7e00', "61 'x'", '41 00', 'f6', 'f7', 'e0', 'f8 20', '82 81 01 80', 'a1 01 a1 02 03', 'c4 82 20 01'])
      expect(rowsOf(beside(`61 'x' ${value}`)), value).toEqual(one)
    for (const label of ['60', "61 'V'", "62 '_v'", "6b 'constructor'", '62 c3a4', "78 01 'x'"])
      expect(rowsOf(beside(`${label} 00`)), label).toEqual(one)
  })

  test('the text of a registered label counts as unknown', () => {
    expect(rowsOf(beside("61 'v' 02"))).toEqual(one)
    expect(rowsOf(beside("64 'bver' 61 'x'"))).toEqual(one)
    expect(faultOf("82 a2 00 61 'a' 02 01 a2 61 'n' 61 'a' 61 'v' 01")).toEqual({
      rule: 'record-labels',
      message: 'record 1: it has no SenML label',
      record: 1,
    })
  })

  test('an empty record has none of the labels', () => {
    expect(ruleOf('81 a0')).toBe('record-labels')
  })

  test.each(['foo_', '_', '__proto__', 'v_'])('the label %s ends in _ and refuses the pack (RFC 8428 §4.4)', label => {
    const head = (0x60 + label.length).toString(16)
    expect(faultOf(`82 a2 00 61 'a' 02 01 a3 00 61 'a' 02 01 ${head} '${label}' f6`)).toEqual({
      rule: 'must-understand',
      message: `record 1: the label "${label}" ends in _ and is unknown`,
      record: 1,
    })
  })

  test.each([
    ["41 'x'", 'a byte string'],
    ['80', 'an array'],
    ['a0', 'a map'],
    ['f5', 'a boolean'],
    ['f6', 'null'],
    ['fb 3ff0000000000000', 'a float'],
    ['c4 82 00 00', 'a decimal fraction'],
  ])('a label that is neither integer nor text is refused: %s', (key, kind) => {
    expect(faultOf(beside(`${key} 00`))).toEqual({
      rule: 'label-kind',
      message: `record 0: a label must be an integer or a text string, not ${kind}`,
      record: 0,
    })
  })

  test('a duplicate label is refused, in any form', () => {
    expect(faultOf(beside('02 01'))).toEqual({ rule: 'cbor-duplicate-key', message: 'record 0: v is given twice', record: 0 })
    expect(ruleOf(beside('18 02 01'))).toBe('cbor-duplicate-key')
    expect(ruleOf(beside("21 61 'm' 38 01 61 'm'").replace('a3', 'a4'))).toBe('cbor-duplicate-key')
    expect(faultOf(beside("61 'x' 01 61 'x' 02").replace('a3', 'a4')).message).toBe('record 0: the label "x" is given twice')
    expect(ruleOf(beside("61 'x' 01 78 01 'x' 02").replace('a3', 'a4'))).toBe('cbor-duplicate-key')
    expect(rowsOf("82 a3 00 61 'a' 02 01 61 'x' 01 a3 00 61 'a' 02 01 61 'x' 01"), 'but not in two records').toHaveLength(2)
  })
})

describe('types', () => {
  const wrongForText = ['01', '20', '41 00', '80', 'a0', 'f5', 'f6', 'f7', 'e0', 'f9 0000', 'c4 82 00 00']
  const wrongForNumber = ["61 '1'", '41 00', '80', 'a0', 'f5', 'f6', 'f7', 'e0', 'f8 20']
  const wrongForBoolean = ['00', '01', "61 'x'", '41 00', '80', 'a0', 'f6', 'f7', 'e0', 'f8 20', 'f9 0000', 'c4 82 00 00']

  test.each([
    ['bn', '21'],
    ['bu', '23'],
    ['n', '00'],
    ['u', '01'],
    ['vs', '03'],
  ])('%s must be a text string', (label, key) => {
    for (const value of wrongForText) {
      const fault = faultOf(`81 a1 ${key} ${value}`)
      expect(fault.rule).toBe('label-type')
      expect(fault.message).toContain(`record 0: ${label} must be a text string, not `)
    }
  })

  test.each([
    ['bt', '22'],
    ['bv', '24'],
    ['bs', '25'],
    ['v', '02'],
    ['s', '05'],
    ['t', '06'],
    ['ut', '07'],
  ])('%s must be a number', (label, key) => {
    for (const value of wrongForNumber) {
      const fault = faultOf(`81 a1 ${key} ${value}`)
      expect(fault.rule).toBe('label-type')
      expect(fault.message).toContain(`record 0: ${label} must be a number, not `)
    }
  })

  test('vb must be a boolean', () => {
    for (const value of wrongForBoolean) expect(ruleOf(`81 a2 00 61 'a' 04 ${value}`)).toBe('label-type')
    expect(faultOf("81 a2 00 61 'a' 04 01").message).toBe('record 0: vb must be a boolean, not an integer')
    expect(rowsOf("82 a2 00 61 'a' 04 f4 a2 00 61 'b' 04 f5").map(row => row.boolean)).toEqual([false, true])
  })

  test('vd must be a byte string, and is copied out of the payload', () => {
    for (const value of ["61 'x'", ...wrongForText.filter(each => each !== '41 00')])
      expect(ruleOf(`81 a2 00 61 'a' 08 ${value}`)).toBe('label-type')
    expect(rowsOf("83 a2 00 61 'a' 08 40 a2 00 61 'b' 08 58 02 0001 a2 00 61 'c' 08 41 ff").map(row => row.data)).toEqual([
      '',
      '0001',
      'ff',
    ])
  })

  test("the next payload does not change a batch's values of the previous one", () => {
    const batch = new RecordBatch()
    for (const payload of ["81 a2 00 61 'a' 08 44 01020304", "81 a2 00 61 'b' 08 44 05060708", "81 a2 00 61 'c' 03 64 'text'"]) {
      batch.beginMessage(origin)
      openSenmlCbor().decode(bytesOf(payload), envelope, batch)
    }
    expect(rowsIn(batch).map(row => row.data ?? row.string)).toEqual(['01020304', '05060708', 'text'])
  })

  test('bver must be an unsigned integer: 10.0 is refused', () => {
    expect(rowsOf("81 a3 20 0a 00 61 'a' 02 01")).toEqual(one)
    expect(rowsOf("81 a3 20 18 05 00 61 'a' 02 01")).toEqual(one)
    for (const value of ['f9 4900', 'fa 41200000', 'fb 4024000000000000', '29', 'c4 82 00 0a', "61 'x'", 'f6', '80'])
      expect(ruleOf(`81 a3 20 ${value} 00 61 'a' 02 01`), value).toBe('version-integer')
    expect(faultOf("81 a3 20 29 00 61 'a' 02 01").message).toBe('record 0: bver must be an unsigned integer, not negative')
    expect(ruleOf("81 a3 20 00 00 61 'a' 02 01")).toBe('version-integer')
    expect(ruleOf("81 a3 20 0b 00 61 'a' 02 01")).toBe('version-unknown')
    expect(ruleOf("81 a3 20 1b ffffffffffffffff 00 61 'a' 02 01")).toBe('version-unknown')
  })
})

describe('text', () => {
  test.each([
    ['a stray continuation byte', '61 80'],
    ['an overlong encoding', '62 c0af'],
    ['an overlong encoding of three bytes', '63 e080af'],
    ['an overlong encoding of four bytes', '64 f08080af'],
    ['an encoded surrogate', '63 eda080'],
    ['a character beyond the last', '64 f4908080'],
    ['a byte that never occurs', '64 f5808080'],
    ['a cut sequence', '62 e282'],
    ['Latin-1', '61 b0'],
  ])('%s is not UTF-8, and is refused everywhere', (_, text) => {
    for (const pack of [
      `81 a3 00 61 'a' 01 ${text} 02 01`,
      `81 a2 00 61 'a' 03 ${text}`,
      beside(`61 'x' ${text}`),
      beside(`61 'x' a1 ${text} 00`),
      beside(`${text} 00`),
    ]) {
      expect(faultOf(pack)).toEqual({ rule: 'utf-8', message: 'record 0: a text string is not UTF-8', record: 0 })
    }
  })

  test('text of every length and with every kind of character is read unchanged, also twice', () => {
    for (const piece of ['a', 'ä', '€', '😀', '\u0800', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}', '\ufeff']) {
      for (const count of [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 63, 64, 65, 255, 256, 70_000]) {
        const text = `${'x'.repeat(count - 1)}${piece}`
        const bytes = Buffer.from(text)
        const head =
          bytes.length < 24
            ? [0x60 + bytes.length]
            : bytes.length < 256
              ? [0x78, bytes.length]
              : [0x7a, 0, bytes.length >> 16, (bytes.length >> 8) & 0xff, bytes.length & 0xff]
        const pack = Uint8Array.from([0x81, 0xa2, 0x00, 0x61, 0x61, 0x03, ...head, ...bytes])
        expect(rowsOf(pack)[0]?.string).toBe(text)
        expect(rowsOf(pack)[0]?.string).toBe(text)
      }
    }
  })

  test('texts of the same length that differ in one byte are distinguished, at every place', () => {
    const texts = Array.from({ length: 64 }, (_, at) => `${'n'.repeat(at)}m${'n'.repeat(63 - at)}`).flatMap(text =>
      Array.from({ length: 64 }, (_, length) => text.slice(0, length + 1)),
    )
    const pack = (text: string): Uint8Array =>
      Buffer.concat([Buffer.from([0x81, 0xa2, 0x02, 0x01, 0x00, 0x78, text.length]), Buffer.from(text)])
    for (let round = 0; round < 2; round++) for (const text of texts) expect(rowsOf(pack(text))[0]?.name).toBe(text)
  })

  test('more texts than the cache holds are distinguished, also if they differ in one word only', () => {
    const names = Array.from({ length: 10_000 }, (_, at) => at.toString(36).padStart(4, '0'))
    for (const texts of [
      names.map(name => `${name}tail`),
      names.map(name => `${name}long-tail`),
      names.map(name => `head-of-${name}-tail`),
    ]) {
      const records = texts.map(text => Buffer.concat([Buffer.from([0xa2, 0x02, 0x01, 0x00, 0x60 + text.length]), Buffer.from(text)]))
      const pack = Buffer.concat([bytesOf(`99 ${texts.length.toString(16).padStart(4, '0')}`), ...records])
      expect(rowsOf(pack).map(row => row.name)).toEqual(texts)
      expect(rowsOf(pack).map(row => row.name)).toEqual(texts)
    }
  })

  test('a truncated sequence is not completed by what follows the text', () => {
    expect(ruleOf("82 a2 00 61 'a' 03 61 c3 a2 00 61 'b' 02 01")).toBe('utf-8')
    expect(ruleOf("82 a3 00 61 'a' 02 01 61 'x' 61 c3 a2 00 61 'b' 02 01")).toBe('utf-8')
  })

  test('a payload of any size ends at its end', () => {
    for (let filling = 300_000; filling < 300_040; filling++) {
      const head = bytesOf(`82 a2 00 61 'a' 03 7a ${filling.toString(16).padStart(8, '0')}`)
      const whole = Buffer.concat([head, Buffer.alloc(filling, 'x'), bytesOf("a2 02 01 00 6b 'name-at-end'")])
      expect(rowsOf(whole).map(row => row.name)).toEqual(['a', 'name-at-end'])
      for (const cut of [1, 5, 10, 11, 12, 13]) expect(ruleOf(whole.subarray(0, -cut))).toBe('cbor-cut')
    }
  })

  test('a NUL in text is refused as in JSON', () => {
    expect(faultOf("81 a2 00 61 'a' 03 62 'x' 00")).toMatchObject({ rule: 'text-nul', message: 'record 0: vs contains a NUL' })
  })
})

describe('the pack', () => {
  test.each([
    ['00', 'an integer'],
    ["61 'x'", 'a text string'],
    ['40', 'a byte string'],
    ["a2 00 61 'a' 02 01", 'a map'],
    ['f6', 'null'],
    ['c4 82 00 00', 'a decimal fraction'],
  ])('a root that is not an array is refused: %s', (pack, kind) => {
    expect(faultOf(pack)).toEqual({
      rule: 'root-array',
      message: `the root must be an array of records, not ${kind}`,
      record: undefined,
    })
  })

  test('JSON that is declared as CBOR is reported', () => {
    const pack = Buffer.from('[{"n":"temperature","v":1}]')
    expect(() => rowsOf(pack)).toThrow(
      expect.objectContaining({ rule: 'root-array', hint: 'it looks like JSON: send it as application/senml+json' }),
    )
  })

  test('an empty pack is refused', () => {
    expect(ruleOf('80')).toBe('empty-pack')
    expect(ruleOf('98 00')).toBe('empty-pack')
  })

  test('an empty payload is refused', () => {
    expect(faultOf('')).toEqual({ rule: 'cbor-cut', message: 'the payload ends in the middle of an item', record: undefined })
  })

  test.each([
    ['00', 'an integer'],
    ['80', 'an array'],
    ["61 'x'", 'a text string'],
    ['f6', 'null'],
  ])('a record that is %s is refused', (record, kind) => {
    expect(faultOf(`82 a2 00 61 'a' 02 01 ${record}`)).toEqual({
      rule: 'record-object',
      message: `record 1: a record must be a map, not ${kind}`,
      record: 1,
    })
  })

  test('lengths may be written longer than necessary', () => {
    for (const head of ['98 01', '99 0001', '9a 00000001', '9b 0000000000000001']) expect(rowsOf(`${head} a2 00 61 'a' 02 01`)).toEqual(one)
    for (const head of ['b8 02', 'b9 0002', 'ba 00000002', 'bb 0000000000000002']) expect(rowsOf(`81 ${head} 00 61 'a' 02 01`)).toEqual(one)
    for (const head of ['78 01', '79 0001', '7a 00000001', '7b 0000000000000001']) expect(rowsOf(`81 a2 00 ${head} 'a' 02 01`)).toEqual(one)
  })

  test('a pack may contain more records than a short head can count, and a record more pairs', () => {
    expect(rowsOf(`98 1e ${"a2 00 61 'a' 02 01".repeat(30)}`)).toHaveLength(30)
    const labels = Array.from({ length: 300 }, (_, at) => `63 '${String(at).padStart(3, '0')}' f6`)
    expect(rowsOf(`81 b9 012e 00 61 'a' 02 01 ${labels.join(' ')}`)).toEqual(one)
    expect(ruleOf(`81 b9 012f 00 61 'a' 02 01 ${labels.join(' ')} 63 '123' 00`)).toBe('cbor-duplicate-key')
  })

  test('trailing bytes are refused', () => {
    expect(faultOf("81 a2 00 61 'a' 02 01 00")).toEqual({ rule: 'cbor-trailing', message: '1 byte follows the pack', record: undefined })
    expect(faultOf("81 a2 00 61 'a' 02 01 81 a2 00 61 'a' 02 01").message).toBe('7 bytes follow the pack')
    expect(ruleOf("81 a2 00 61 'a' 02 01 ff")).toBe('cbor-trailing')
  })

  test('one invalid record refuses the pack, with its index', () => {
    expect(faultOf("83 a2 00 61 'a' 02 01 a2 00 61 'b' 02 01 a3 00 61 'c' 02 01 03 60")).toEqual({
      rule: 'one-value',
      message: 'record 2: both v and vs; a record has exactly one value',
      record: 2,
    })
  })

  test('time bounds can be configured', () => {
    const narrow = openSenmlCbor({ timeAheadMaxUs: 0 })
    expect(rowsOf("81 a3 00 61 'a' 02 01 06 00", narrow)).toEqual(one)
    expect(() => rowsOf("81 a3 00 61 'a' 02 01 06 01", narrow)).toThrow(expect.objectContaining({ rule: 'time-range' }))
  })
})

describe('order', () => {
  /** Records named a, b, c … with these times below 2^24, relative to the message. */
  const namesOf = (...seconds: number[]): string[] =>
    rowsOf(
      `8${seconds.length} ${seconds.map((second, at) => `a3 00 61 ${(0x61 + at).toString(16)} 02 01 06 ${(second < 0 ? 0x1f - second : second).toString(16).padStart(2, '0')}`).join(' ')}`,
    ).map(row => row.name)

  test.each([
    [
      [0, -3, -2, -1],
      ['b', 'c', 'd', 'a'],
    ],
    [
      [0, -3, 0, -1],
      ['b', 'd', 'a', 'c'],
    ],
    [
      [0, -2, 0, 1],
      ['b', 'a', 'c', 'd'],
    ],
    [
      [0, -1, -2, 0],
      ['c', 'b', 'a', 'd'],
    ],
    [
      [0, 1, -1, 0],
      ['c', 'a', 'd', 'b'],
    ],
    [
      [0, 0, 0],
      ['a', 'b', 'c'],
    ],
    [[5], ['a']],
  ])('rows of %j are in the order of time, those with the same time as received', (seconds, names) => {
    expect(namesOf(...seconds)).toEqual(names)
  })

  test('a first record without a row delays none, and a refused pack leaves none behind', () => {
    expect(rowsOf("83 a1 21 61 'm' a3 00 61 'b' 02 01 06 00 a3 00 61 'c' 02 01 06 20").map(row => row.name)).toEqual(['mc', 'mb'])
    expect(ruleOf("82 a2 00 61 'a' 02 01 a1 00 61 'b'")).toBe('no-value')
    expect(rowsOf("81 a2 00 61 'a' 02 01")).toEqual(one)
  })
})
