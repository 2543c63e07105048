// The canonical form of a JSON payload: the same bytes for the same content.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalPayload } from '../../../transformers/json/canonical.ts'

const cases: [what: string, text: string, canonical: string][] = [
  ['keys are sorted at every depth', '{"b":{"d":1,"c":[{"z":1,"y":2}]},"a":0}', '{"a":0,"b":{"c":[{"y":2,"z":1}],"d":1}}'],
  ['keys that look like an index are sorted as text', '{"9":1,"10":2,"a":3}', '{"10":2,"9":1,"a":3}'],
  ['keys are sorted by code unit, capitals first, then beyond ASCII', '{"ä":1,"a":2,"B":3,"_":4}', '{"B":3,"_":4,"a":2,"ä":1}'],
  ['a surrogate pair sorts before U+FF61, as its code units do', '{"\uff61":1,"😀":2}', '{"😀":2,"\uff61":1}'],
  [
    '__proto__ and constructor are plain keys',
    '{"constructor":1,"__proto__":{"b":1,"a":2}}',
    '{"__proto__":{"a":2,"b":1},"constructor":1}',
  ],
  ['__proto__ is one beside a long integer, too', '{"__proto__":{"b":9007199254740993}}', '{"__proto__":{"b":9007199254740993}}'],
  ['blanks go', ' { "a" : [ 1 , null , true , "x y" ] } ', '{"a":[1,null,true,"x y"]}'],
  ['numbers are printed as JavaScript prints them', '[1.50,1e2,1E400,-0,-0.0,1e21,0.0000001]', '[1.5,100,null,0,0,1e+21,1e-7]'],
  [
    'integers within int64 keep their digits',
    '[9007199254740993,-9223372036854775808,9223372036854775807]',
    '[9007199254740993,-9223372036854775808,9223372036854775807]',
  ],
  [
    'integers beyond int64 are doubles',
    '[9223372036854775808,-9223372036854775809,100000000000000000000000]',
    '[9223372036854776000,-9223372036854776000,1e+23]',
  ],
  ['a fraction is a double, however long', '[9007199254740993.0,0.12345678901234567890]', '[9007199254740992,0.12345678901234568]'],
  ['escapes are as JSON.stringify writes them', '{"a":"\\u0041\\/\\u001f\\ud83d\\ude00"}', '{"a":"A/\\u001f😀"}'],
  ['digits in texts are left alone', '{"a":"9007199254740993","9007199254740993":1}', '{"9007199254740993":1,"a":"9007199254740993"}'],
]

test.each(cases)('%s', (_what, text, canonical) => {
  expect(canonicalPayload(text)).toBe(canonical)
})

test('a key with an escape is never confused with an earlier one', () => {
  expect(canonicalPayload('{"first":1,"\\\\":2}')).toBe('{"\\\\":2,"first":1}')
  expect(canonicalPayload('{"first":1,"\\"":2}')).toBe('{"\\"":2,"first":1}')
  expect(canonicalPayload('{"first":1,"\\n": 2}')).toBe('{"\\n":2,"first":1}')
})

test('next to a key with an escape, numbers are the same as without it', () => {
  const numbers = '[1E400,-0,1.50,9007199254740993,9223372036854775808,1e21]'
  expect(canonicalPayload(`{"\\n":${numbers}}`)).toBe(`{"\\n":${canonicalPayload(numbers)}}`)
})

test("the order of a store's keys leaves no trace, and no content is lost", () => {
  const shuffled = fc
    .jsonValue({ maxDepth: 4, noUnicodeString: false })
    .chain(value => fc.tuple(fc.constant(value), fc.infiniteStream(fc.nat())))
  fc.assert(
    fc.property(shuffled, ([value, picks]) => {
      const canonical = canonicalPayload(JSON.stringify(value))
      expect(canonicalPayload(shuffle(JSON.parse(JSON.stringify(value)), picks))).toBe(canonical)
      expect(JSON.parse(canonical)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(canonicalPayload(canonical)).toBe(canonical)
    }),
  )
})

/** JSON text with the keys of every object in an order that `picks` decides. */
function shuffle(value: unknown, picks: Iterator<number>): string {
  if (Array.isArray(value)) return `[${value.map(element => shuffle(element, picks)).join(', ')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const keys = Object.keys(value)
  const members: string[] = []
  while (keys.length > 0) {
    const [key] = keys.splice((picks.next().value as number) % keys.length, 1)
    members.push(`${JSON.stringify(key)}: ${shuffle((value as Record<string, unknown>)[key!], picks)}`)
  }
  return `{${members.join(', ')}}`
}
