// How dead letters are appended: in groups that fit through the queue of their log.

import { expect, test } from 'vitest'
import { type DeadLetter, openDeadLetters } from '../../pipeline/dead-letters.ts'
import { type Log, MessageRefusedError, messageSize, type OutgoingMessage } from '../../pipeline/log.ts'
import { outgoing } from './message.ts'

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
  const deadLetters = openDeadLetters({ log, topic: 'messages', logNumber: 1, writer: 'w' })
  const rejection = { message: 0, rule: 'one-value', reason: 'both v and vs', hint: 'send a record for each value' }
  const letter = (offset: number): DeadLetter => ({ stage: 'decode', partition: 0, offset, rejection, message: outgoing() })
  await deadLetters.put(Array.from({ length: 10_000 }, (_, offset) => letter(offset)))
  expect(letters).toBe(10_000)
  expect(Math.max(...groups)).toBeLessThanOrEqual(1024 * 1024)
  expect(groups.length).toBeLessThan(20)
})

test('a message too large for its letter is put aside without its content, and keeps no other from its own', async () => {
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
  const deadLetters = openDeadLetters({ log, topic: 'messages', logNumber: 1, writer: 'w' })
  const rejection = { message: 0, rule: 'payload-size', reason: 'too large', hint: 'send less' }
  const large = { payload: new Uint8Array(200_000), headers: [{ key: 'trace', value: 'x' }] }
  const letters = [
    outgoing(),
    outgoing(large),
    // One whose envelope cannot be read, and one whose envelope is what is large.
    outgoing({ ...large, key: new Uint8Array(500_000) }),
    outgoing({ channel: 'c'.repeat(200_000) }),
    outgoing(),
  ].map((message, offset): DeadLetter => ({ stage: 'decode', partition: 0, offset, rejection, message }))
  await deadLetters.put(letters.values())

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
