// The fuzzer knows every label.

import { expect, test } from 'vitest'
import { Label } from '../../transformers/senml/record.ts'
import { rightRecord } from './inputs/packs.ts'
import { openRandom } from './random.ts'

test('every label is in the packs of the fuzzer', () => {
  const random = openRandom(1, 'packs', 0)
  const found = new Set(Array.from({ length: 3000 }, (_, at) => rightRecord(random, at % 4).map(([label]) => label)).flat())
  expect(Object.keys(Label).filter(label => !found.has(label))).toEqual([])
})
