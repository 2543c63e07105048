// The cache of grants: it caches only grants, drops them on the change that ends them, and sends concurrent requests once.

import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { cacheAccess } from '../../../control-plane/access/cache.ts'
import { type Access, type AccessChange, type AccessRequest, AccessUnavailableError } from '../../../control-plane/client.ts'
import { channel, granted, openAccess, publishWith } from '../asked-access.ts'

const refused: Access = { allowed: false, reason: 'forbidden' }

const limits = { lifetimeMs: 5_000, entriesMax: 100 }

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'Date'] }))
afterEach(() => void vi.useRealTimers())

test('a grant is requested once and cached for its lifetime, counted from the request', async () => {
  const access = openAccess(() => {
    vi.advanceTimersByTime(1_000)
    return granted
  })
  const cached = cacheAccess(access.control, limits)
  expect(cached.granted?.(publishWith('a'))).toBeUndefined()
  expect(await cached.authorize(publishWith('a'))).toEqual(granted)
  vi.advanceTimersByTime(3_999)
  expect(await cached.authorize(publishWith('a'))).toEqual(granted)
  expect(cached.granted?.(publishWith('a'))).toEqual(granted)
  expect(access.asked).toHaveLength(1)
  vi.advanceTimersByTime(1)
  expect(cached.granted?.(publishWith('a'))).toBeUndefined()
  expect(await cached.authorize(publishWith('a'))).toEqual(granted)
  expect(access.asked).toHaveLength(2)
})

test('a grant is cached no longer than its credential is valid, and that does not shorten the lifetime of others', async () => {
  const access = openAccess(({ credential }) => (credential.secret === 'token' ? { ...granted, endsMs: Date.now() + 2_000 } : granted))
  const cached = cacheAccess(access.control, limits)
  expect(await cached.authorize(publishWith('token'))).toMatchObject({ endsMs: Date.now() + 2_000 })
  await cached.authorize(publishWith('key'))
  vi.advanceTimersByTime(1_999)
  expect(await cached.authorize(publishWith('token'))).toMatchObject({ endsMs: Date.now() + 1 })
  expect(access.asked).toHaveLength(2)
  vi.advanceTimersByTime(1)
  await cached.authorize(publishWith('token'))
  await cached.authorize(publishWith('key'))
  expect(access.asked.map(({ credential }) => credential.secret)).toEqual(['token', 'key', 'token'])
})

test('a grant whose credential expires after its lifetime is cached for its lifetime', async () => {
  const access = openAccess(() => ({ ...granted, endsMs: Date.now() + 3_600_000 }))
  const cached = cacheAccess(access.control, limits)
  await cached.authorize(publishWith('token'))
  vi.advanceTimersByTime(limits.lifetimeMs)
  await cached.authorize(publishWith('token'))
  expect(access.asked).toHaveLength(2)
})

test('a refusal is never cached, so a right that is given works at once', async () => {
  let answer: Access = refused
  const access = openAccess(() => answer)
  const cached = cacheAccess(access.control, limits)
  expect(await cached.authorize(publishWith('a'))).toEqual(refused)
  expect(cached.granted?.(publishWith('a'))).toBeUndefined()
  answer = granted
  expect(await cached.authorize(publishWith('a'))).toEqual(granted)
})

test('an error reaches every caller that was waiting, and is not cached', async () => {
  let away = true
  const access = openAccess(() => {
    if (away) throw new AccessUnavailableError('away')
    return granted
  })
  const cached = cacheAccess(access.control, limits)
  const answers = await Promise.allSettled([cached.authorize(publishWith('a')), cached.authorize(publishWith('a'))])
  expect(answers.map(answer => answer.status)).toEqual(['rejected', 'rejected'])
  expect(access.asked).toHaveLength(1)
  away = false
  expect(await cached.authorize(publishWith('a'))).toEqual(granted)
})

test('a grant is for one secret, scheme, channel and action', async () => {
  const access = openAccess(() => granted)
  const cached = cacheAccess(access.control, limits)
  const request = publishWith('a')
  const others: AccessRequest[] = [
    request,
    publishWith('b'),
    publishWith('a', randomUUID()),
    { ...request, action: 'read' },
    { ...request, credential: { scheme: 'Bearer', secret: 'a' } },
    { ...request, channel: `${channel}a`, credential: { scheme: 'Thing', secret: '' } },
  ]
  for (const other of others) await cached.authorize(other)
  expect(access.asked).toEqual(others)
})

