// The dead letters of several topics, as one queue and one replay.

import { expect, test } from 'vitest'
import { openDeadLetterQueue } from '../../../pipeline/dead-letters/queue.ts'
import type { Replay } from '../../../pipeline/dead-letters/replay.ts'
import { queueOfSeveral, replayOfSeveral } from '../../../pipeline/dead-letters/several.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { openFakeLog } from '../fake-log.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { outgoing } from '../message.ts'

/** A queue of two topics; each letter is given by its log, its offset, and the second at which its message was created. */
async function openQueue(of: readonly (readonly [log: number, offset: number, createdSeconds: number])[]) {
  const topics = ['hall', 'plant']
  const logs = topics.map(topic => openFakeLog(`${topic}.dead-letters.w`))
  const deadLetters = openDeadLetters({
    logOf: async log => logs[log]!,
    topics,
    logIds: topics.map(topic => `id of ${topic}`),
    logNumbers: [1, 2],
    writer: 'w',
  })
  const rejection = { message: 0, rule: 'one-value', reason: 'no' }
  for (const [log, offset, seconds] of of) {
    const message = outgoing({ createdUs: seconds * 1e6 })
    await deadLetters.put([{ stage: 'decode', at: logPartition(log, 0), offset, rejection, message }])
  }
  return queueOfSeveral(logs.map(log => openDeadLetterQueue({ reader: openFakeTopicReader(log), log })))
}

test('the newest of all topics are listed, by the time of their messages', async () => {
  const queue = await openQueue([
    [0, 1, 10],
    [0, 2, 30],
    [1, 1, 20],
    [1, 2, 40],
  ])
  const page = await queue.list({}, 3)
  expect([page.total, page.letters.map(({ id, topic }) => `${id} ${topic}`)]).toEqual([4, ['2-0-1 plant', '1-0-2 hall', '2-0-2 plant']])
  expect(await queue.list({}, 0)).toEqual({ letters: [], total: 4 })
  const each: string[] = []
  for await (const { id } of queue.each({})) each.push(id)
  expect(each).toEqual(['1-0-1', '1-0-2', '2-0-1', '2-0-2'])
  expect((await queue.show('0-1')).map(({ topic }) => topic)).toEqual(['hall', 'plant'])
})

test('a drop finds each letter in its topic, and an id that does not say the topic drops nothing', async () => {
  const queue = await openQueue([
    [0, 1, 10],
    [1, 1, 20],
    [1, 2, 30],
  ])
  await expect(queue.drop({ ids: ['2-0-2', '0-1'] })).rejects.toThrow(SystemicError)
  await expect(queue.drop({ ids: ['2-0-2', '0-1'] })).rejects.toThrow('the id 0-1 does not name its topic: give <topic>-0-1')
  expect((await queue.list({}, 0)).total).toBe(3)
  expect(await queue.drop({ ids: ['1-0-1', 'plant-0-2', '2-0-9'] })).toEqual({ dropped: 2, missing: ['2-0-9'], partial: [] })
  expect((await queue.list({}, 9)).letters.map(({ id }) => id)).toEqual(['2-0-1'])
})

test('a replay adds up what was done in each topic', async () => {
  const replays = [
    { replayed: 2, left: 1, reasons: [{ id: '1-0-1', reason: 'a' }], missing: ['2-0-1', '9-0-1'] },
    { replayed: 3, left: 0, reasons: [], missing: ['1-0-1', '9-0-1'] },
  ].map(
    (report): Replay =>
      async () =>
        report,
  )
  const replay = replayOfSeveral(replays)
  expect(await replay({ ids: ['1-0-1', '2-0-1', '9-0-1'] })).toEqual({
    replayed: 5,
    left: 1,
    reasons: [{ id: '1-0-1', reason: 'a' }],
    missing: ['9-0-1'],
  })
  await expect(replay({ ids: ['0-1'] })).rejects.toThrow(SystemicError)
})
