// Flattening a document into the fields of a time-series point, and back, a test for each rule (SPEC §2, transformer rule 8).

import { describe, expect, test } from 'vitest'
import { DecodeError } from '../../transformers/decode-error.ts'
import { type Fields, type FieldValue, flatten } from '../../transformers/json/flatten.ts'
import { unflatten } from '../../transformers/json/unflatten.ts'
import type { JsonValue } from '../../transformers/record-batch.ts'

/** The fields of a document, in order. */
function fieldsOf(document: string | JsonValue): [string, FieldValue][] {
  const { keys, values } = flatten(typeof document === 'string' ? (JSON.parse(document) as JsonValue) : document)
  expect(values).toHaveLength(keys.length)
  return keys.map((key, at) => [key, values[at]!])
}

function fields(...pairs: [string, FieldValue][]): Fields {
  return { keys: pairs.map(([key]) => key), values: pairs.map(([, value]) => value) }
}

function faultOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (error instanceof DecodeError && error.hint !== '') return `${error.rule}: ${error.message}`
    throw error
  }
  return 'none'
}

/** `{"a":{"a":…}}` with that many objects. */
function nested(levels: number): JsonValue {
  let document: JsonValue = { a: 1 }
  for (let level = 1; level < levels; level++) document = { a: document }
  return document
}

describe('flattening', () => {
  test('nested keys are joined by /, in the order of the document', () => {
    expect(fieldsOf('{"d":{"tmp":1,"hmd":{"x":2}},"state":"on","open":false}')).toEqual([
      ['d/tmp', 1],
      ['d/hmd/x', 2],
      ['state', 'on'],
      ['open', false],
    ])
  })

  test('0, false and "" are values', () => {
    expect(fieldsOf('{"a":0,"b":false,"c":""}')).toEqual([
      ['a', 0],
      ['b', false],
      ['c', ''],
    ])
  })

  test('null is skipped, and so is an object that is empty or has only skipped content', () => {
    expect(fieldsOf('{"a":null,"b":{},"c":{"d":{},"e":null},"f":1}')).toEqual([['f', 1]])
  })

  test('a document without fields gives none', () => {
    expect(fieldsOf('{}')).toEqual([])
    expect(fieldsOf('{"a":{"b":null}}')).toEqual([])
  })

  test('an array is a leaf: its JSON text, whose content is not checked', () => {
    expect(fieldsOf('{"a":[],"d":{"b":[1.50,null,{"x/y":[{"":"\\n"}]}]}}')).toEqual([
      ['a', '[]'],
      ['d/b', '[1.5,null,{"x/y":[{"":"\\n"}]}]'],
    ])
  })

  test('an integer beyond 2^53 becomes the nearest double, and in an array keeps its digits', () => {
    expect(fieldsOf({ id: 8659456789564231564n, low: -9007199254740993n, list: [8659456789564231564n, { n: -1n }] })).toEqual([
      ['id', 8_659_456_789_564_231_680],
      ['low', -9007199254740992],
      ['list', '[8659456789564231564,{"n":-1}]'],
    ])
  })

  test('an integer beyond a double is refused', () => {
    expect(faultOf(() => fieldsOf({ d: { a: 10n ** 400n } }))).toBe('flatten-number: the number at "d/a" is beyond the range of a double')
  })

  test('__proto__, constructor and prototype are keys like any other', () => {
    expect(fieldsOf('{"__proto__":{"constructor":1},"prototype":"x"}')).toEqual([
      ['__proto__/constructor', 1],
      ['prototype', 'x'],
    ])
    expect(fieldsOf(Object.assign(Object.create(null), { a: 1 }) as JsonValue)).toEqual([['a', 1]])
  })

  test.each([
    ['{"a/b":1}', 'the key "a/b" contains /'],
    ['{"/":1}', 'the key "/" contains /'],
    ['{"":1}', 'a key is empty'],
    ['{"d":{"e":{"a/b":1}}}', 'the key "a/b" in "d/e" contains /'],
    ['{"d":{"":null}}', 'a key in "d" is empty'],
    ['{"d":{"a/":{}}}', 'the key "a/" in "d" contains /'],
    ['{"channel":1}', 'the key "channel" is the name of a tag'],
    ['{"publisher":null}', 'the key "publisher" is the name of a tag'],
    ['{"subtopic":{}}', 'the key "subtopic" is the name of a tag'],
  ])('%s is refused with any value, because it could not be read back', (document, message) => {
    expect(faultOf(() => fieldsOf(document))).toBe(`flatten-key: ${message}`)
  })

  test('protocol is an ordinary key, and so are the names of tags below the top level', () => {
    expect(fieldsOf('{"protocol":"x","d":{"channel":1,"publisher":2,"subtopic":3}}').map(([key]) => key)).toEqual([
      'protocol',
      'd/channel',
      'd/publisher',
      'd/subtopic',
    ])
  })

  test.each([
    ['[{"a":1}]', 'an array'],
    ['null', 'null'],
    ['"text"', 'a string'],
    ['1', 'a number'],
  ])('a root of %s is refused', (root, kind) => {
    expect(faultOf(() => fieldsOf(root))).toBe(`flatten-root: the document must be an object, not ${kind}`)
  })

  test('64 levels of objects are flattened, more are refused, and no depth overflows the stack', () => {
    expect(fieldsOf(nested(64))).toEqual([[Array(64).fill('a').join('/'), 1]])
    for (const levels of [65, 200_000]) expect(faultOf(() => fieldsOf(nested(levels)))).toMatch(/^flatten-depth: .* 64 levels of objects/)
    let list: JsonValue = []
    for (let level = 0; level < 200_000; level++) list = [list]
    expect(faultOf(() => fieldsOf({ d: { list } }))).toMatch(/^flatten-depth: the array at "d\/list" is nested too deeply/)
  })

  test('a long key above many others is refused before it is repeated for each of them', () => {
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`k${at}`, 1]))
    expect(fieldsOf({ ['p'.repeat(90)]: many })).toHaveLength(10_000)
    expect(faultOf(() => fieldsOf({ ['p'.repeat(100_000)]: many }))).toMatch(/^flatten-size: .* more than 1048576 characters in total$/)
  })
})

