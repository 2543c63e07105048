// Each batch notes its days; those that are known to be written are not written again, and all are forgotten in time.

import { expect, test } from 'vitest'
import { type DayRegistry, type NotedDay, openDayRegistry } from '../../../sinks/cassandra/day-registry.ts'
import { daysKeptBy } from '../../../sinks/erasure.ts'

const dayMs = 86_400_000

function noted(days: DayRegistry, ...numbers: number[]): NotedDay[] {
  const found: NotedDay[] = []
  days.begin()
  for (const day of numbers) days.of('channel', 'publisher', 'messages').note(day, found)
  return found
}

const unwritten = (days: DayRegistry, batch: readonly NotedDay[]): number[] => days.unwritten(batch).map(({ day }) => day)

test('each day is listed once for a batch, and written until the write has succeeded', () => {
  const days = openDayRegistry()
  const first = noted(days, 5, 5, 6, 5)
  expect(first.map(({ day }) => day)).toEqual([5, 6])
  expect(unwritten(days, first)).toEqual([5, 6])
  days.remember(first)
  expect(unwritten(days, first)).toEqual([])
  const second = noted(days, 7, 5, 6)
  expect(second.map(({ day }) => day)).toEqual([7, 5, 6])
  expect(unwritten(days, second)).toEqual([7])
})

test('forgotten days are written again, also by a batch that was encoded before', () => {
  const days = openDayRegistry()
  days.remember(noted(days, 5, 6))
  const encoded = noted(days, 5, 6)
  days.forget()
  expect(unwritten(days, encoded)).toEqual([5, 6])
  days.remember(encoded)
  expect(unwritten(days, encoded)).toEqual([])
})

test('memory is bounded, even if no write ever succeeds', () => {
  const days = openDayRegistry({ rememberedMax: 10 })
  const batch = noted(days, 1)
  days.remember(batch)
  expect(unwritten(days, noted(days, 1))).toEqual([])
  for (let publisher = 0; publisher < 10; publisher++) days.of('channel', String(publisher), 'messages')
  expect(unwritten(days, noted(days, 1))).toEqual([1])
  expect(unwritten(days, batch)).toEqual([1])
})

test('days that may be deleted are never remembered, and the others forgotten when the retention moves on', () => {
  let nowMs = 1000 * dayMs
  const days = openDayRegistry({ keptDays: daysKeptBy({ retentionDays: 10, retentionChannels: ['short:5'] }), now: () => nowMs })
  const batch = noted(days, 980, 989, 992, 993, 1000)
  days.remember(batch)
  expect(unwritten(days, batch)).toEqual([980, 989, 992])
  const short: NotedDay[] = []
  for (const day of [997, 998]) days.of('short', 'publisher', 'messages').note(day, short)
  days.remember(short)
  expect(unwritten(days, short)).toEqual([997])
  nowMs += dayMs
  expect(unwritten(days, batch)).toHaveLength(5)
})
