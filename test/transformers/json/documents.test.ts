// The rules for a payload of JSON documents, each by its name (SPEC §2, transformer rules 2 to 5).

import { describe, expect, test } from 'vitest'
import { openJsonDocuments } from '../../../transformers/json/documents.ts'
import { parseJson } from '../../../transformers/json/parse.ts'
import type { JsonObject } from '../../../transformers/record-batch.ts'
import { createdNs, createdUs, envelope, faultOf, outcomeOf, rowsOf, utf8 } from './rows.ts'

function payloadOf(text: string): JsonObject {
  return rowsOf(text)[0]!.payload
}

/** An object with that many levels of objects. */
function nested(levels: number): string {
  return `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`
}

function withKeys(count: number): string {
  return `{${Array.from({ length: count }, (_, at) => `"k${at}":0`).join(',')}}`
}

describe('the root', () => {
  test('an object is one document', () => {
    expect(rowsOf('{"temperature":21.5}')).toEqual([{ index: 0, format: 'room', createdNs, payload: { temperature: 21.5 } }])
  })

  test('an array is a document for each of its objects, in order', () => {
    expect(rowsOf('[{"a":1},{"a":2},{}]')).toEqual([
      { index: 0, format: 'room', createdNs, payload: { a: 1 } },
      { index: 1, format: 'room', createdNs, payload: { a: 2 } },
      { index: 2, format: 'room', createdNs, payload: {} },
    ])
  })

  test('an empty array gives none, an empty object one', () => {
    expect(rowsOf('[]')).toEqual([])
    expect(rowsOf('{}')).toHaveLength(1)
  })

  test.each([
    ['1', 'a number'],
    ['"text"', 'a string'],
    ['true', 'a boolean'],
    ['null', 'null'],
    ['12345678901234567890', 'a number'],
  ])('root-object: %s is refused', (payload, kind) => {
    expect(faultOf(payload)).toBe(`root-object: the root must be an object or an array of objects, not ${kind}`)
  })

  test.each([
    ['[1]', 0, 'a number'],
    ['[{},{},null,{}]', 2, 'null'],
    ['[{},[{}]]', 1, 'an array'],
    ['[{},"{}"]', 1, 'a string'],
  ])('element-object: %s is refused completely, with the index', (payload, index, kind) => {
    expect(faultOf(payload)).toBe(`element-object: record ${index}: an element of the array must be an object, not ${kind}`)
    expect(outcomeOf(utf8(payload), openJsonDocuments())).toMatchObject({ record: index })
  })
})

describe('the format', () => {
  test.each([
    ['room', 'room'],
    ['house.room', 'room'],
    ['a.b.c.Wetter-1', 'Wetter-1'],
    ['küche.温度', '温度'],
    ['messages.room', 'room'],
    ['room.Messages', 'Messages'],
  ])('for the subtopic %s it is the last part, %s', (subtopic, format) => {
    expect(rowsOf('{}', openJsonDocuments(), { ...envelope, subtopic })[0]!.format).toBe(format)
  })

  test('the default format is that of a message without a subtopic, and of no other', () => {
    const transformer = openJsonDocuments({ defaultFormat: 'events' })
    const formatOf = (subtopic: string) => rowsOf('{}', transformer, { ...envelope, subtopic })[0]!.format
    expect([formatOf(''), formatOf('room')]).toEqual(['events', 'room'])
    expect(faultOf('{}', transformer, { ...envelope, subtopic: 'room.' })).toMatch(/^format-empty/)
  })

  test.each(['', 'room.', '.', 'a..'])('format-empty: the subtopic %j is refused', subtopic => {
    expect(faultOf('{}', openJsonDocuments(), { ...envelope, subtopic })).toMatch(/^format-empty: the subtopic .*no format$/)
  })

  test.each(['messages', 'house.messages'])('reserved-format: the subtopic %s is refused', subtopic => {
    expect(faultOf('{}', openJsonDocuments(), { ...envelope, subtopic })).toBe(
      'reserved-format: the format "messages" is reserved for SenML records',
    )
  })

  test.each(['a\0b', 'room.\ud800'])('format-characters: the subtopic %j is refused', subtopic => {
    expect(faultOf('{}', openJsonDocuments(), { ...envelope, subtopic })).toMatch(/^format-characters: /)
  })
})

