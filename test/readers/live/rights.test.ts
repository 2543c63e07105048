// That the right to a stream is looked at again, also where nothing is told of its end.

import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { EndReason } from '../../../readers/live/events.ts'
import { openStreams } from '../../../readers/live/streams.ts'
import { channel, type FakeAccess, openFakeAccess } from './served-live.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date', 'performance'] }))
afterEach(() => void vi.useRealTimers())

async function watched(access: FakeAccess): Promise<() => EndReason | undefined> {
  const streams = openStreams(access, { streamsMax: 1, streamsEachMax: 1, queueBytes: 1, heartbeatSeconds: 1 }, pino({ level: 'silent' }))
  let ended: EndReason | undefined
  const stream = { start: () => undefined, end: (reason: EndReason) => void (ended ??= reason), ended: () => ended }
  const right = { allowed: true, publisher: null, owner: 'user' } as const
  await streams.add(stream, { request: { credential: { scheme: 'Bearer', secret: 'owner' }, channel, action: 'read' }, right })
  return () => ended
}

test('in a reader process, where changes may go unheard, within 6 s', async () => {
  const access = Object.assign(openFakeAccess(), { heardMs: () => performance.now() })
  const ended = await watched(access)
  access.isAway = true
  await vi.advanceTimersByTimeAsync(4_000)
  expect(ended()).toBeUndefined()
  await vi.advanceTimersByTimeAsync(2_000)
  expect(ended()).toBe('unavailable')
})

test('in process, where each change is told, after a minute', async () => {
  const access = openFakeAccess()
  const asked = vi.spyOn(access, 'authorize')
  const ended = await watched(access)
  expect(asked).toHaveBeenCalledTimes(1)
  access.rights.delete('owner')
  await vi.advanceTimersByTimeAsync(58_000)
  expect([asked.mock.calls.length, ended()]).toEqual([1, undefined])
  await vi.advanceTimersByTimeAsync(3_000)
  expect(ended()).toBe('access_ended')
})

test('a right that ended while it was asked for is asked for once more', async () => {
  const access = openFakeAccess()
  const answer = Promise.withResolvers<Awaited<ReturnType<typeof access.authorize>>>()
  const ask = vi.spyOn(access, 'authorize').mockReturnValueOnce(answer.promise)
  const adding = watched(access)
  access.rights.set('owner', { allowed: false, reason: 'forbidden' })
  access.change({ kind: 'channel', channel })
  // From before the change.
  answer.resolve({ allowed: true, publisher: null, owner: 'user' })
  const ended = await adding
  expect([ask.mock.calls.length, ended()]).toEqual([2, 'access_ended'])
})
