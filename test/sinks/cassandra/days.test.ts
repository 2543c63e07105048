// Days are noted until they are known to be written, and forgotten in time.

import { expect, test } from 'vitest'
import { type NotedDay, openDays } from '../../../sinks/cassandra/days.ts'

const dayMs = 86_400_000

function noted(days: ReturnType<typeof openDays>, ...numbers: number[]): NotedDay[] {
  const found: NotedDay[] = []
  days.begin()
  for (const day of numbers) days.of('channel', 'publisher', 'messages').note(day, found)
  return found
}

test('each day is noted once a batch, until it is written', () => {
  const days = openDays()
  const first = noted(days, 5, 5, 6, 5)
  expect(first.map(({ day }) => day)).toEqual([5, 6])
  expect(noted(days, 5, 6)).toHaveLength(2)
  days.remember(first)
  expect(noted(days, 5, 6, 7).map(({ day }) => day)).toEqual([7])
  days.forget()
  expect(noted(days, 5)).toHaveLength(1)
})

test('no more is remembered than there is room for, also where nothing is ever written', () => {
  const days = openDays({ rememberedMax: 10 })
  days.remember(noted(days, 1))
  expect(noted(days, 1)).toEqual([])
  for (let publisher = 0; publisher < 10; publisher++) days.of('channel', String(publisher), 'messages')
  expect(noted(days, 1)).toHaveLength(1)
})

test('days that may be deleted are never remembered, and the others forgotten when the retention moves on', () => {
  let nowMs = 1000 * dayMs
  const days = openDays({ retentionDays: 10, now: () => nowMs })
  days.remember(noted(days, 980, 989, 992, 993, 1000))
  expect(noted(days, 980, 989, 992, 993, 1000).map(({ day }) => day)).toEqual([980, 989, 992])
  nowMs += dayMs
  expect(noted(days, 1000)).toHaveLength(1)
})