describe('the text', () => {
  test('a byte-order mark at the beginning is dropped', () => {
    expect(payloadOf('\ufeff{"a":1}')).toEqual({ a: 1 })
  })

  test('utf-8: bytes that are not UTF-8 are refused, also in UTF-16', () => {
    expect(faultOf(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d))).toBe('utf-8: the payload is not UTF-8')
    expect(faultOf(Uint8Array.from([0xff, 0xfe, ...Buffer.from('{"a":1}', 'utf16le')]))).toMatch(/^utf-8: /)
    expect(faultOf(Uint8Array.of(0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d)), 'a surrogate in UTF-8').toMatch(/^utf-8: /)
  })

  test.each([
    '',
    ' ',
    '{',
    '{"a":1}}',
    '{a:1}',
    '[{},]',
    "{'a':1}",
    '{"a":01}',
    '{"a":1.}',
    '{"a":NaN}',
    '{"a":"\\x"}',
    '{"a":"\n"}',
    '{} {}',
  ])('json-syntax: %j is refused', payload => {
    expect(faultOf(payload)).toMatch(/^json-syntax: the payload is not JSON: [\x20-\x7e]+$/)
  })

  test('json-syntax: the fault is described without the payload, and without control characters', () => {
    expect(faultOf('{"secret":\u0001}')).toBe("json-syntax: the payload is not JSON: Unexpected token '\\u0001'")
    expect(faultOf('{"secret":\u009b2J}')).toBe("json-syntax: the payload is not JSON: Unexpected token '\\u009b'")
  })

  test('text-nul: a NUL is refused in texts and in keys, at any depth', () => {
    expect(faultOf('{"a":"x\\u0000"}')).toBe('text-nul: record 0: a key or a text contains a NUL')
    expect(faultOf('[{},{"b":[{"\\u0000":1}]}]')).toBe('text-nul: record 1: a key or a text contains a NUL')
    expect(payloadOf('{"a":"\\\\u0000"}')).toEqual({ a: '\\u0000' })
  })

  test.each(['\\ud800', '\\udfff', '\\ud800x', '\\ud800\\u0041', '\\udc00\\ud800', '\\uD83D\\\\uDE00'])(
    'text-surrogate: half of a pair, %s, is refused in texts and in keys',
    text => {
      expect(faultOf(`{"a":"${text}"}`)).toBe('text-surrogate: record 0: a key or a text contains half of a surrogate pair')
      expect(faultOf(`[{},{"${text}":1}]`)).toBe('text-surrogate: record 1: a key or a text contains half of a surrogate pair')
    },
  )

  test('a pair of surrogates is a character like any other, escaped or not', () => {
    expect(payloadOf('{"a":"\\ud83d\\ude00\\uD83D\\uDE00😀\\u00e4\\n"}')).toEqual({ a: '😀😀😀ä\n' })
  })
})

describe('keys', () => {
  test('of a duplicate key the last one counts', () => {
    expect(payloadOf('{"a":1,"b":2,"a":3}')).toEqual({ a: 3, b: 2 })
    expect(payloadOf('{"a":12345678901234567890,"a":[1]}')).toEqual({ a: [1] })
  })

  test.each(['{"__proto__":{"x":1},"constructor":2,"prototype":3}', '{"__proto__":{"x":12345678901234567},"constructor":2,"prototype":3}'])(
    '__proto__, constructor and prototype are keys like any other: %s',
    text => {
      const payload = payloadOf(text)
      expect(Object.keys(payload)).toEqual(['__proto__', 'constructor', 'prototype'])
      expect(Object.getPrototypeOf(payload)).toBe(Object.prototype)
      expect(({} as { x?: unknown }).x).toBeUndefined()
    },
  )

  test('a key with an escape is never mistaken for an earlier one', () => {
    expect(payloadOf('{"escaped":1,"\\\\":2}')).toEqual({ escaped: 1, '\\': 2 })
    expect(payloadOf('{"escaped":1,"\\n":2}')).toEqual({ escaped: 1, '\n': 2 })
    expect(payloadOf('{"escaped":1,"\\"" :2}')).toEqual({ escaped: 1, '"': 2 })
    expect(payloadOf('{"deep":[{"within":1,"\\\\u0":2}]}')).toEqual({ deep: [{ within: 1, '\\u0': 2 }] })
    expect(payloadOf('{"deep":[{"within":1,"\\u0061bc":2}]}')).toEqual({ deep: [{ within: 1, abc: 2 }] })
    expect(payloadOf('{"\\u00fcber":{"\\u00e4":"\\u00e4"}}')).toEqual({ über: { ä: 'ä' } })
  })

  test('nesting is kept, and / is allowed', () => {
    expect(payloadOf('{"a/b":{"":[{"c":null}]}}')).toEqual({ 'a/b': { '': [{ c: null }] } })
  })
})

