// Texts in line protocol: what is written is taken apart again. Whether the server reads it so too is the matter of texts.slow.test.ts.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { fieldKeyText, keyOfLine, stringText, tagText } from '../../../sinks/influxdb/line-protocol.ts'

const text = fc.string({
  unit: fc.constantFrom('\\', ',', '=', ' ', '"', 'a', '\t', 'ü', '😀', '\n', '\r', '\0', '\ud800'),
  minLength: 1,
  maxLength: 8,
})

test('a line gives back its measurement, tags and time', () => {
  fc.assert(
    fc.property(text, text, text, fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n }), (one, other, value, ns) => {
      const [first, second, field] = [tagText(one), tagText(other), stringText(value)]
      fc.pre(first !== undefined && second !== undefined && field !== undefined)
      expect(keyOfLine(`engine,/nth=1,channel=${first},unit=${second} v=${field} ${ns}`)).toEqual({
        measurement: 'engine',
        tags: new Map([
          ['/nth', '1'],
          ['channel', one],
          ['unit', other],
        ]),
        ns,
      })
    }),
  )
})

test('what is not harmful is written as it is', () => {
  expect([tagText('floor.3/room-1:a'), fieldKeyText('d/tmp'), stringText('a, b = c')]).toEqual(['floor.3/room-1:a', 'd/tmp', '"a, b = c"'])
})

test('what could not be given back is not written', () => {
  expect(['a\\', 'a\n', 'a\r', 'a\0', '\ud83d'].map(tagText)).toEqual(Array.from({ length: 5 }, () => undefined))
  expect(['a\\', 'a\\ b', 'a\\,', 'a\\=', 'a\n', '\ude00'].map(fieldKeyText)).toEqual(Array.from({ length: 6 }, () => undefined))
  expect(['a\0', '\ud83d', 'x'.repeat(1_048_577)].map(stringText)).toEqual(Array.from({ length: 3 }, () => undefined))
})
