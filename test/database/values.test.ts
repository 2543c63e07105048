// The text forms of values that the conformance suite does not cover.

import { array, assert, property, string } from 'fast-check'
import { expect, test } from 'vitest'
import { encodeValue, parserOf } from '../../database/values.ts'

const textArray = parserOf(1009)

test('any array of texts is parsed from its literal', () => {
  assert(
    property(array(string({ unit: 'binary' })), texts => {
      expect(textArray(encodeValue(texts) ?? '')).toEqual(texts)
    }),
  )
})

test('an array literal as PostgreSQL prints it is parsed, with and without quotes and with its bounds', () => {
  expect(textArray('{a,"b c","d\\"e",""}')).toEqual(['a', 'b c', 'd"e', ''])
  expect(textArray('[2:3]={x,y}')).toEqual(['x', 'y'])
  expect(textArray('{}')).toEqual([])
})

test.each(['{1,NULL}', '{{1},{2}}'])('the array %s is an error, because it has no form in the interface', literal => {
  expect(() => textArray(literal)).toThrow(/cannot be read: unnest it/)
})

test('a type without a form comes as text', () => {
  expect(parserOf(3802)('{"a": 1}')).toBe('{"a": 1}')
})