describe('unflattening', () => {
  test('returns the nested object, whatever the order of the fields', () => {
    const document = { d: { tmp: 1, hmd: { x: 2 } }, state: 'on', open: false }
    expect(unflatten(flatten(document))).toEqual(document)
    expect(unflatten(fields(['state', 'on'], ['d/hmd/x', 2], ['open', false], ['d/tmp', 1]))).toEqual(document)
  })

  test('an array comes back as its text', () => {
    expect(unflatten(flatten({ a: [1, 2] }))).toEqual({ a: '[1,2]' })
  })

  test('no fields give an empty object', () => {
    expect(unflatten(fields())).toEqual({})
  })

  test("__proto__ and constructor are keys like any other, and no object inherits from a device's data", () => {
    const document = unflatten(fields(['__proto__/polluted', true], ['constructor/prototype/polluted', true], ['toString', 1]))
    expect(JSON.stringify(document)).toBe('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":1}')
    expect(Object.getPrototypeOf(document)).toBe(Object.prototype)
    expect('polluted' in {}).toBe(false)
  })

  test.each([[['a', 'a/b']], [['a/b', 'a']], [['d/a/b/c', 'd/a']], [['d/a', 'd/a/b/c']]])(
    'a key with a value and with keys below it is refused: %s',
    keys => {
      const shorter = keys.reduce((left, right) => (left.length < right.length ? left : right))
      expect(faultOf(() => unflatten(fields(...keys.map((key): [string, number] => [key, 1]))))).toBe(
        `unflatten-conflict: the key "${shorter}" is both a value and the parent of other keys`,
      )
    },
  )

  test('a duplicate key is refused', () => {
    expect(faultOf(() => unflatten(fields(['d/a', 1], ['d/a', 1])))).toBe('unflatten-conflict: the key "d/a" appears twice')
  })

  test.each([
    ['', 'a key is empty'],
    ['/', 'the key "/" has an empty part'],
    ['/position', 'the key "/position" has an empty part'],
    ['a/', 'the key "a/" has an empty part'],
    ['a//b', 'the key "a//b" has an empty part'],
  ])('the key %j is refused, because flattening never creates it', (key, message) => {
    expect(faultOf(() => unflatten(fields([key, 1])))).toBe(`unflatten-key: ${message}`)
  })

  test('a key of 64 parts is split, and a longer one refused', () => {
    const key = (parts: number): string => Array(parts).fill('a').join('/')
    expect(unflatten(fields([key(64), 1]))).toEqual(nested(64))
    for (const parts of [65, 200_000]) expect(faultOf(() => unflatten(fields([key(parts), 1])))).toMatch(/^unflatten-depth: .*64 parts$/)
  })
})