test('while changes arrive a grant lives its whole lifetime; without them only a short time after the last one or its request', async () => {
  let heard = true
  let heardMs = performance.now()
  const access = openAccess(
    () => granted,
    () => (heard ? (heardMs = performance.now()) : heardMs),
  )
  const cached = cacheAccess(access.control, { lifetimeMs: 60_000, unheardMsMax: 5_000, entriesMax: 100 })
  const asked = async (secret: string): Promise<number> => {
    await cached.authorize(publishWith(secret))
    return access.asked.length
  }
  expect(await asked('a')).toBe(1)
  vi.advanceTimersByTime(40_000)
  expect(await asked('a')).toBe(1)

  heard = false
  vi.advanceTimersByTime(3_000)
  expect(await asked('b')).toBe(2)
  vi.advanceTimersByTime(1_999)
  expect(await asked('a')).toBe(2)
  vi.advanceTimersByTime(1)
  expect(await asked('a')).toBe(3)
  expect(await asked('b')).toBe(3)
  vi.advanceTimersByTime(3_000)
  expect(await asked('b')).toBe(4)
})

test('after missed changes no grant is used, and no earlier request is shared or cached', async () => {
  const first = Promise.withResolvers<Access>()
  const access = openAccess(({ credential }) => (credential.secret === 'slow' && access.asked.length === 2 ? first.promise : granted))
  const cached = cacheAccess(access.control, limits)
  await cached.authorize(publishWith('a'))
  const before = cached.authorize(publishWith('slow'))
  access.change({ kind: 'unheard' })
  await cached.authorize(publishWith('a'))
  first.resolve(granted)
  await before
  await cached.authorize(publishWith('slow'))
  expect(access.asked.map(({ credential }) => credential.secret)).toEqual(['a', 'slow', 'a', 'slow'])
})

const endings: [what: string, change: AccessChange, ends: boolean][] = [
  ['its thing is disconnected', { kind: 'disconnected', thing: 'thing-1', channel }, true],
  ['its thing is disconnected from another channel', { kind: 'disconnected', thing: 'thing-1', channel: randomUUID() }, false],
  ['another thing is disconnected', { kind: 'disconnected', thing: 'thing-2', channel }, false],
  ['its thing is deleted or gets another key', { kind: 'thing', thing: 'thing-1' }, true],
  ['another thing is deleted', { kind: 'thing', thing: 'thing-2' }, false],
  ['its channel is deleted', { kind: 'channel', channel }, true],
  ['another channel is deleted', { kind: 'channel', channel: randomUUID() }, false],
  ['its owner loses their rights', { kind: 'user', user: 'user-1' }, true],
  ['another user loses theirs', { kind: 'user', user: 'user-2' }, false],
]

test.each(endings)('when %s, a grant is dropped or kept (%o: %s)', async (_what, change, ends) => {
  const access = openAccess(() => granted)
  const cached = cacheAccess(access.control, limits)
  await cached.authorize(publishWith('a'))
  access.change(change)
  await cached.authorize(publishWith('a'))
  expect(access.asked).toHaveLength(ends ? 2 : 1)
})

test.each(endings)('when %s while the request is under way, the answer is cached or not (%o: %s)', async (_what, change, ends) => {
  const answer = Promise.withResolvers<Access>()
  const access = openAccess(() => (access.asked.length === 1 ? answer.promise : granted))
  const cached = cacheAccess(access.control, limits)
  const before = cached.authorize(publishWith('a'))
  access.change(change)
  answer.resolve(granted)
  expect(await before).toEqual(granted)
  await cached.authorize(publishWith('a'))
  expect(access.asked).toHaveLength(ends ? 2 : 1)
})

test('a user who connects and disconnects in a loop does not keep grants of others from being cached', async () => {
  const access = openAccess(async () => {
    await Promise.resolve()
    for (let count = 0; count < 1_000; count++) access.change({ kind: 'disconnected', thing: 'thing-2', channel: randomUUID() })
    return granted
  })
  const cached = cacheAccess(access.control, limits)
  await cached.authorize(publishWith('a'))
  await cached.authorize(publishWith('a'))
  expect(access.asked).toHaveLength(1)
})

