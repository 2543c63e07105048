// Several topics as one topic reader: partitions one after the other, and an id of all of them.

import { expect, test } from 'vitest'
import { beginningOf } from '../../../pipeline/live/follow.ts'
import { joinedReader } from '../../../pipeline/live/joined-reader.ts'
import type { TopicReader } from '../../../pipeline/topic-reader.ts'
import { openFakeLog } from '../fake-log.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { outgoing } from '../message.ts'

async function openTwo() {
  const logs = ['hall', 'plant'].map(name => openFakeLog(name))
  for (const log of logs) await log.append([outgoing({ channel: log.name }), outgoing({ channel: log.name })])
  await logs[1]!.append([outgoing()])
  return { logs, readers: logs.map(openFakeTopicReader) }
}

test('one topic is read as it is', async () => {
  const { readers } = await openTwo()
  expect(joinedReader(readers.slice(0, 1))).toBe(readers[0])
})

test('the partitions of the second topic follow those of the first, with their bounds and messages', async () => {
  const reader = joinedReader((await openTwo()).readers)
  expect([reader.name, reader.partitions]).toEqual(['hall, plant', 2])
  expect(await reader.bounds()).toEqual(
    new Map([
      [0, { start: 0, end: 2 }],
      [1, { start: 0, end: 3 }],
    ]),
  )
  const channels = async (partition: number): Promise<string[]> => {
    const found: string[] = []
    for await (const chunk of reader.read(partition, 0, 2)) {
      const cursor = chunk.cursor()
      while (cursor.next()) found.push(cursor.message.channel)
    }
    return found
  }
  expect(await channels(0)).toEqual(['hall', 'hall'])
  expect(await channels(1)).toEqual(['plant', 'plant'])
})

test('its id is another one with another topic or with more partitions, which move the others', async () => {
  const { readers } = await openTwo()
  const id = joinedReader(readers).id
  const grown: TopicReader = { ...readers[0]!, partitions: 2 }
  expect(joinedReader(readers).id).toBe(id)
  expect(joinedReader([grown, readers[1]!]).id).not.toBe(id)
  expect(joinedReader([...readers, openFakeTopicReader(openFakeLog('attic'))]).id).not.toBe(id)
})

test('a follower of topics that changed begins at their end, and learns that messages are missing', () => {
  const after = { log: 'a', offsets: [3], partition: 0, rows: 0 }
  const bounds = new Map([[0, { start: 1, end: 5 }]])
  expect(beginningOf(after, 'b', bounds, 'end')).toEqual({ offsets: [5], begun: undefined, lost: true })
  expect(beginningOf(after, 'b', bounds)).toEqual({ offsets: [1], begun: undefined, lost: true })
})
