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
  const days = openPublisherDays({ rememberedMax: 10 })
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

test('what was forgotten is noted again', () => {
  const days = openPublisherDays()
  const noted: PublisherDay[] = []
  days.of('c', 'p', 'f').note(0, noted)
  days.remember(noted)
  days.forget()
  const again: PublisherDay[] = []
  days.of('c', 'p', 'f').note(0, again)
  expect(again).toEqual(noted)
})

test('days before the retention are noted with each batch, since they may be deleted at any time; so are those that fall behind it', () => {
  let now = Date.UTC(2026, 5, 15)
  const days = openPublisherDays({ retentionMonths: 1, now: () => now })
  const times = [Date.UTC(1999, 0, 1), Date.UTC(2026, 3, 30), Date.UTC(2026, 4, 1), Date.UTC(2026, 5, 15)]
  const note = () => {
    const noted: PublisherDay[] = []
    for (const time of times) days.of('c', 'p', 'f').note(time * 1000, noted)
    days.remember(noted)
    return noted.map(({ day }) => new Date(day * 86_400_000).toISOString().slice(0, 10))
  }
  expect(note()).toEqual(['1999-01-01', '2026-04-30', '2026-05-01', '2026-06-15'])
  expect(note()).toEqual(['1999-01-01', '2026-04-30'])
  now = Date.UTC(2026, 6, 1)
  // The first batch of a month shows that one has begun, the second writes what is kept once more.
  note()
  note()
  expect(note()).toEqual(['1999-01-01', '2026-04-30', '2026-05-01'])
})
