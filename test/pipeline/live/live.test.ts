// Follows messages as they are written: which ones a follower gets, their cost, and faults of the log.

import { expect, test, vi } from 'vitest'
import { LiveUnavailableError } from '../../../pipeline/live/messages.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { away, openFakeTopic } from './fake-topic.ts'
import { decoder, disposable, keep, openLive } from './follower.ts'

test('a follower of a channel gets its messages from now on, and none of other channels', async () => {
  const topic = openFakeTopic(2)
  await topic.append(0, 'mine', ['before'])
  await using live = disposable(openLive(topic))
  const kept = await keep(live, 'mine')
  await topic.append(1, 'other', ['not-mine'])
  await topic.append(0, 'mine', ['a', 'b'])
  await topic.append(1, 'mine', ['c'])
  await kept.until(3)
  expect(kept.names.toSorted()).toEqual(['a', 'b', 'c'])
  expect(kept.lost.times).toBe(0)
})

test('a message is decoded once for all followers of its channel, and not at all without followers', async () => {
  const topic = openFakeTopic(1)
  const decode = vi.fn<typeof decoder.transformer.decode>((...of) => decoder.transformer.decode(...of))
  await using live = disposable(openLive(topic, { transformer: { decode } }))
  const all = await Promise.all([keep(live, 'mine'), keep(live, 'mine'), keep(live, 'mine')])
  await topic.append(0, 'other', ['x'])
  await topic.append(0, 'mine', ['a'])
  await Promise.all(all.map(kept => kept.until(1)))
  expect(decode).toHaveBeenCalledTimes(1)
  expect(topic.read.messages).toBe(2)
})

test('undecodable and empty messages, and those not subscribed to, are skipped', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic, { subscribed: (_channel, subtopic) => subtopic === '' }))
  const kept = await keep(live, 'mine')
  topic.appendPayload(0, 'mine', '{"no":"pack"}')
  topic.appendPayload(0, 'mine', '[{"bn":"only-base"}]')
  await topic.append(0, 'mine', ['a'])
  await kept.until(1)
  expect(kept.names).toEqual(['a'])
})

test('the log is read while there are followers, and nothing is left of it after the last', async () => {
  const topic = openFakeTopic(2)
  const live = openLive(topic)
  expect([topic.openReaders, topic.listeners]).toEqual([0, 0])
  const [one, other] = await Promise.all([keep(live, 'mine'), keep(live, 'other')])
  expect([topic.openReaders, topic.listeners]).toEqual([1, 1])
  one.following.stop()
  one.following.stop()
  await topic.append(0, 'other', ['a'])
  await other.until(1)
  other.following.stop()
  await expect.poll(() => [topic.openReaders, topic.listeners]).toEqual([0, 0])
  topic.read.messages = 0
  await using next = disposable(openLive(topic))
  const follower = await keep(next, 'mine')
  await topic.append(0, 'mine', ['b'])
  await follower.until(1)
  expect(topic.read.messages, 'only it has read').toBe(1)
  await live.close()
})

test('while the log is away nothing is lost or duplicated; new followers get an error', async () => {
  const topic = openFakeTopic(2)
  await using live = disposable(openLive(topic))
  const kept = await keep(live, 'mine')
  await topic.append(0, 'mine', ['a'])
  await kept.until(1)
  topic.failure = away
  await topic.append(0, 'mine', ['b'])
  await topic.append(1, 'mine', ['c'])
  await expect(keep(live, 'mine')).rejects.toThrow(LiveUnavailableError)
  topic.failure = undefined
  await kept.until(3)
  await topic.append(0, 'mine', ['d'])
  await kept.until(4)
  expect(kept.names[0]).toBe('a')
  expect(kept.names.toSorted()).toEqual(['a', 'b', 'c', 'd'])
})

test('messages that retention deleted before the resumed offset are reported as lost, and the rest follows', async () => {
  const topic = openFakeTopic(2)
  await using live = disposable(openLive(topic))
  const first = await keep(live, 'mine')
  for (const name of ['a', 'b', 'c']) await topic.append(0, 'mine', [name])
  await first.until(3)
  const streamOffset = first.streamOffsets[0]!
  topic.deleteBelow(0, 2)
  const second = await keep(live, 'mine', streamOffset)
  await second.until(1)
  expect([second.names, second.lost.times]).toEqual([['c'], 1])
  const third = await keep(live, 'mine', first.streamOffsets[1])
  await third.until(1)
  expect([third.names, third.lost.times]).toEqual([['c'], 0])
})

