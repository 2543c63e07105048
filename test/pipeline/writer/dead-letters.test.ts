// How dead letters are appended: in groups that fit through the queue of their log.

import { expect, test } from 'vitest'
import { type Header, type Log, MessageRefusedError, messageSize, type OutgoingMessage } from '../../../pipeline/log.ts'
import { emptyMessage } from '../../../pipeline/source.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { type DeadLetter, deadLettersOf, openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { plainBatch } from '../../sinks/batches.ts'
import { outgoing } from '../message.ts'

test('ten thousand small letters are appended in groups of a mebibyte, headers counted', async () => {
  const groups: number[] = []
  let letters = 0
  const log: Log = {
    name: 'messages.dead-letters.w',
    id: 'id',
    append: async messages => {
      groups.push(messages.reduce((bytes, message) => bytes + messageSize(message), 0))
      letters += messages.length
      return messages.map((_, offset) => ({ partition: 0, offset }))
    },
    close: async () => undefined,
  }
  const deadLetters = openDeadLetters({ logOf: async () => log, topics: ['messages'], logIds: ['id-1'], logNumbers: [1], writer: 'w' })
  const rejection = { message: 0, rule: 'one-value', reason: 'both v and vs', hint: 'send one record per value' }
  const deadLetter = (offset: number): DeadLetter => ({ stage: 'decode', at: logPartition(0, 0), offset, rejection, message: outgoing() })
  await deadLetters.put(Array.from({ length: 10_000 }, (_, offset) => deadLetter(offset)))
  expect(letters).toBe(10_000)
  expect(Math.max(...groups)).toBeLessThanOrEqual(1024 * 1024)
  expect(groups.length).toBeLessThan(20)
})

test('letters of several logs go to the log of each, together as few appends as possible, and name the topic of each', async () => {
  const appends: string[] = []
  const opened: number[] = []
  const logOf = async (log: number) => {
    opened.push(log)
    return {
      append: async (messages: readonly OutgoingMessage[]) => {
        const value = (headers: readonly Header[], name: string) => String(headers.find(({ key }) => key === name)?.value)
        const topics = messages.map(({ headers = [] }) => `${value(headers, '__connect.errors.topic')} ${value(headers, 'sluice.log')}`)
        appends.push(`${log}: ${topics.join(', ')}`)
        return []
      },
    }
  }
  const deadLetters = openDeadLetters({
    logOf,
    topics: ['hall', 'line', 'plant'],
    logIds: ['id-1', 'id-2', 'id-3'],
    logNumbers: [7, 8, 9],
    writer: 'w',
  })
  expect(opened).toEqual([])
  const rejection = { message: 0, rule: 'one-value', reason: 'both v and vs' }
  const of = [2, 0, 2, 0].map(
    (log, offset): DeadLetter => ({ stage: 'decode', at: logPartition(log, 1), offset, rejection, message: outgoing() }),
  )
  await deadLetters.put(of)
  expect(appends).toEqual(['2: plant 9, plant 9', '0: hall 7, hall 7'])
  expect(opened).toEqual([2, 0])
})

test('a message too large for its letter is dead-lettered without its content, and does not prevent others', async () => {
  const taken: OutgoingMessage[] = []
  const log: Log = {
    name: 'messages.dead-letters.w',
    id: 'id',
    append: async messages => {
      if (messages.some(message => messageSize(message) > 100_000)) throw new MessageRefusedError('too large')
      taken.push(...messages)
      return messages.map((_, offset) => ({ partition: 0, offset }))
    },
    close: async () => undefined,
  }
  const deadLetters = openDeadLetters({ logOf: async () => log, topics: ['messages'], logIds: ['id-1'], logNumbers: [1], writer: 'w' })
  const rejection = { message: 0, rule: 'payload-size', reason: 'too large', hint: 'send less' }
  const large = { payload: new Uint8Array(200_000), headers: [{ key: 'trace', value: 'x' }] }
  const various = [
    outgoing(),
    outgoing(large),
    // One with an unreadable envelope, and one with a large envelope.
    outgoing({ ...large, key: new Uint8Array(500_000) }),
    outgoing({ channel: 'c'.repeat(200_000) }),
    outgoing(),
  ].map((message, offset): DeadLetter => ({ stage: 'decode', at: logPartition(0, 0), offset, rejection, message }))
  await deadLetters.put(various.values())

  const header = ({ headers = [] }: OutgoingMessage, name: string) => headers.find(({ key }) => key === name)?.value
  expect(taken.map(message => [header(message, 'sluice.offset'), header(message, 'sluice.shortened')])).toEqual([
    ['0', undefined],
    ['1', '200282'],
    ['2', '700282'],
    ['3', '200277'],
    ['4', undefined],
  ])
  expect(taken[1]).toMatchObject({ channel: 'c1', subtopic: 'room.temperature', createdUs: 1_700_000_000_000_000 })
  expect(taken[1]!.key).toBeUndefined()
  for (const message of taken.slice(2, 4)) expect(message).toMatchObject({ channel: '', key: null })
  for (const message of taken.slice(1, 4)) {
    expect(message.payload.byteLength).toBe(0)
    expect(header(message, 'trace')).toBeUndefined()
    expect(header(message, 'sluice.rule')).toBe('payload-size')
  }
})

test('a rejection of a message that is in no chunk is an error, after the letters of all others', () => {
  const chunk = {
    at: logPartition(0, 0),
    from: 0,
    to: 2,
    byteLength: 1,
    cursor() {
      const message = emptyMessage()
      return { message, next: () => ++message.offset < 2, key: () => null, headers: () => [] }
    },
  }
  const pending = { batch: plainBatch(0, 3), chunks: [chunk], rejections: [], firstCreatedUs: new Map(), bytes: 0, heldBytes: 0 }
  const rejections = [2, 1].map(message => ({ message, rule: 'store-refused', reason: 'no' }))
  const offsets: number[] = []
  const put = (): void => {
    for (const { offset } of deadLettersOf(pending, rejections, 'store')) offsets.push(offset)
  }
  expect(put).toThrow(
    new SystemicError('a rejection (store-refused) names message 2, which is not in its batch: this is a bug in the sink, report it'),
  )
  expect(offsets).toEqual([1])
})
