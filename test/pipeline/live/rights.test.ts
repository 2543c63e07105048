// That the right to a stream is looked at again, also if no notice of its end arrives.

import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { AccessRequest } from '../../../control-plane/client.ts'
import type { EndReason } from '../../../http/event-stream.ts'
import { watchRights } from '../../../pipeline/live/rights.ts'
import type { Stream } from '../../../readers/live/stream.ts'
import { channel, type FakeAccess, openFakeAccess } from '../../readers/live/served-live.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const logger = pino({ level: 'silent' })

function fakeStream(): Stream {
  let ended: EndReason | undefined
  return { start: () => undefined, end: reason => void (ended ??= reason), ended: () => ended }
}

async function watched(access: FakeAccess): Promise<() => EndReason | undefined> {
  const stream = fakeStream()
  const request = { credential: { scheme: 'Bearer', secret: 'owner' }, channel, action: 'read' } as const
  await watchRights(access, logger).watch(stream, request, null)
  return () => stream.ended()
}

test('in a reader process a stream continues while changes arrive, also if permissions cannot be checked, and ends within 6 s without changes', async () => {
  let isHeard = true
  let heardMs = performance.now()
  const access = Object.assign(openFakeAccess(), { heardMs: () => (isHeard ? (heardMs = performance.now()) : heardMs) })
  const ended = await watched(access)
  access.isAway = true
  await vi.advanceTimersByTimeAsync(60_000)
  expect(ended()).toBeUndefined()
  isHeard = false
  await vi.advanceTimersByTimeAsync(4_000)
  expect(ended()).toBeUndefined()
  await vi.advanceTimersByTimeAsync(2_000)
  expect(ended()).toBe('unavailable')
})

test('a check without an answer is repeated within about a second', async () => {
  const access = Object.assign(openFakeAccess(), { heardMs: () => performance.now() })
  const ended = await watched(access)
  access.isAway = true
  await vi.advanceTimersByTimeAsync(5_500)
  access.isAway = false
  access.rights.delete('owner')
  await vi.advanceTimersByTimeAsync(1_500)
  expect(ended()).toBe('access_ended')
})

test('a change that affects a stream ends it if its permission cannot be checked', async () => {
  const access = Object.assign(openFakeAccess(), { heardMs: () => performance.now() })
  const ended = await watched(access)
  access.isAway = true
  access.change({ kind: 'user', user: 'another' })
  await vi.advanceTimersByTimeAsync(100)
  expect(ended()).toBeUndefined()
  access.change({ kind: 'channel', channel })
  await vi.advanceTimersByTimeAsync(100)
  expect(ended()).toBe('unavailable')
})

test('after missed changes a hundred permissions are checked at a time, those with a change first', async () => {
  const access = openFakeAccess()
  const rights = watchRights(access, logger)
  const streams = Array.from({ length: 350 }, () => fakeStream())
  const requestOf = (nth: number): AccessRequest => {
    const credential = { scheme: 'Thing', secret: `secret-${nth}` } as const
    access.rights.set(credential.secret, { allowed: true, publisher: `t${nth}`, owner: 'user' })
    return { credential, channel, action: 'read' }
  }
  await Promise.all(streams.map((stream, nth) => rights.watch(stream, requestOf(nth), `t${nth}`)))
  const asked: string[] = []
  let release = Promise.withResolvers<void>()
  const answer = access.authorize.bind(access)
  vi.spyOn(access, 'authorize').mockImplementation(async request => {
    asked.push(request.credential.secret)
    await release.promise
    return answer(request)
  })
  // Routine: those who wait are asked in their order.
  await vi.advanceTimersByTimeAsync(61_000)
  expect(asked).toHaveLength(100)
  access.change({ kind: 'thing', thing: 't340' })
  expect(asked).toHaveLength(100)
  release.resolve()
  release = Promise.withResolvers()
  await expect.poll(() => asked.length).toBe(200)
  expect(asked.indexOf('secret-340')).toBe(100)
  release.resolve()
  await expect.poll(() => asked.length).toBe(350)
  expect(new Set(asked).size).toBe(350)
  expect(streams.map(stream => stream.ended())).toEqual(streams.map(() => undefined))
  for (const stream of streams) rights.forget(stream)
  expect(access.listeners()).toBe(0)
})

test('in process, where each change is known, permissions are checked after a minute', async () => {
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

test('a permission that ended during its check is checked once more', async () => {
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
