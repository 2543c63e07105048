// Where a source goes on, by what the store and the log say.

import { expect, test } from 'vitest'
import { type StartQuestion, startOffset } from '../../pipeline/start-offset.ts'
import { SystemicError } from '../../pipeline/systemic-error.ts'

function start(fields: Partial<StartQuestion>) {
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

test('the end of the log is a place to go on at, and so is its start', () => {
  expect(start({ stored: 100 })).toEqual({ from: 100, next: 100, lost: 0 })
  expect(start({ stored: 7, start: 7 })).toEqual({ from: 7, next: 7, lost: 0 })
})

test('a log that ends below the position was truncated or made anew: never skipped, also not by option', () => {
  for (const acceptLost of [false, true]) {
    expect(() => start({ stored: 101, acceptLost })).toThrow(SystemicError)
    expect(() => start({ committed: 101, acceptLost })).toThrow(
      /^partition 3 of the log messages ends at offset 100, but the committed offset goes on at 101/,
    )
  }
})

test('a log that starts above the position lost messages: it says how many, and goes on only by option', () => {
  expect(() => start({ stored: 40, start: 55 })).toThrow(SystemicError)
  expect(() => start({ stored: 40, start: 55 })).toThrow(/15 messages were deleted unread/)
  expect(start({ stored: 40, start: 55, acceptLost: true })).toEqual({ from: 40, next: 55, lost: 15 })
})