test('a follower that begins ahead of the tail gets nothing from before, and neither does one that resumes at its offsets', async () => {
  const topic = openFakeTopic(2)
  await using live = disposable(openLive(topic))
  const first = await keep(live, 'mine')
  await topic.append(0, 'mine', ['a'])
  await first.until(1)
  topic.isQuiet = true
  await topic.append(0, 'mine', ['b'])
  await topic.append(1, 'mine', ['c'])
  const second = await keep(live, 'mine')
  const third = await keep(live, 'mine', { ...second.following.streamOffset() })
  topic.isQuiet = false
  await topic.append(0, 'mine', ['d'])
  await topic.append(1, 'mine', ['e'])
  await Promise.all([first.until(5), second.until(2), third.until(2)])
  expect([first, second, third].map(({ names }) => names.toSorted())).toEqual([
    ['a', 'b', 'c', 'd', 'e'],
    ['d', 'e'],
    ['d', 'e'],
  ])
  const fourth = await keep(live, 'mine', second.streamOffsets[0])
  await fourth.until(1)
  expect(new Set([second.names[0], ...fourth.names])).toEqual(new Set(['d', 'e']))
})

test('a follower that begins inside a message that the tail has not reached gets the rest of it', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  const other = openLive(topic)
  const before = await keep(other, 'mine')
  const tail = await keep(live, 'mine')
  await topic.append(0, 'mine', ['a', 'b', 'c'])
  await before.until(3)
  await tail.until(3)
  await other.close()
  const streamOffset = before.streamOffsets[0]!
  topic.isQuiet = true
  await topic.append(0, 'mine', ['d', 'e'])
  const again = await keep(live, 'mine', { ...streamOffset, offsets: [1] })
  topic.isQuiet = false
  await again.until(1)
  expect(again.names).toEqual(['e'])
})

test('messages that retention deleted before the tail reached them are reported as lost to all', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  const kept = await keep(live, 'mine')
  await topic.append(0, 'mine', ['a'])
  await kept.until(1)
  // In one turn of the event loop, so that no read sees what is deleted.
  const appended = ['b', 'c', 'd'].map(name => topic.append(0, 'mine', [name]))
  topic.deleteBelow(0, 3)
  await Promise.all(appended)
  await kept.until(2)
  expect([kept.names, kept.lost.times]).toEqual([['a', 'd'], 1])
})

test('a follower that catches up when retention deletes all that it lacks is notified, and waits until there is more', async () => {
  const topic = openFakeTopic(1)
  await using other = disposable(openLive(topic))
  const first = await keep(other, 'mine')
  for (const name of ['a', 'b', 'c']) await topic.append(0, 'mine', [name])
  await first.until(3)
  await using live = disposable(openLive(topic))
  let space = 0
  const behind = await keep(live, 'mine', first.streamOffsets[0], () => space)
  topic.deleteBelow(0, 3)
  space = Infinity
  await expect.poll(() => behind.lost.times).toBe(1)
  expect(behind.following.streamOffset().offsets).toEqual([3])
  await topic.append(0, 'mine', ['d'])
  await behind.until(1)
  expect([behind.names, behind.lost.times]).toEqual([['d'], 1])
})

test('a recreated log ends its followers; they reconnect, are notified, and get everything in it', async () => {
  const topic = openFakeTopic(2)
  await using live = disposable(openLive(topic))
  const before = await keep(live, 'mine')
  await topic.append(0, 'mine', ['old'])
  await before.until(1)
  topic.madeAnew()
  await topic.append(0, 'mine', ['new'])
  await before.ended
  const after = await keep(live, 'mine', before.streamOffsets[0])
  await after.until(1)
  expect([after.names, after.lost.times]).toEqual([['new'], 1])
})

test('new partitions of a topic are followed from their first message on', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  const kept = await keep(live, 'mine')
  await topic.append(0, 'mine', ['a'])
  topic.addPartition()
  await topic.append(1, 'mine', ['b'])
  await kept.until(2)
  expect(kept.names.toSorted()).toEqual(['a', 'b'])
  const again = await keep(live, 'mine', kept.streamOffsets[kept.names.indexOf('a')])
  await again.until(kept.names[0] === 'a' ? 1 : 0)
  expect(again.names).toEqual(kept.names[0] === 'a' ? ['b'] : [])
})

test('new partitions are followed even if the log was away when they were found', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  const kept = await keep(live, 'mine')
  topic.failureOfNext = away
  topic.addPartition()
  await topic.append(1, 'mine', ['b'])
  await kept.until(1)
  expect(kept.names).toEqual(['b'])
  expect(topic.openReaders).toBe(1)
})

test('if a log lost its last messages all followers are notified, and get the messages in their place', async () => {
  const topic = openFakeTopic(2)
  await using live = disposable(openLive(topic))
  const kept = await keep(live, 'mine')
  let space = Infinity
  const behind = await keep(live, 'mine', undefined, () => space)
  for (const name of ['a', 'b', 'c']) await topic.append(0, 'mine', [name])
  await Promise.all([kept.until(3), behind.until(3)])
  space = 0
  const stuck = await keep(live, 'mine', kept.streamOffsets[0], () => space)
  topic.loseFrom(0, 1)
  await expect.poll(() => kept.lost.times).toBe(1)
  await topic.append(0, 'mine', ['d'])
  await kept.until(4)
  space = Infinity
  await stuck.until(1)
  expect([kept.names, stuck.names]).toEqual([['a', 'b', 'c', 'd'], ['d']])
  expect([kept.lost.times, behind.lost.times, stuck.lost.times]).toEqual([1, 1, 1])
  const again = await keep(live, 'mine', kept.streamOffsets[3])
  await topic.append(0, 'mine', ['e'])
  await again.until(1)
  expect(again.names).toEqual(['e'])
})

