// A request's body as JSON: each key is the one that was sent, and text that no store can keep is refused at any depth.

import { expect, test } from 'vitest'
import type { HttpError } from '../../../http/errors.ts'
import { parseJsonBody, parseJsonText } from '../../../http/requests/json-body.ts'

const parse = (text: string): unknown => parseJsonBody(Buffer.from(text))

function faultOf(text: string): HttpError {
  try {
    parse(text)
  } catch (error) {
    return error as HttpError
  }
  throw new Error('it was taken')
}

test('a key with an escape is never mistaken for an earlier one', () => {
  expect(parse('{"first":1,"\\\\":2}')).toEqual({ first: 1, '\\': 2 })
  expect(parse('{"first":1,"\\"":2}')).toEqual({ first: 1, '"': 2 })
  expect(parse('{"first":1,"\\n":2}')).toEqual({ first: 1, '\n': 2 })
  expect(parseJsonText('{"second":1,"\\\\":2}')).toEqual({ second: 1, '\\': 2 })
  expect(parseJsonText('{"second":1,"\\"":2}')).toEqual({ second: 1, '"': 2 })
  expect(parse('{"second":1,"\\"":2}')).toEqual({ second: 1, '"': 2 })
})

test('numbers are the same with a key with an escape in the body', () => {
  const numbers = '[9007199254740993,1e400,-0,0.1,123456789012345678901234567890]'
  expect(parse(`{"\\n":${numbers}}`)).toEqual({ '\n': JSON.parse(numbers) as number[] })
})

test('a key __proto__ and text that no store can keep are refused, also written with an escape', () => {
  expect(parse('{"third":1,"\\\\u005f_pr":2}')).toEqual({ third: 1, '\\u005f_pr': 2 })
  expect(faultOf('{"third":1,"\\u005f_proto__":2}').faults).toEqual([{ pointer: '/body/__proto__', detail: expect.any(String) as string }])
  expect(faultOf('{"fourth":1,"\\u0000":2}').faults).toEqual([{ pointer: '/body/\0', detail: expect.stringMatching(/NUL/) as string }])
  expect(faultOf('{"fourth":1,"\\ud800":2}').faults).toEqual([
    { pointer: '/body/\ufffd', detail: expect.stringMatching(/surrogate/) as string },
  ])
})

test('nesting of any depth beside a key with an escape is a fault, also if a later value replaces it', () => {
  const deep = `${'['.repeat(49_000)}${']'.repeat(49_000)}`
  expect(faultOf(`{"\\n":${deep}}`).faults[0]!.detail).toMatch(/nested deeper than 64/)
  expect(parse(`{"a":${deep},"\\n":1,"a":2}`)).toEqual({ a: 2, '\n': 1 })
})

const list = (item: string, count: number): string => Array.from({ length: count }, () => item).join()

test('more than 50,000 keys and values are refused before parsing; commas, colons and brackets in texts do not count', () => {
  const tooMany = `[${'{},'.repeat(25_000)}{}]`
  expect(faultOf(tooMany)).toMatchObject({
    code: 'too_large',
    detail: expect.stringMatching(/^the body has more than 50000 keys and values .*: split the request$/) as unknown,
  })
  expect(parse(`[${'{},'.repeat(24_000)}{}]`)).toHaveLength(24_001)
  expect(faultOf(`{${list('"\\n":0', 12_501)}}`)).toMatchObject({ code: 'too_large' })
  expect(parse(`[${list('"\\n\\n"', 12_500)}]`)).toHaveLength(12_500)
  const text = '[{,:\\"'.repeat(60_000)
  expect(parse(JSON.stringify([text]))).toEqual([text])
})

test('the place of a fault is that of the first one', () => {
  expect(faultOf('{"a":{"b":["x","\\ud800"]},"\\u0000":1}').faults[0]!.pointer).toBe('/body/a/b/1')
})
