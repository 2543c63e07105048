// Which days of publishers are remembered as written.

import { expect, test } from 'vitest'
import { openPublisherDays, type PublisherDay } from '../../../sinks/postgres/publisher-days.ts'

const dayUs = 86_400_000_000

test('a day is noted once a batch until it is known to be written', () => {
  const days = openPublisherDays()
  const note = (...times: number[]) => {
    const noted: PublisherDay[] = []
    for (const timeUs of times) days.of('c', 'p', 'f').note(timeUs, noted)
    return noted
  }
  expect(note(0, 1, dayUs, 0, dayUs - 1).map(({ day }) => day)).toEqual([0, 1])
  expect(note(0, -1).map(({ day }) => day)).toEqual([0, -1])
  days.remember(note(0, dayUs))
  expect(note(0, dayUs, 2 * dayUs, 5).map(({ day }) => day)).toEqual([2])
})

test('what is remembered is bounded, and what was forgotten is noted again', () => {
  const days = openPublisherDays(10)
  for (let publisher = 0; publisher < 1000; publisher++) {
    const noted: PublisherDay[] = []
    days.of('c', `p${publisher}`, 'f').note(0, noted)
    days.remember(noted)
    expect(noted).toHaveLength(1)
  }
  const again: PublisherDay[] = []
  days.of('c', 'p0', 'f').note(0, again)
  expect(again).toHaveLength(1)
})