describe('numbers', () => {
  test('integers beyond 2^53 keep every digit, also deep inside, and beyond 64 bits', () => {
    expect(payloadOf('{"id":8659456789564231564,"a":[{"b":-9223372036854775808}],"c":9007199254740993}')).toEqual({
      id: 8659456789564231564n,
      a: [{ b: -9223372036854775808n }],
      c: 9007199254740993n,
    })
    expect(payloadOf('{"a":123456789012345678901234567890}')).toEqual({ a: 123456789012345678901234567890n })
  })

  test('integers up to 2^53, fractions and exponents are doubles', () => {
    expect(payloadOf('{"a":9007199254740991,"b":-9007199254740991,"c":9007199254740993.0,"d":0.1234567890123456789,"e":1e20}')).toEqual({
      a: 9007199254740991,
      b: -9007199254740991,
      c: 9007199254740992,
      d: 0.12345678901234568,
      e: 1e20,
    })
  })

  test('digits in texts and keys are not changed', () => {
    expect(payloadOf('{"9007199254740993":"9007199254740993","a":1}')).toEqual({ '9007199254740993': '9007199254740993', a: 1 })
  })

  test.each([
    '{"a":1e999}',
    '{"a":-1e999}',
    '{"a":[{"b":1E+309}]}',
    '{"a":1.8e308}',
    `{"a":1${'0'.repeat(309)}}`,
    `{"a":${'9'.repeat(250)}e99}`,
    `{"a":1${'0'.repeat(400)}.5}`,
  ])('number-finite: %s is refused', payload => {
    expect(faultOf(payload)).toBe('number-finite: record 0: it contains a number beyond the range of a double')
  })

  test.each(['1.7976931348623157e308', '1e-999', `0.${'0'.repeat(400)}1`, `1${'0'.repeat(308)}`, '1e00000010'])(
    'a number within a double is accepted: %s',
    number => {
      expect(Number(payloadOf(`{"a":${number}}`)['a'])).toBe(Number(number))
    },
  )

  test('the error contains the index of the record', () => {
    expect(faultOf('[{"a":[1,2]},{"a":"x,y"},{"a":1e999}]')).toMatch(/^number-finite: record 2: /)
    expect(faultOf('{"a":1,"b":[2,3],"c":1e999}')).toMatch(/^number-finite: record 0: /)
  })
})

describe('limits', () => {
  test('payload-size: 256 KiB are accepted by default, one byte more is refused', () => {
    const atMost = `{"a":"${'x'.repeat(262_144 - 8)}"}`
    expect(rowsOf(atMost)).toHaveLength(1)
    expect(faultOf(`${atMost} `)).toBe('payload-size: the payload has 262145 bytes, but only 262144 are allowed')
    expect(faultOf('{"a":1}', openJsonDocuments({ payloadBytesMax: 6 }))).toMatch(/^payload-size: /)
  })

  test('nesting-depth: 64 levels are accepted, one more is refused, also with an array at the root', () => {
    expect(rowsOf(nested(64))).toHaveLength(1)
    expect(faultOf(nested(65))).toBe('nesting-depth: record 0: it has more than 64 levels of objects and arrays')
    expect(rowsOf(`[${nested(63)}]`)).toHaveLength(1)
    expect(faultOf(`[{},${nested(64)}]`)).toMatch(/^nesting-depth: record 1: /)
    expect(faultOf(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`)).toMatch(/^nesting-depth: /)
    expect(faultOf(`{"id":12345678901234567,"a":${'['.repeat(64)}${']'.repeat(64)}}`)).toMatch(/^nesting-depth: /)
  })

  test('brackets and colons in texts do not count', () => {
    expect(rowsOf(`{"a":"${'{[:\\"'.repeat(20_000)}"}`)).toHaveLength(1)
  })

  test('key-count: 10,000 keys are accepted, one more is refused, however they are distributed', () => {
    expect(rowsOf(withKeys(10_000))).toHaveLength(1)
    expect(faultOf(withKeys(10_001))).toBe('key-count: the payload has more than 10000 keys')
    expect(rowsOf(`[${Array(10_000).fill('{"a":0}').join(',')}]`)).toHaveLength(10_000)
    expect(faultOf(`[${Array(10_001).fill('{"a":0}').join(',')}]`)).toMatch(/^key-count: /)
  })

  test('container-count: 8,192 objects and arrays and one for each 32 bytes are accepted, one more is refused', () => {
    const withArrays = (count: number, bytes: number): string =>
      `{"a":[${Array(count - 2)
        .fill('[]')
        .join(',')}]}`.padEnd(bytes)
    expect(rowsOf(withArrays(16_384, 2 ** 18))).toHaveLength(1)
    expect(faultOf(withArrays(16_385, 2 ** 18))).toBe(
      'container-count: the payload has more than 16384 objects and arrays, which is too many for its size',
    )
    expect(rowsOf(withArrays(9192, 32_000))).toHaveLength(1)
    expect(faultOf(withArrays(9193, 32_000))).toMatch(/^container-count: /)
  })

  test('any JSON value within the limits can be parsed, for tools', () => {
    expect([parseJson(utf8('12345678901234567890')), parseJson(utf8('[null]'))]).toEqual([12345678901234567890n, [null]])
    expect(() => parseJson(utf8(nested(65)))).toThrow('more than 64 levels')
  })
})

describe('the time of a message without time fields', () => {
  test('is the message’s, to the nanosecond', () => {
    expect(rowsOf('[{},{"t":5}]').map(row => row.createdNs)).toEqual([createdNs, createdNs])
  })

  test('time-range: it must be within the bounds, too', () => {
    expect(faultOf('{}', openJsonDocuments({ bounds: { timeMinUs: createdUs + 1 } }))).toBe(
      'time-range: record 0: its time, 1700000000 s since 1970, is before the earliest allowed, 1700000000.000001 s',
    )
  })
})
