// Where a source resumes, according to the store and the log.

import { expect, test } from 'vitest'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { type StartRequest, startOffset } from '../../../pipeline/writer/start-offset.ts'

function start(fields: Partial<StartRequest>) {
  return startOffset({
    log: 'messages',
    partition: 3,
    stored: undefined,
    committed: undefined,
    start: 0,
    end: 100,
    acceptLost: false,
    ...fields,
  })
}

test("the store's position, else the committed offset, else the start of the log", () => {
  expect(start({ stored: 40, committed: 60 })).toEqual({ from: 40, next: 40, lost: 0 })
  expect(start({ committed: 60 })).toEqual({ from: 60, next: 60, lost: 0 })
  expect(start({ start: 7 })).toEqual({ from: 7, next: 7, lost: 0 })
  expect(start({ stored: 0, committed: 60 })).toEqual({ from: 0, next: 0, lost: 0 })
})

test('a source may resume at the end of the log, and at its start', () => {
  expect(start({ stored: 100 })).toEqual({ from: 100, next: 100, lost: 0 })
  expect(start({ stored: 7, start: 7 })).toEqual({ from: 7, next: 7, lost: 0 })
})

test('a log that ends below the position was truncated or recreated: an error, also with the option', () => {
  for (const acceptLost of [false, true]) {
    expect(() => start({ stored: 101, acceptLost })).toThrow(SystemicError)
    expect(() => start({ committed: 101, acceptLost })).toThrow(
      /^partition 3 of the log messages ends at offset 100, but the committed offset continues at 101/,
    )
  }
})

test('a log that starts above the position has lost messages: the error says how many, and only the option continues', () => {
  expect(() => start({ stored: 40, start: 55 })).toThrow(SystemicError)
  expect(() => start({ stored: 40, start: 55 })).toThrow(/15 messages were deleted unread/)
  expect(start({ stored: 40, start: 55, acceptLost: true })).toEqual({ from: 40, next: 55, lost: 15 })
})