test('an answer is not cached if more changes came during its request than are remembered', async () => {
  const access = openAccess(async () => {
    await Promise.resolve()
    access.change({ kind: 'thing', thing: 'thing-1' })
    for (let count = 0; count < 1_000; count++) access.change({ kind: 'thing', thing: 'thing-2' })
    return granted
  })
  const cached = cacheAccess(access.control, limits)
  await cached.authorize(publishWith('a'))
  await cached.authorize(publishWith('a'))
  expect(access.asked).toHaveLength(2)
})

test('a change before the request does not keep its answer from being cached', async () => {
  const access = openAccess(() => granted)
  const cached = cacheAccess(access.control, limits)
  access.change({ kind: 'thing', thing: 'thing-1' })
  await cached.authorize(publishWith('a'))
  await cached.authorize(publishWith('a'))
  expect(access.asked).toHaveLength(1)
})

test.each<[what: string, change: AccessChange, joins: boolean]>([
  ['a thing leaves another channel', { kind: 'disconnected', thing: 'thing-1', channel: randomUUID() }, true],
  ['another channel is deleted', { kind: 'channel', channel: randomUUID() }, true],
  ['a thing leaves this channel', { kind: 'disconnected', thing: 'thing-1', channel }, false],
  ['this channel is deleted', { kind: 'channel', channel }, false],
  // Whose key was sent is not known before the answer.
  ['any thing is deleted', { kind: 'thing', thing: 'thing-2' }, false],
  ['any user loses their rights', { kind: 'user', user: 'user-2' }, false],
])('when %s, a later caller shares the request that is under way, or not (%o: %s)', async (_what, change, joins) => {
  const requests = [Promise.withResolvers<Access>(), Promise.withResolvers<Access>()]
  const access = openAccess(() => requests[access.asked.length - 1]!.promise)
  const cached = cacheAccess(access.control, limits)
  const before = cached.authorize(publishWith('a'))
  access.change(change)
  const after = cached.authorize(publishWith('a'))
  expect(access.asked).toHaveLength(joins ? 1 : 2)
  for (const request of requests) request.resolve(granted)
  await Promise.all([before, after])
})

test('of two answers to one request the last is the grant, and a change ends it', async () => {
  const requests = [Promise.withResolvers<Access>(), Promise.withResolvers<Access>()]
  const access = openAccess(() => requests[access.asked.length - 1]?.promise ?? refused)
  const cached = cacheAccess(access.control, limits)
  const first = cached.authorize(publishWith('a'))
  access.change({ kind: 'thing', thing: 'thing-2' })
  const second = cached.authorize(publishWith('a'))
  requests[1]!.resolve({ allowed: true, publisher: 'thing-3', owner: 'user-1' })
  await second
  requests[0]!.resolve(granted)
  await first
  access.change({ kind: 'thing', thing: 'thing-1' })
  access.change({ kind: 'thing', thing: 'thing-3' })
  expect(await cached.authorize(publishWith('a'))).toEqual(refused)
})

test('a change ends every grant of its user, also if others were dropped for space or expired before', async () => {
  const access = openAccess(() => granted)
  const cached = cacheAccess(access.control, { ...limits, entriesMax: 3 })
  const channels = ['one', 'two', 'three', 'four']
  for (const name of channels) await cached.authorize(publishWith('a', name))
  access.change({ kind: 'channel', channel: 'two' })
  access.change({ kind: 'user', user: 'user-1' })
  for (const name of channels) await cached.authorize(publishWith('a', name))
  expect(access.asked).toHaveLength(8)
})

