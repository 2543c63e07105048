// A label that is written with an escape is read correctly after any earlier pack, although JSON.parse may mix it up.

import { expect, test } from 'vitest'
import { faultOf, rowsOf } from './rows.ts'

test('a label that must be understood is refused, also after a pack with a similar escaped label', () => {
  expect(rowsOf('[{"n":"a","v":1,"\\\\":2}]')).toHaveLength(1)
  expect(faultOf('[{"n":"a","v":1,"\\u005f":2}]')).toMatchObject({ rule: 'must-understand' })
})

test('a label of SenML counts, also after a pack with a similar escaped label', () => {
  expect(rowsOf('[{"v":1,"n":"a","\\\\":2}]')).toHaveLength(1)
  expect(rowsOf('[{"v":1,"n":"a","\\u0075":"Cel"}]')).toMatchObject([{ unit: 'Cel' }])
})

test('beside a label with an escape, a long integer is the same double as without one', () => {
  const [row] = rowsOf('[{"\\u006e":"a","v":9007199254740993}]')
  expect(row).toMatchObject({ name: 'a', value: 9007199254740992 })
})

test('a control character in invalid JSON is escaped in the message', () => {
  expect(faultOf('[\u001b[31m]').message).toBe("the payload is not JSON: Unexpected token '\\u001b'")
})
