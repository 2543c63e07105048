// Each message of a channel goes to one member of a group, also when members leave, and when the log loses messages.

import { expect, onTestFinished, test } from 'vitest'
import { type GroupPosition, type Member, openDispatch } from '../../../pipeline/live/dispatch.ts'
import type { LiveMessages } from '../../../pipeline/live/messages.ts'
import { type FakeTopic, openFakeTopic } from './fake-topic.ts'
import { openLive } from './follower.ts'

interface Worker extends Member {
  /** With a mark on those that are repeats. */
  readonly got: string[]
  readonly dones: (() => void)[]
  space: number
}

function openWorker(space = Infinity): Worker {
  const worker: Worker = {
    got: [],
    dones: [],
    space,
    hasSpace: () => worker.got.length < worker.space,
    take({ raw }, isRepeat, done) {
      worker.got.push(`${Buffer.from(raw.payload).toString()}${isRepeat ? ' again' : ''}`)
      worker.dones.push(done)
    },
  }
  return worker
}

/** A group that has begun. @param gate while it is not resolved, the log is not followed from another offset */
async function openGroup(topic: FakeTopic, workers: readonly Worker[], after?: GroupPosition, gate?: Promise<void>) {
  const live = openLive(topic)
  const members = new Set<Member>(workers)
  const counts = { lost: 0 }
  const gated: LiveMessages = {
    async follow(channel, from) {
      if (from !== undefined) await gate
      return live.follow(channel, from)
    },
  }
  const onEnd = (): never => expect.unreachable('the log cannot be followed')
  const onLost = (): void => void counts.lost++
  const parts = { live: gated, channel: 'mine', members, isWanted: () => true, onProgress: () => undefined, onLost, onEnd }
  const dispatch = await openDispatch(parts, after)
  onTestFinished(async () => {
    dispatch.stop()
    await live.close()
  })
  dispatch.start()
  const leave = (worker: Worker): void => {
    members.delete(worker)
    dispatch.left(worker)
  }
  return { ...dispatch, counts, leave }
}

const until = (worker: Worker, count: number): Promise<void> => expect.poll(() => worker.got.length).toBe(count)

test('what several members leave at once comes once each, without what others have, and without reading the log from where the group began', async () => {
  const topic = openFakeTopic(2)
  const workers = [openWorker(), openWorker(), openWorker()] as const
  const [one, two, three] = workers
  const { leave } = await openGroup(topic, workers)
  for (let at = 0; at < 300; at++) topic.appendPayload(at % 2, 'mine', `${at}`)
  await Promise.all(workers.map(worker => until(worker, 100)))
  // One of the first is not acknowledged.
  for (const done of workers.flatMap(({ dones }) => dones).slice(0, -100)) done()
  for (const done of three.dones.slice(1)) done()
  for (const payload of ['a', 'b', 'c', 'd', 'e', 'f']) topic.appendPayload(0, 'mine', payload)
  await Promise.all(workers.map(worker => until(worker, 102)))
  const left = [...one.got.slice(100), ...two.got.slice(100)]
  const read = topic.read.messages
  leave(one)
  leave(two)
  await until(three, 106)
  topic.appendPayload(0, 'mine', 'last')
  await until(three, 107)
  expect(three.got.slice(102).toSorted()).toEqual([...left.map(payload => `${payload} again`), 'last'].toSorted())
  expect(topic.read.messages - read).toBeLessThan(50)
})

test('messages that were deleted while no member had space are counted, and hold no position back', async () => {
  const topic = openFakeTopic(1)
  const [one, two] = [openWorker(1), openWorker(1)]
  const { leave, counts, position, wake } = await openGroup(topic, [one, two])
  for (const payload of ['a', 'b', 'c', 'd']) topic.appendPayload(0, 'mine', payload)
  await Promise.all([until(one, 1), until(two, 1)])
  leave(one)
  topic.deleteBelow(0, 3)
  two.space = 2
  wake()
  await until(two, 2)
  expect(two.got).toEqual(['b', 'd'])
  expect(counts.lost).toBe(1)
  for (const done of two.dones) done()
  expect(position()).toMatchObject({ acknowledged: [4], unacknowledged: [] })
})

test('of messages that were deleted before their member left only those are lost, and what was acknowledged is not given again', async () => {
  const topic = openFakeTopic(1)
  const [one, two, later] = [openWorker(), openWorker(), openWorker()]
  const { leave, counts, position } = await openGroup(topic, [one, two])
  for (const payload of ['a', 'b', 'c', 'd', 'e', 'f']) topic.appendPayload(0, 'mine', payload)
  await Promise.all([until(one, 3), until(two, 3)])
  for (const done of two.dones) done()
  const kept = position()
  topic.deleteBelow(0, 1)
  leave(one)
  await openGroup(topic, [later], kept)
  topic.appendPayload(0, 'mine', 'last')
  await Promise.all([until(two, 6), until(later, 3)])
  expect([two.got.slice(3), later.got]).toEqual([
    ['c again', 'e again', 'last'],
    ['c again', 'e again', 'last'],
  ])
  expect(counts.lost).toBe(1)
  for (const done of two.dones) done()
  expect(position()).toMatchObject({ acknowledged: [7], unacknowledged: [] })
})

test('messages that the log lost while what was left waited for space were not given, and those before them were', async () => {
  const topic = openFakeTopic(1)
  const [one, two] = [openWorker(2), openWorker(2)]
  const { leave, counts, wake } = await openGroup(topic, [one, two])
  for (const payload of ['a', 'b', 'c', 'd']) topic.appendPayload(0, 'mine', payload)
  await Promise.all([until(one, 2), until(two, 2)])
  for (const done of two.dones) done()
  one.dones[1]!()
  leave(one)
  topic.loseFrom(0, 2)
  await expect.poll(() => counts.lost).toBe(1)
  topic.appendPayload(0, 'mine', 'e')
  two.space = Infinity
  wake()
  await until(two, 4)
  expect(two.got).toEqual(['b', 'd', 'a again', 'e'])
})

test('what was left comes again though another partition loses messages before it is read', async () => {
  const topic = openFakeTopic(2)
  const [one, two] = [openWorker(), openWorker()]
  const gate = Promise.withResolvers<void>()
  const { leave, counts } = await openGroup(topic, [one, two], undefined, gate.promise)
  topic.appendPayload(0, 'mine', 'a')
  await until(one, 1)
  topic.appendPayload(1, 'mine', 'b')
  await until(two, 1)
  leave(one)
  topic.loseFrom(1, 0)
  await expect.poll(() => counts.lost).toBe(1)
  gate.resolve()
  await until(two, 2)
  expect(two.got).toEqual(['b', 'a again'])
})

test('after the log lost its last messages those in their place arrive', async () => {
  const topic = openFakeTopic(1)
  const one = openWorker()
  const { counts, position } = await openGroup(topic, [one])
  for (const payload of ['a', 'b', 'c']) topic.appendPayload(0, 'mine', payload)
  await until(one, 3)
  one.dones[1]!()
  const kept = position()
  expect(kept).toMatchObject({
    acknowledged: [0],
    taken: [3],
    unacknowledged: [
      [0, 0],
      [0, 2],
    ],
  })
  topic.loseFrom(0, 1)
  await expect.poll(() => counts.lost).toBe(1)
  const later = openWorker()
  await openGroup(topic, [later], kept)
  topic.appendPayload(0, 'mine', 'd')
  await Promise.all([until(one, 4), until(later, 2)])
  expect([one.got[3], later.got]).toEqual(['d', ['a again', 'd']])
})
