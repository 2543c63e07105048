// How dead letters are appended: in groups that fit through the queue of their log.

import { expect, test } from 'vitest'
import { type DeadLetter, openDeadLetters } from '../../pipeline/dead-letters.ts'
import { type Log, messageSize } from '../../pipeline/log.ts'
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
