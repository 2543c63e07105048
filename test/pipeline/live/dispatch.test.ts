// Each message of a channel goes to one member of a group, also when members leave, and when the log loses messages.

import { expect, onTestFinished, test } from 'vitest'
import { type GroupPosition, type Member, openDispatch } from '../../../pipeline/live/dispatch.ts'
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
    end: () => expect.unreachable('the log cannot be followed'),
  }
  return worker
}

/** A group that has begun. */
async function openGroup(topic: FakeTopic, workers: readonly Worker[], after?: GroupPosition) {
  const live = openLive(topic)
  const members = new Set<Member>(workers)
  const counts = { lost: 0 }
  const parts = { live, channel: 'mine', members, isWanted: () => true, onProgress: () => undefined, onLost: () => void counts.lost++ }
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
  for (const { dones } of workers) for (const done of dones) done()
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
