// What the server tells of a type conflict, and which lines hold the same again.

import { expect, test } from 'vitest'
import { conflictOf, mayHold } from '../../../sinks/influxdb/conflicts.ts'
import { ResponseError } from '../../../sinks/influxdb/errors.ts'
import { fieldKeyText } from '../../../sinks/influxdb/line-protocol.ts'

const answerOf = (reason: string): ResponseError => {
  const message = `failure writing points to database: partial write: ${reason} dropped=1`
  return new ResponseError('POST', 422, JSON.stringify({ code: 'unprocessable entity', message }))
}
const conflictIn = (quoted: string) =>
  conflictOf(answerOf(`field type conflict: input field ${quoted} on measurement "typed" is type string, already exists as type float`))

// As influxd 2.7 says them.
test.each([
  ['"a"', 'a'],
  [String.raw`"a\x01\a\v\u200b\U000e0001é"`, 'a\u0001\u0007\v\u200b\u{e0001}é'],
  [String.raw`"\b\f\t\"\\a \x7f"`, '\b\f\t"\\a \u007f'],
  ['"dropped=9 for database: x"', 'dropped=9 for database: x'],
])('the name %s is read as Go quotes it', (quoted, field) => {
  const conflict = conflictIn(quoted)
  expect(conflict).toEqual({ measurement: 'typed', field, type: 'string' })
  expect(mayHold(`typed,channel=c /index=0i,${fieldKeyText(field)}="x" 1`, conflict!)).toBe(true)
  expect(mayHold(`typed,channel=c /index=0i,${fieldKeyText(field)}=1 1`, conflict!)).toBe(false)
})

test.each([String.raw`"\xff"`, String.raw`"\q"`, String.raw`"\U00ffffff"`])(
  'the name %s, which is none of ours, is nothing that can be looked for',
  quoted => {
    expect(conflictIn(quoted)).toBeUndefined()
  },
)

test('another reason is no conflict', () => {
  expect(conflictOf(answerOf('shard 7 is pending deletion'))).toBeUndefined()
})