test('a follower that begins when the log has just ended for all is ended, too', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  const other = await keep(live, 'mine')
  const following = await live.follow('mine', undefined)
  topic.failure = new SystemicError('the topic may not be read')
  await other.ended
  const end = vi.fn<() => void>(() => following.stop())
  following.start({ partsOf: () => 1, take: (_message, _first, end) => end, space: () => undefined, lost: () => undefined, end })
  expect(end).toHaveBeenCalledTimes(1)
  topic.failure = undefined
  await expect.poll(() => [topic.openReaders, topic.listeners]).toEqual([0, 0])
})

test('a follower that waits for a log that is being opened gets an error, and later joins the same attempt', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const topic = openFakeTopic(1)
    await using live = disposable(openLive(topic))
    const opening = Promise.withResolvers<void>()
    topic.opening = opening.promise
    for (const wait of [() => live.follow('mine', undefined), () => live.check()]) {
      const waiting = expect(wait()).rejects.toThrow(/no answer within 5000 ms/)
      await vi.advanceTimersByTimeAsync(5_000)
      await waiting
    }
    expect(topic.opened).toBe(1)
    const joined = keep(live, 'mine')
    expect(topic.opened).toBe(1)
    opening.resolve()
    const { following } = await joined
    following.stop()
    await expect.poll(() => [topic.openReaders, topic.listeners]).toEqual([0, 0])
  } finally {
    vi.useRealTimers()
  }
})

test('a log that opens after all who waited for it are gone is closed', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const topic = openFakeTopic(1)
    await using live = disposable(openLive(topic))
    const open = vi.spyOn(topic, 'open')
    const opening = Promise.withResolvers<void>()
    topic.opening = opening.promise
    const waiting = expect(live.follow('mine', undefined)).rejects.toThrow(LiveUnavailableError)
    await vi.advanceTimersByTimeAsync(5_000)
    await waiting
    opening.resolve()
    await open.mock.results[0]!.value
    await expect.poll(() => [topic.openReaders, topic.listeners]).toEqual([0, 0])
  } finally {
    vi.useRealTimers()
  }
})

test('closing does not wait for a log that is being opened, nor do its followers', async () => {
  const topic = openFakeTopic(1)
  const live = openLive(topic)
  const opening = Promise.withResolvers<void>()
  topic.opening = opening.promise
  const waiting = expect(live.follow('mine', undefined)).rejects.toThrow(LiveUnavailableError)
  await live.close()
  await waiting
  opening.resolve()
  await expect.poll(() => [topic.openReaders, topic.listeners]).toEqual([0, 0])
})

test('the check asks the log, with or without followers, and leaves nothing behind', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  await live.check()
  await expect.poll(() => [topic.openReaders, topic.listeners]).toEqual([0, 0])
  const kept = await keep(live, 'mine')
  topic.failure = away
  await expect(live.check()).rejects.toThrow(LiveUnavailableError)
  topic.failure = undefined
  await live.check()
  kept.following.stop()
})

test('a log that can no longer be followed ends all followers, and the next one opens it again', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  const [one, other] = await Promise.all([keep(live, 'mine'), keep(live, 'other')])
  topic.failure = new SystemicError('the topic may not be read')
  await Promise.all([one.ended, other.ended])
  await expect(live.follow('mine', undefined)).rejects.toThrow(/may not be read/)
  topic.failure = undefined
  const again = await keep(live, 'mine')
  await topic.append(0, 'mine', ['a'])
  await again.until(1)
  again.following.stop()
  await expect.poll(() => [topic.openReaders, topic.listeners]).toEqual([0, 0])
})

test('a follower that takes nothing delays no other', async () => {
  const topic = openFakeTopic(1)
  await using live = disposable(openLive(topic))
  const stuck = await keep(live, 'mine', undefined, () => 0)
  const quick = await keep(live, 'mine')
  for (let count = 1; count <= 50; count++) await topic.append(0, 'mine', [`r${count}`])
  await quick.until(50)
  expect(quick.names).toEqual(Array.from({ length: 50 }, (_, at) => `r${at + 1}`))
  expect(stuck.names).toEqual([])
  stuck.following.stop()
})

test('closing ends all followers and refuses new ones', async () => {
  const topic = openFakeTopic(1)
  const live = openLive(topic)
  const kept = await keep(live, 'mine')
  await live.close()
  await kept.ended
  await expect(live.follow('mine', undefined)).rejects.toThrow(LiveUnavailableError)
  expect([topic.openReaders, topic.listeners]).toEqual([0, 0])
})