test('the cost of a change depends only on the grants that it ends, however many are cached', async () => {
  vi.useRealTimers()
  const access = openAccess(({ credential: { secret } }) => ({ allowed: true, publisher: secret, owner: `owner-of-${secret}` }))
  const cached = cacheAccess(access.control, { lifetimeMs: 600_000, entriesMax: 100_000 })
  for (let count = 0; count < 50_000; count++) await cached.authorize(publishWith(`thing-${count}`, `channel-${count}`))
  // Processor time: what the machine does meanwhile does not count.
  const before = process.threadCpuUsage()
  for (let count = 0; count < 5_000; count++) {
    access.change({ kind: 'disconnected', thing: 'thing-x', channel: `channel-${count}` })
    access.change({ kind: 'user', user: 'nobody' })
  }
  // Walking through all of them takes 0.87 ms each.
  expect(process.threadCpuUsage(before).user / 1000).toBeLessThan(2_000)
  expect(access.asked).toHaveLength(50_000)
  access.change({ kind: 'user', user: 'owner-of-thing-7' })
  await cached.authorize(publishWith('thing-7', 'channel-7'))
  await cached.authorize(publishWith('thing-8', 'channel-8'))
  expect(access.asked).toHaveLength(50_001)
})

test('an answer that was under way when a change came is not cached', async () => {
  const first = Promise.withResolvers<Access>()
  const access = openAccess(() => (access.asked.length === 1 ? first.promise : refused))
  const cached = cacheAccess(access.control, limits)
  const before = cached.authorize(publishWith('a'))
  access.change({ kind: 'disconnected', thing: 'thing-1', channel })
  first.resolve(granted)
  expect(await before).toEqual(granted)
  expect(await cached.authorize(publishWith('a'))).toEqual(refused)
})

test('a caller after a change does not share a request from before it', async () => {
  const requests = [Promise.withResolvers<Access>(), Promise.withResolvers<Access>()]
  const access = openAccess(() => requests[access.asked.length - 1]!.promise)
  const cached = cacheAccess(access.control, limits)
  const before = cached.authorize(publishWith('a'))
  access.change({ kind: 'channel', channel })
  const after = cached.authorize(publishWith('a'))
  requests[0]!.resolve(granted)
  expect(await before).toEqual(granted)
  const joined = cached.authorize(publishWith('a'))
  requests[1]!.resolve(refused)
  expect(await Promise.all([after, joined])).toEqual([refused, refused])
  expect(access.asked).toHaveLength(2)
})

test('the same request from many callers at the same time is sent once', async () => {
  const answer = Promise.withResolvers<Access>()
  const access = openAccess(() => answer.promise)
  const cached = cacheAccess(access.control, limits)
  const all = Array.from({ length: 50 }, () => cached.authorize(publishWith('a')))
  answer.resolve(granted)
  expect(await Promise.all(all)).toEqual(all.map(() => granted))
  expect(access.asked).toHaveLength(1)
})

test('no more grants than allowed are cached, and the oldest is dropped first', async () => {
  const access = openAccess(() => granted)
  const cached = cacheAccess(access.control, { ...limits, entriesMax: 2 })
  for (const secret of ['a', 'b', 'c']) await cached.authorize(publishWith(secret))
  for (const secret of ['b', 'c']) await cached.authorize(publishWith(secret))
  expect(access.asked).toHaveLength(3)
  await cached.authorize(publishWith('a'))
  expect(access.asked).toHaveLength(4)
})

test('a closed cache listens to no changes and has no grants', async () => {
  const access = openAccess(() => granted)
  const cached = cacheAccess(access.control, limits)
  expect(access.listeners.size).toBe(1)
  await cached.authorize(publishWith('a'))
  const underWay = cached.authorize(publishWith('b'))
  cached.close()
  await underWay
  expect(access.listeners.size).toBe(0)
  for (const secret of ['a', 'b']) await cached.authorize(publishWith(secret))
  expect(access.asked).toHaveLength(4)
})

test('listeners of the cache get the changes of the access control that it wraps', () => {
  const access = openAccess(() => granted)
  const cached = cacheAccess(access.control, limits)
  const heard: AccessChange[] = []
  const stop = cached.onChange(change => heard.push(change))
  access.change({ kind: 'thing', thing: 'thing-1' })
  stop()
  access.change({ kind: 'thing', thing: 'thing-2' })
  expect(heard).toEqual([{ kind: 'thing', thing: 'thing-1' }])
})

test('the cache passes on up to what time changes have arrived, and has no such time if none can be missed', () => {
  expect(
    cacheAccess(
      openAccess(
        () => granted,
        () => 17,
      ).control,
      limits,
    ).heardMs?.(),
  ).toBe(17)
  expect(cacheAccess(openAccess(() => granted).control, limits)).not.toHaveProperty('heardMs')
})
