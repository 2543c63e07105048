// Failures within a minute: counted by all instances together, and forgotten after it.

import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { type FailedAttempts, openFailedAttempts } from '../../../control-plane/access/failed-attempts.ts'
import { openUnknownKeys } from '../../../control-plane/requests/unknown-keys.ts'
import { describePlatform } from '../platform.ts'

const secret = Buffer.alloc(32, 9)

describePlatform('failed attempts', platform => {
  let one: FailedAttempts
  let other: FailedAttempts
  beforeAll(() => {
    one = openFailedAttempts(platform().database, secret)
    other = openFailedAttempts(platform().database, secret)
  })
  const endMinute = (key: string) =>
    platform().database.query("UPDATE control_plane.failed_attempts SET ends_at = now() - interval '2 minutes' WHERE key = $1", [key])

  test('every instance continues the count of the others, for each key separately', async () => {
    const [a, b] = [one.keyOf('a', 'x'), one.keyOf('a', 'y')]
    expect(await one.note([a, b])).toEqual([1, 1])
    expect(await other.note([b])).toEqual([2])
    expect(await one.count([b, a, one.keyOf('ax')])).toEqual([2, 1, 0])
  })

  test('concurrent failures are all counted, whichever instance counts them', async () => {
    const keys = [one.keyOf('at once', 'x'), one.keyOf('at once', 'y')]
    await Promise.all(Array.from({ length: 30 }, (_, nth) => (nth % 2 === 0 ? one.note(keys) : other.note(keys.toReversed()))))
    expect(await one.count(keys)).toEqual([30, 30])
  })

  test('after twenty a key is limited for the rest of its minute, and starts again at zero after it', async () => {
    const key = one.keyOf('limited')
    for (let nth = 0; nth < 19; nth++) await one.note([key])
    expect(one.limitedMs(key)).toBe(0)
    await one.note([key])
    expect(one.limitedMs(key)).toBeGreaterThan(50_000)
    expect(one.limitedMs(key)).toBeLessThanOrEqual(60_000)
    expect(other.limitedMs(key)).toBe(0)
    expect(await other.count([key])).toEqual([20])
    expect(other.limitedMs(key)).toBeGreaterThan(50_000)

    await endMinute(key)
    const later = openFailedAttempts(platform().database, secret)
    expect(await later.count([key])).toEqual([0])
    expect(await later.note([key])).toEqual([1])
  })

  test('rows of minutes that are over are removed by a later count', async () => {
    const key = one.keyOf('old')
    await one.note([key])
    await endMinute(key)
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const later = openFailedAttempts(platform().database, secret)
    vi.advanceTimersByTime(61_000)
    await later.note([later.keyOf('new')])
    const rows = await platform().database.query('SELECT key FROM control_plane.failed_attempts WHERE key = ANY($1::text[])', [
      [key, later.keyOf('new')],
    ])
    expect(rows).toEqual([{ key: later.keyOf('new') }])
  })

  test.each([0, 1_000])('a hundred made-up keys a second are counted, and the others wait for %i ms', async beyondMs => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const unknownKeys = openUnknownKeys(one, beyondMs)
    const note = (nth: number) => unknownKeys.note('external-id', Buffer.from(`made up ${beyondMs} ${nth}`), '192.0.2.1')
    const waits: number[] = []
    for (let nth = 0; nth < 102; nth++) waits.push(await note(nth))
    expect(waits).toEqual([...Array.from({ length: 100 }, () => 0), beyondMs, beyondMs])
    vi.advanceTimersByTime(1_000)
    expect(await note(102)).toBe(0)
  })

  test('the table does not reveal what was tried', async () => {
    await one.note([one.keyOf('sign-in', 'ann@example.com', '198.51.100.1')])
    const rows = await platform().database.query('SELECT * FROM control_plane.failed_attempts')
    expect(JSON.stringify(rows, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value))).not.toMatch(/ann|198\.51/)
  })
})
